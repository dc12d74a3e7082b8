"""Text from the wild through `translate`, as an argument, in a file and by stdin: one result or one error a line."""

import functools
import gzip
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seq2seq import cli, translate
from seq2seq.config import parse_config
from seq2seq.config.schema import Tokenizer, TokenizerKind
from seq2seq.data.tokenizer import EOS, train_tokenizer
from seq2seq.inference.translator import Translator
from seq2seq.model import build_model
from tests.helpers import ROOT

ALPHABET = [
    "你好，。！？；：“”（）…—、abcdefghijklmnopqrstuvwxyzABC 0123456789",
    ".,!?;:'\"<>/=&#@%+-_()[]{}|~*^`$\\",
    "é\u1ea1\u0301 שלום مرحبا 👩💻❤🔥\u200d\ufe0f ガか ㎏",
]


@functools.cache
def translator(kind: TokenizerKind = "characters") -> Translator:
    """A small model without sense, of Chinese to English, whose translations end early."""
    source, target = (
        train_tokenizer(ALPHABET, Tokenizer(kind=kind, character_coverage=1.0), language, side)
        for side, language in (("source", "zh"), ("target", "en"))
    )
    sizes = ("encoder.hidden_size=8", "decoder.hidden_size=16", "encoder.embedding_size=8", "decoder.embedding_size=8")
    config = parse_config("", [*sizes, "search.beam=2", "search.max_source_tokens=50"])
    torch.manual_seed(0)
    model = build_model(config, source.size, target.size).eval()
    with torch.no_grad():
        model.decoder.output_bias[EOS] = 3.0
    return Translator(model, source, target, config.search, "en")


