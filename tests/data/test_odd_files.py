"""Odd training files: each is read right, or refused in one line; text and ids never disagree."""

import gzip
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seq2seq.config import Config
from seq2seq.data.budget import check_budget
from seq2seq.data.cleaning import normalize
from seq2seq.data.corpus import Pair
from seq2seq.data.prepare import Prepared, encode, prepare
from seq2seq.errors import UserError

LINES = [f"{n}\t{n * 7}" for n in range(1000, 1100)]
BYTES = "".join(f"{line}\n" for line in LINES).encode()


@pytest.fixture(params=[True, False], ids=["normalised", "as it is"])
def normalised(request: pytest.FixtureRequest) -> str:
    return f"data.cleaning.normalize={str(request.param).lower()}"


def held_out(folder: Path) -> list[str]:
    path = folder / "held.tsv"
    path.write_text("900\t901\n", encoding="utf-8")
    return [f"data.dev={path}", f"data.test={path}"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.tsv", b"", "data.train: {path} holds no sentence pair; give a file with source<TAB>target lines"),
        ("blank.tsv", b"\n \n\t\n\r\n", "data.train: {path} holds no sentence pair; give a file with"),
        ("a.tsv", None, "{path}: is a folder, not a file; name a file in it"),
        ("a.tsv.gz", gzip.compress(BYTES)[:-20], "{path}: damaged or cut short after line "),
        ("a.tsv.gz", BYTES, "{path}: damaged or cut short after line 0 "),
        ("a.tsv", BYTES + b"caf\xe9\tcoffee\n", "{path}, line 101: not valid UTF-8 (byte 0xe9 at byte 4 of the line)"),
        ("a.tsv", BYTES + b"no tab", "{path}, line 101: no tab; write the source, a tab and the target in each line"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_line(
    config, tmp_path: Path, normalised: str, name: str, content: bytes | None, message: str
) -> None:
    path = tmp_path / name
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        prepare(config(f"data.train={path}", normalised), tmp_path)
    assert str(caught.value).startswith(message.format(path=path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "data.train: {zh} and {en} holds no sentence pair; give two files of as many lines"),
        (None, "{en}: is a folder, not a file; name a file in it"),
        (gzip.compress(BYTES)[:-20], "{en}: damaged or cut short after line "),
        (gzip.compress(b"\xff\n"), "{en}, line 1: not valid UTF-8"),
        (gzip.compress(b"1\n2\n"), "{zh} has 0 lines and {en} has 2, they must match line by line"),
    ],
)
def test_a_pair_of_files_that_cannot_be_used_is_refused_in_one_line(
    config, tmp_path: Path, normalised: str, content: bytes | None, message: str
) -> None:
    zh, en = tmp_path / "a.zh", tmp_path / "a.en.gz"
    zh.touch()
    en.mkdir() if content is None else en.write_bytes(content or gzip.compress(b""))
    with pytest.raises(UserError) as caught:
        prepare(config(f"data.train={{source: {zh}, target: {en}}}", normalised), tmp_path)
    assert str(caught.value).startswith(message.format(zh=zh, en=en))
    assert "\n" not in str(caught.value)


def test_a_file_without_a_final_newline_is_read_to_its_end(config, tmp_path: Path, normalised: str) -> None:
    (tmp_path / "a.tsv").write_bytes(BYTES[:-1])
    prepared = prepare(config(f"data.train={tmp_path}/a.tsv", normalised, *held_out(tmp_path)), tmp_path)
    assert ["\t".join(pair) for pair in prepared.pairs("train")] == LINES


def test_tabs_and_foreign_line_ends_in_sentences_put_nothing_out_of_step(
    config, tmp_path: Path, normalised: str
) -> None:
    (tmp_path / "a").write_bytes("a\tb\rc\u0085d\u2028e\r\r\n\ufefff\r\r\n\ng".encode())
    (tmp_path / "b").write_bytes("\t1\n2\u2028\t\n3\n4\r".encode())
    sets = (f"data.train={{source: {tmp_path}/a, target: {tmp_path}/b}}", normalised, *held_out(tmp_path))
    expected = [("a b c\u0085d\u2028e ", " 1"), ("f ", "2\u2028 "), ("g", "4 ")]
    if normalised.endswith("true"):
        expected = [("a b c d e", "1"), ("f", "2"), ("g", "4")]
    prepared = prepare(config(*sets), tmp_path)
    assert list(prepared.pairs("train")) == expected
    assert prepared.origins().describe([2, 1]) == f"{tmp_path}/a and {tmp_path}/b, lines 2, 4"


@pytest.mark.parametrize("kind", ["unigram", "bpe", "characters", "words"])
def test_a_line_of_50000_characters_is_dropped_or_named_when_batches_are_too_small_for_it(
    config, tmp_path: Path, normalised: str, kind: str
) -> None:
    long = "x9 " * 16_666 + "yy"
    (tmp_path / "a.tsv").write_bytes(BYTES + f"{long}\t{long}\n".encode())
    tokenizer = f"{{kind: {kind}, vocabulary_size: 60}}"
    sets = [f"data.train={tmp_path}/a.tsv", normalised, *held_out(tmp_path)]
    sets += [f"tokenizer.source={tokenizer}", f"tokenizer.target={tokenizer}"]
    assert len(prepare(config(*sets), tmp_path).pairs("train")) == 100
    prepared = prepare(config(*sets, "data.cleaning.max_characters=null"), tmp_path)
    assert prepared.pairs("train")[100] == Pair(long, long)
    assert len(prepared.store("train").source[100]) >= 16_667
    with pytest.raises(UserError, match=r"^training\.batch_tokens: 700 .*a\.tsv, line 101\); raise it to \d+ or more"):
        check_budget(prepared, 700)


WILD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=12) | st.text(
    st.sampled_from("a\t\r\x00\x0b\x1c\x85\u2028\ufeff\u2581\u200b\u3000é你好👩\u200d💻<s>"), max_size=12
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(WILD, WILD), max_size=8), st.sampled_from(["unigram", "characters", "words"]), st.booleans())
@example([("\ufeffx", "\ufeff"), ("a\r", "b\r"), ("\r", "\t"), ("\t\ufeffa", "b\t\t")], "unigram", False)
def test_wild_text_is_read_back_as_it_was_encoded(
    config, lines: list[tuple[str, str]], kind: str, normalise: bool
) -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        check_wild(config, folder, [*lines, ("ab", "cd")], kind, normalise)
    finally:
        shutil.rmtree(folder)


