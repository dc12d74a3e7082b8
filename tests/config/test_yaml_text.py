"""YAML of a stranger is read in bounded time and memory, or refused in one line."""

import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.config import load_config
from seq2seq.config.yaml_text import MAX_BYTES, dump_yaml, flow, parse_yaml, printable, read_yaml, shown
from seq2seq.errors import UserError

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
MOST = MAX_BYTES - 10
BOMBS = [
    (LAUGHS, "line 2: not valid YAML: *a repeats what stands elsewhere; write it out"),
    ("a: &a [*a]", "line 1: not valid YAML: *a repeats"),
    ("a: &a {b: 1}\nc:\n  <<: *a", "line 3: not valid YAML: *a repeats"),
    ("*none", "line 1: not valid YAML: *none repeats"),
    ("[" * MOST, "line 1: not valid YAML: nested more than 20 deep, which no setting is"),
    ("{a: " * (MOST // 4), "nested more than 20 deep"),
    ("- " * (MOST // 2), "nested more than 20 deep"),
    ("? " * (MOST // 2), "nested more than 20 deep"),
    ("data: {extra: [" + "x," * (MOST // 3), "line 1: not valid YAML: over 10,000 keys and values"),
    ("\n".join(f"k{n}: 1" for n in range(MOST // 10)), "line 5000: not valid YAML: over 10,000 keys and values"),
    ("\n".join(" " * depth + "a:" for depth in range(600)), "line 20: not valid YAML: nested more than 20 deep"),
    (
        "seed: " + "9" * 5000,
        "line 1: not valid YAML: a number of 5000 digits, which no setting takes; put it in quotes",
    ),
    ("seed: -0" + "1" * 5000, "a number of 5002 digits"),
    ("seed: 0x" + "f" * 5000, "a number of 5002 digits"),
    ("seed: 1\nseed: 2", "line 2: not valid YAML: key 'seed' stands twice; leave one out"),
    ("a: {b: 1, 'b': 2}", "line 1: not valid YAML: key 'b' stands twice"),
    ("a: 1\n2: b", "line 2: not valid YAML: a key is text: put 2 in quotes"),
    ("true: b", "a key is text: put true in quotes"),
    ("? \n: b", "a key is text: put null in quotes"),
    ("1e3: b", "a key is text: put 1000.0 in quotes"),
    ("? [1, {2: 3}]\n: 2", "line 1: not valid YAML: a key is text: put 2 in quotes"),
    ("? [1]\n: 2", "line 1: not valid YAML: a key is text: put [1] in quotes"),
    ("a: !!python/object/apply:os.system [ls]", "tag:yaml.org,2002:python/object/apply:os.system is a tag, which no"),
    ("!!map {a: 1}", "tag:yaml.org,2002:map is a tag"),
    ("a: !!bool maybe", "is a tag, which no setting needs; leave it out, or put text in quotes"),
    ("a: !!timestamp x", "is a tag"),
    ("a: !!int", "is a tag"),
    ("a: !!binary x", "is a tag"),
    ("? !!merge <<\n: {a: 1}", "is a tag"),
    ("a: ! 5", "! is a tag"),
    ("!" + "x" * MOST, "line 1: not valid YAML: !xxx"),
    ("a: 1\nb: x\0y", "line 2: not valid YAML: character U+0000 is not allowed; take it out"),
    ("a: \x1b[31m", "line 1: not valid YAML: character U+001B is not allowed"),
    ('a: 1\nb: "\\ud83d"', "line 2: not valid YAML: half of a surrogate pair is no character"),
    ('"\\udc00": 1', "line 1: not valid YAML: half of a surrogate pair"),
    ('a: "\\UFFFFFFFF"', "not valid YAML: "),
    ("%YAML " + "9" * 5000 + ".1\n--- a", "not valid YAML: "),
    ("a: [", "line 1: not valid YAML: while parsing a flow node expected the node content"),
    ("a: 1\n--- \nb: 2", "line 2: not valid YAML: expected a single document in the stream but found another document"),
    ("a: 1\n\tb: 2", "line 2: not valid YAML: while scanning for the next token found character '\\t'"),
    ("a: `x`", "line 1: not valid YAML: while scanning for the next token found character '`'"),
    ("@" * MOST, "line 1: not valid YAML: "),
    ('"' + "x" * MOST, "not valid YAML: while scanning a quoted scalar found unexpected end of stream"),
]


@pytest.mark.parametrize(("text", "message"), BOMBS, ids=[message[-50:] for _, message in BOMBS])
def test_a_bomb_is_refused_in_one_line_and_little_memory(text: str, message: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(UserError) as caught:
            parse_yaml(text, "config")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith("config")
    assert message in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300
    assert peak < 20_000_000


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[1, -2, 0o10, 0x1F, 010]", [1, -2, 8, 31, 10]),
        ("[1.5, .5, 1., 1e3, -.inf]", [1.5, 0.5, 1.0, 1000.0, float("-inf")]),
        ("[true, False, ~, null, x]", [True, False, None, None, "x"]),
        (
            "[no, on, y, 2001-01-01, 12:30, 1_000, =, 0b1]",
            ["no", "on", "y", "2001-01-01", "12:30", "1_000", "=", "0b1"],
        ),
        ("{a: &b 1, 'c d': \"é\\u4e2d\"}", {"a": 1, "c d": "é中"}),
        ("a: 1\r\nb: 2\r\n", {"a": 1, "b": 2}),
        ("# nothing", None),
    ],
)
def test_the_core_schema_of_yaml_is_read(text: str, value: Any) -> None:
    assert parse_yaml(text, "config")[0] == value


def test_every_key_and_item_has_its_line() -> None:
    lines = parse_yaml("a:\n  b: 1\n  c:\n    - x\n    - d: 2\n      e: 3\n", "config")[1]
    assert lines == {
        ("a",): 1,
        ("a", "b"): 2,
        ("a", "c"): 3,
        ("a", "c", "0"): 4,
        ("a", "c", "1"): 5,
        ("a", "c", "1", "d"): 5,
        ("a", "c", "1", "e"): 6,
    }


def allowed(text: str) -> bool:
    """Whether YAML may hold the text, escaped where need be."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


TEXT = st.text().filter(allowed) | st.sampled_from(["1e5", "0o10", "no", "~", "", "1_000", "12:30", "<<", "*a", "!a"])
SCALARS = st.none() | st.booleans() | st.integers(-(10**50), 10**50) | st.floats(allow_nan=False) | TEXT
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=8)


@settings(deadline=None)
@given(VALUES)
def test_a_value_in_one_line_reads_back_equal(value: Any) -> None:
    line = flow(value)
    assert line.isprintable()
    again = parse_yaml(line, "")[0]
    assert again == value
    assert repr(again) == repr(value), "1, 1.0 and true are equal, too"


@settings(deadline=None)
@given(st.dictionaries(TEXT, VALUES, min_size=1))
def test_a_document_that_is_written_reads_back_equal(document: dict[str, Any]) -> None:
    assert parse_yaml(dump_yaml(document), "")[0] == document


def test_what_a_message_shows_is_short_and_in_one_line() -> None:
    assert shown({"a": [True, None, "no", 1e-5, "1e5", "a b"]}) == '{a: [true, null, no, 1e-05, "1e5", "a b"]}'
    assert shown("x" * 500) == "x" * 97 + "..."
    assert shown(["a\nb", "\u202e\x1b"]) == '["a\\nb", "\\u202e\\x1b"]'
    assert printable("a\nbcd", 4) == "a..."


def refusal(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        load_config(path)
    assert str(caught.value).isprintable()
    return str(caught.value)


def test_a_file_that_is_none_is_said_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    assert refusal(path) == f"{path}: no such config file; see configs/ for some to start from"
    assert refusal(tmp_path) == f"{tmp_path}: is a folder, not a config file; configs/ holds some to start from"
    assert f"{path}\\x00: cannot be read" in refusal(Path(f"{path}\0"))
    assert "a\\nb: " in refusal(tmp_path / "a\nb")
    assert "xxx: " in refusal(tmp_path / ("x" * 5000))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"seed: 1\n\xff", "line 2: cannot be read as UTF-8 text (byte 0xff); save it as UTF-8"),
        ("seed: 1".encode("utf-16"), "line 1: cannot be read as UTF-8 text (byte 0xff)"),
        (b"\xef\xbb\xbfseed: 1\n# \xe9", "line 2: cannot be read as UTF-8 text (byte 0xe9)"),
        (bytes(range(128)) * 10, "line 1: not valid YAML: character U+0000 is not allowed"),
        (b"a: 1\n" * MAX_BYTES, "over 200,000 bytes, so no config file"),
    ],
)
def test_a_file_of_something_else_is_said_in_one_line(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(content)
    assert message in refusal(tmp_path / "a.yaml")


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xef\xbb\xbfseed: 7\r\n")
    assert load_config(tmp_path / "a.yaml").seed == 7


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_or_a_device_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        assert refusal(path) == f"{path}: is a pipe or a device, not a config file; save the configuration as a file"


def test_a_file_is_read_no_further_than_a_config_may_be_long(tmp_path: Path) -> None:
    with (tmp_path / "a.yaml").open("wb") as file:
        file.truncate(10**8)
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match="over 200,000 bytes"):
            read_yaml(tmp_path / "a.yaml")
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