@pytest.fixture
def _wild(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`translate` takes the small model of this file."""
    monkeypatch.chdir(home)
    monkeypatch.setattr(Translator, "load", lambda *_: translator())


Shown = tuple[int, str, str]
"""Exit status, stdout, stderr."""


def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str, stdin: bytes = b""
) -> Shown:
    """`translate` in this process."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
    status = cli.run(translate.arguments(), translate.main, arguments)
    return status, *capsys.readouterr()


# What is one line of a file, and what the model reads of it: the tokens of the source, here characters.
LINES = {
    "empty": ("", ""),
    "blank": (" \t\u00a0\u3000\u2003 ", ""),
    "50,000 characters in sentences": ("你好，ab好。" * 6250 + "你好", "你好,ab好。" * 6250 + "你好"),
    "50,000 times one character": ("好" * 50_000, "好" * 50_000),
    "50,000 unknown characters": ("𐤀" * 50_000, "<unk>" * 50_000),
    "50,000 combining marks": (
        "a" + "\u0301\u0323" * 25_000,
        "\u1ea1" + "<unk>" * 24_999 + "\u0301" * 25_000,
    ),
    "control characters": ("\x00你\x00好\x07\x1b[1m\x7f\x9b", "你好[1m"),
    "BOM at the start": ("\ufeff你好", "你好"),
    "BOM in the middle": ("你\ufeff好", "你好"),
    "two BOMs": ("\ufeff\ufeff你好\ufeff", "你好"),
    "lone carriage return": ("你\r好", "你▁好"),
    "carriage return at the end": ("你好\r", "你好"),
    "U+0085": ("你\u0085好", "你▁好"),
    "U+2028": ("你\u2028好\u2028", "你▁好"),
    "U+2029": ("\u2029你\u2029好", "你▁好"),
    "vertical tab, form feed, separators": ("a\x0bb\x0cc\x1cd\x1de", "a▁b▁cde"),
    "tab": ("\t你\t\t好\t", "你▁好"),
    "zero-width": ("你\u200b好\u2060\u00ad", "你好"),
    "emoji with joiners": ("👩\u200d💻好❤\ufe0f\u200d🔥", "👩\u200d💻好❤\ufe0f\u200d🔥"),
    "joiners without emoji": ("你\u200d好\u200c", "你好"),
    "combining mark": ("cafe\u0301", "caf\u00e9"),
    "combining marks out of order": ("a\u0301\u0323", "\u1ea1\u0301"),
    "right to left": ("\u200fשלום\u200e \u202bمرحبا\u202c", "שלום▁مرحبا"),
    "full-width": ("ＡＢＣ１２３，（ａ）！", "ABC123,(a)!"),
    "half-width katakana": ("ｶﾞ", "ガ"),
    "compatibility": ("㎏", "kg"),
    "traditional Chinese": ("你們好", "你<unk>好"),
    "nothing known": ("𐤀𐤁", "<unk><unk>"),
    "only punctuation": ("……！？”，。", "......!?”,。"),
    "HTML": ("<b>你好</b>&nbsp;&amp;<br/>", "<b>你好</b>&nbsp;&amp;<br/>"),
    "XML": ("<a b='c'>好</a><!-- x -->", "<a▁b='c'>好</a><!--▁x▁-->"),
    "what looks special": ("<s>你</s><unk><pad>▁", "<s>你</s><unk><pad>"),
    "what looks like a link or JSON": ('{"a": 1} ||| 0-0\\n', '{"a":▁1}▁|||▁0-0\\n'),
    "not a character": ("你\ufffe好\uffff", "你好"),
    "private use": ("你\ue000", "你<unk>"),
}

LONG = [name for name, (raw, _) in LINES.items() if len(raw) > 1000]


def lines_of(stdout: str, count: int) -> list[str]:
    """The lines, of which there are as many as asked for, whatever a reader takes for an end of line."""
    assert stdout == "" or stdout.endswith("\n")
    lines = stdout.split("\n")[:-1]
    assert stdout.splitlines() == lines
    assert len(lines) == count
    return lines


@pytest.mark.usefixtures("_wild")
@pytest.mark.parametrize("channel", ["argument", "file", "stdin"])
@pytest.mark.parametrize(("raw", "read"), LINES.values(), ids=LINES)
def test_one_line_of_any_text_is_read_clean_and_gives_one_line(
    channel: str,
    raw: str,
    read: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = f"{raw}\n".encode()
    (tmp_path / "in.txt").write_bytes(content)
    given = {"argument": ["--", raw], "file": ["--input", str(tmp_path / "in.txt")], "stdin": ["--input", "-"]}[channel]
    status, stdout, stderr = run(capsys, monkeypatch, "--json", *given, stdin=content)
    assert (status, stderr) == (0, "")
    (line,) = lines_of(stdout, 1)
    found = json.loads(line, parse_constant=pytest.fail)
    assert "".join(token for token in found["source_tokens"] if token != "</s>") == read
    assert bool(found["target_tokens"]) == bool(read)
    assert run(capsys, monkeypatch, *given, stdin=content) == (0, f"{found['text']}\n", "")


@pytest.mark.usefixtures("_wild")
@pytest.mark.parametrize("option", [[], ["--json"], ["--alignments"], ["--json", "--alignments"]], ids=" ".join)
@pytest.mark.parametrize("to_file", [False, True])
def test_all_lines_together_give_a_line_each_in_order(
    option: list[str],
    to_file: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raws = [raw for name, (raw, _) in LINES.items() if name not in LONG or name.endswith("in sentences")]
    content = "".join(f"{raw}\r\n" for raw in raws).encode()
    more = ["--output", str(tmp_path / "out.txt")] if to_file else []
    status, stdout, stderr = run(capsys, monkeypatch, *option, "--input", "-", *more, stdin=content)
    assert (status, stderr) == (0, "")
    if to_file:
        assert stdout == ""
        stdout = (tmp_path / "out.txt").read_bytes().decode()
    # A BOM that begins the file is no text, one that begins another line is dropped by cleaning.
    alone = [run(capsys, monkeypatch, *option, "--", raw)[1] for raw in raws]
    lines = lines_of(stdout, len(raws))
    if "--json" not in option:
        assert lines == [text.removesuffix("\n") for text in alone]
    for line, text in zip(lines, alone, strict=True):
        if "--json" in option:  # the floats depend on the company a little
            here, there = json.loads(line), json.loads(text)
            assert here.keys() == there.keys()
            assert here["source_tokens"] == there["source_tokens"] and here["text"] == there["text"]


@pytest.mark.usefixtures("_wild")
def test_the_json_of_a_long_text_has_its_pieces_with_their_attention(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "你好。" * 20
    _, stdout, _ = run(capsys, monkeypatch, "--json", "--alignments", text, "你好")
    long, short = map(json.loads, lines_of(stdout, 2))
    assert long["attention"] is None and "pieces" not in short
    assert len(long["pieces"]) == 20
    assert [token for piece in long["pieces"] for token in piece["source_tokens"]] == long["source_tokens"]
    for piece in long["pieces"]:
        assert piece["source_tokens"] == ["你", "好", "。", "</s>"]
        assert len(piece["attention"]) == len(piece["target_tokens"])
        assert {len(row) for row in piece["attention"]} == {4}
    assert long["alignment"] == [list(link) for link in translator().translate([text], attention=True)[0].alignment()]


@pytest.mark.usefixtures("_wild")
def test_the_attention_of_a_long_text_is_shown_and_drawn_by_pieces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "你好。" * 15 + "你，" * 14
    assert len(translator().translate([text])[0].pieces) == 16
    _, stdout, _ = run(capsys, monkeypatch, "--attention", "-", text)
    assert stdout.count("\n\n") == 16
    run(capsys, monkeypatch, "--attention", str(tmp_path / "a.html"), text)
    assert {path.name for path in tmp_path.iterdir()} == {f"a-{piece}.html" for piece in range(1, 17)}
    run(capsys, monkeypatch, "--attention", str(tmp_path / "b.html"), "你", text)
    assert {path.name for path in tmp_path.glob("b*")} == {"b-1.html", *(f"b-2-{piece}.html" for piece in range(1, 17))}


GZIP = gzip.compress(b"".join(b"%d\n" % (n * n) for n in range(50_000)), mtime=0)

# A whole file: its name, its content, the lines that are translated, and the error after them.
FILES = {
    "empty": ("a.txt", b"", 0, None),
    "only a BOM": ("a.txt", b"\xef\xbb\xbf", 0, None),
    "one empty line": ("a.txt", b"\n", 1, None),
    "empty lines": ("a.txt", b"\n\r\n\n", 3, None),
    "no final newline": ("a.txt", "你\n好".encode(), 2, None),
    "no final newline after a carriage return": ("a.txt", b"a\nb\r", 2, None),
    "CRLF": ("a.txt", b"a\r\nb\r\n", 2, None),
    "CR alone": ("a.txt", b"a\rb\rc", 1, None),
    "invalid UTF-8": ("a.txt", b"a\nb\nc\xff\nd\n", 2, "{}, line 3: not valid UTF-8 (byte 0xff at byte 2 of the line)"),
    "invalid UTF-8 after a BOM": (
        "a.txt",
        b"\xef\xbb\xbf\xc3\n",
        0,
        "{}, line 1: not valid UTF-8 (byte 0xc3 at byte 1 of the line)",
    ),
    "cut within a character": ("a.txt", "a\n好".encode()[:-1], 1, "{}, line 2: not valid UTF-8 (byte 0xe5 at byte 1"),
    "an encoded surrogate": ("a.txt", b"\xed\xa0\x80", 0, "{}, line 1: not valid UTF-8 (byte 0xed at byte 1"),
    "overlong": ("a.txt", b"\xc0\x80", 0, "{}, line 1: not valid UTF-8 (byte 0xc0 at byte 1"),
    "GBK": ("a.txt", "a\n你好\n".encode("gbk"), 1, "{}, line 2: not valid UTF-8 (byte 0xc4 at byte 1"),
    "UTF-16": ("a.txt", "a\n".encode("utf-16"), 0, "{}, line 1: not valid UTF-8 (byte 0xff at byte 1"),
    "gzip": ("a.gz", gzip.compress(b"a\n\nb"), 3, None),
    "an empty file named .gz": ("a.gz", b"", 0, None),
    "text named .gz": ("a.gz", b"a\nb\n", 0, "{}: damaged or cut short after line 0 (Not a gzipped file"),
    "gzip cut in its head": ("a.gz", GZIP[:5], 0, "{}: damaged or cut short after line 0"),
    "gzip not named so": ("a.txt", GZIP[:100], 0, "{}, line 1: not valid UTF-8 (byte 0x8b at byte 2 of the line)"),
}


@pytest.mark.usefixtures("_wild")
@pytest.mark.parametrize(("name", "content", "count", "error"), FILES.values(), ids=FILES)
def test_a_file_gives_a_line_for_each_line_up_to_the_first_error(
    name: str,
    content: bytes,
    count: int,
    error: str | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path, output = tmp_path / name, tmp_path / "out.txt"
    path.write_bytes(content)
    channels = [(str(path), str(path), b"")] + ([] if name.endswith(".gz") else [("-", "stdin", content)])
    for source, shown, stdin in channels:
        status, stdout, stderr = run(capsys, monkeypatch, "--input", source, stdin=stdin)
        lines_of(stdout, count)
        assert status == (2 if error else 0)
        assert len(stderr.splitlines()) == bool(error)
        if error:
            assert f"error: {error.format(shown)}" in stderr
        # A file is written whole or not at all.
        assert run(capsys, monkeypatch, "--input", source, "--output", str(output), stdin=stdin) == (status, "", stderr)
        assert output.exists() == (error is None)
        if error is None:
            assert output.read_text("utf-8") == stdout
            output.unlink()


@pytest.mark.usefixtures("_wild")
def test_a_gzip_that_ends_early_is_translated_up_to_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.gz").write_bytes(GZIP[:2000])
    status, stdout, stderr = run(capsys, monkeypatch, "--beam", "1", "--input", str(tmp_path / "a.gz"))
    count = stdout.count("\n")
    assert status == 2 and count > 100
    assert f"a.gz: damaged or cut short after line {count} (" in stderr
    assert len(stderr.splitlines()) == 1


@pytest.mark.usefixtures("_wild")
def test_a_folder_a_missing_file_and_a_closed_stdin_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, error in ((tmp_path, "is a folder, not a file"), (tmp_path / "none", "no such file")):
        status, stdout, stderr = run(capsys, monkeypatch, "--input", str(name))
        assert (status, stdout, len(stderr.splitlines())) == (2, "", 1)
        assert f"{name}: {error}" in stderr
    monkeypatch.setattr(sys, "stdin", None)
    assert cli.run(translate.arguments(), translate.main, ["--input", "-"]) == 2
    assert "error: stdin is closed; pipe text into it, or name a file with --input\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("texts", "error"),
    [
        (["a\udcff"], "TEXT 1: not valid UTF-8 (byte 0xff at byte 2 of the text); give it in UTF-8"),
        (["a", "", "好\udcc3"], "TEXT 3: not valid UTF-8 (byte 0xc3 at byte 4 of the text)"),
        (["a\ud800"], "TEXT 1: not valid UTF-8 (lone surrogate U+D800 at character 2 of the text)"),
        (["好\udfff", "\udcff"], "TEXT 1: not valid UTF-8 (lone surrogate U+DFFF at character 2 of the text)"),
    ],
)
def test_an_argument_that_is_no_unicode_is_refused_before_anything_is_translated(
    texts: list[str],
    error: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    status, stdout, stderr = run(capsys, monkeypatch, *texts, "--output", str(tmp_path / "o"), "--model", "nowhere")
    assert (status, stdout, len(stderr.splitlines())) == (2, "", 1)
    assert f"error: {error}" in stderr
    assert not (tmp_path / "o").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="arguments are no bytes there")
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_bytes_on_the_command_line_that_are_no_utf8_are_one_line(locale: str, home: Path) -> None:
    line: list[str | bytes] = [sys.executable, "-m", "seq2seq.translate", "12", b"3\xff"]
    done = subprocess.run(line, cwd=home, env={"PYTHONPATH": str(ROOT), "LC_ALL": locale}, capture_output=True)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.endswith(b"error: TEXT 2: not valid UTF-8 (byte 0xff at byte 2 of the text); give it in UTF-8\n")
    assert done.stderr.count(b"\n") == 1


def test_lone_surrogates_are_dropped_in_python() -> None:
    (found,) = translator().translate(["你\ud83d好\udc00"])
    assert found.source_tokens == ["你", "好", "</s>"]


ANY = st.text(st.characters(exclude_categories=[]), max_size=40) | st.text(
    st.sampled_from("你好。，ab .!?\x00\r\t\x85\u2028\u200d\ufeff👩💻❤\ufe0f\u0301\ud800▁<s>"), max_size=120
)
KINDS: list[TokenizerKind] = ["unigram", "bpe", "characters", "words"]


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=30)
@given(texts=st.lists(ANY, max_size=5))
def test_python_translates_any_texts_to_one_line_each(kind: TokenizerKind, texts: list[str]) -> None:
    found = translator(kind).translate(texts, beam=2, attention=True)
    assert len(found) == len(texts)
    for each in found:
        assert each.text == " ".join(each.text.split())
        assert each.attention is not None and len(each.attention) == len(each.target_tokens)
        assert all(0 <= s < len(each.source_tokens) and t < len(each.target_tokens) for s, t in each.alignment())
        assert each.score <= 0


# The fixtures are the same for every example.
@pytest.mark.usefixtures("_wild")
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(ANY.map(lambda text: text.encode(errors="ignore").replace(b"\n", b" ")), max_size=5),
    ended=st.booleans(),
)
def test_the_command_translates_any_lines_to_as_many(
    texts: list[bytes],
    ended: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = b"".join(text + b"\n" for text in texts)
    if not ended and texts and texts[-1].removeprefix(b"\xef\xbb\xbf" if len(texts) == 1 else b""):
        content = content[:-1]
    (tmp_path / "in.txt").write_bytes(content)
    piped = run(capsys, monkeypatch, "--input", "-", stdin=content)
    lines_of(piped[1], len(texts))
    assert (piped[0], piped[2]) == (0, "")
    assert run(capsys, monkeypatch, "--input", str(tmp_path / "in.txt")) == piped
    if texts:
        assert run(capsys, monkeypatch, "--", *(text.decode() for text in texts)) == piped


@pytest.mark.usefixtures("_wild")
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=60))
def test_any_bytes_give_their_lines_or_one_error(
    content: bytes, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    status, stdout, stderr = run(capsys, monkeypatch, "--input", "-", stdin=content)
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    lines = lines if lines[-1] else lines[:-1]
    valid = 0
    while valid < len(lines) and lines[valid].decode(errors="ignore").encode() == lines[valid]:
        valid += 1
    lines_of(stdout, valid)
    assert status == (0 if valid == len(lines) else 2)
    assert stderr.count("\n") == (valid != len(lines))
    assert valid == len(lines) or f"stdin, line {valid + 1}: not valid UTF-8" in stderr