def check_wild(config, folder: Path, lines: list[tuple[str, str]], kind: str, normalise: bool) -> None:
    for side, name in enumerate("ab"):
        # \r\n ends each line, so that a \r before it is the sentence's own.
        (folder / name).write_bytes("".join(f"{line[side]}\r\n" for line in lines).encode())
    pair, tokenizer = f"{{source: {folder}/a, target: {folder}/b}}", f"{{kind: {kind}, vocabulary_size: 300}}"
    off = f"{{normalize: {str(normalise).lower()}, drop_empty: false, max_ratio: null, drop_duplicates: false}}"
    sets = [f"data.{part}={pair}" for part in ("train", "dev", "test")]
    sets += [f"tokenizer.source={tokenizer}", f"tokenizer.target={tokenizer}", f"data.cleaning={off}"]
    settings: Config = config(*sets)
    prepared = prepare(settings, folder)
    assert len(prepared.pairs("train")) == len(lines)
    for (source, target), (raw_source, raw_target) in zip(prepared.pairs("train"), lines, strict=True):
        assert normalize(source) == normalize(raw_source) and normalize(target) == normalize(raw_target)
    for part in ("train", "dev", "test"):
        assert_text_and_ids_agree(prepared, part)


def assert_text_and_ids_agree(prepared: Prepared, part: str) -> None:
    again = encode(prepared.pairs(part), prepared.tokenizer("source"), prepared.tokenizer("target"))
    store = prepared.store(part)
    for side in ("source", "target"):
        ours, theirs = getattr(again, side), getattr(store, side)
        assert np.array_equal(ours.ids, theirs.ids) and np.array_equal(ours.offsets, theirs.offsets)
