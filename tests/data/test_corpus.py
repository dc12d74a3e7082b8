"""Parallel text from files and named corpora."""

import gzip
import hashlib
import random
import sys
from pathlib import Path

import pytest

from seq2seq.config.schema import CorpusSpec, FilePair
from seq2seq.data.corpus import NAMED_CORPORA, Pair, content_digest, provenance, read_pairs
from seq2seq.errors import UserError


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8", newline="")
    return str(path)


def read(spec, source: str = "zh", target: str = "en") -> list[Pair]:
    return list(read_pairs(spec, source, target))


def test_tsv_takes_two_columns_and_yields_blank_lines_as_empty_pairs(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "\ufeff你好\tHello\tCC-BY\textra\n\n  \n再见\tBye\r\n只有\t\n")
    assert read(path) == [("你好", "Hello"), ("", ""), ("", ""), ("再见", "Bye"), ("只有", "")]


def test_quotes_in_tsv_are_text(tmp_path: Path) -> None:
    assert read(write(tmp_path / "a.tsv", '"a\t"b""\n')) == [('"a', '"b""')]


def test_gzip_tsv_reads_like_plain_tsv(tmp_path: Path) -> None:
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress("一\tone\n".encode()))
    assert read(str(tmp_path / "a.tsv.gz")) == [("一", "one")]


def test_a_line_without_a_tab_is_refused_with_file_and_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "一\tone\n二 two\n")
    with pytest.raises(UserError, match=r"^.*a\.tsv, line 2: no tab.*$"):
        read(path)


def test_a_file_pair_joins_line_by_line_and_keeps_tabs(tmp_path: Path) -> None:
    (tmp_path / "a.en.gz").write_bytes(gzip.compress(b"one\ttab\n\nthree\n"))
    pair = FilePair(source=write(tmp_path / "a.zh", "一\n二\n三\n"), target=str(tmp_path / "a.en.gz"))
    assert read(pair) == [("一", "one\ttab"), ("二", ""), ("三", "three")]


def test_foreign_line_ends_do_not_put_a_file_pair_out_of_step(tmp_path: Path) -> None:
    pair = FilePair(
        source=write(tmp_path / "a.zh", "一\u2028一\n二\n"), target=write(tmp_path / "a.en", "one\u0085\none\rtwo\n")
    )
    assert read(pair) == [("一\u2028一", "one\u0085"), ("二", "one\rtwo")]


@pytest.mark.parametrize("lost", [0, 100, 250, 499])
@pytest.mark.parametrize("side", [0, 1])
def test_different_line_counts_are_refused_near_the_line_that_is_missing(tmp_path: Path, lost: int, side: int) -> None:
    lengths = [random.Random(n).randint(3, 60) for n in range(500)]
    sides = [["字" * length for length in lengths], ["word " * length for length in lengths]]
    del sides[side][lost]
    pair = FilePair(
        source=write(tmp_path / "a.zh", "".join(f"{line}\n" for line in sides[0])),
        target=write(tmp_path / "a.en", "".join(f"{line}\n" for line in sides[1])),
    )
    with pytest.raises(UserError) as caught:
        read(pair)
    message = str(caught.value)
    counts = (499, 500) if side == 0 else (500, 499)
    assert f"a.zh has {counts[0]} lines and" in message
    assert f"a.en has {counts[1]}, they" in message
    assert abs(int(message.rsplit(" ", 1)[1]) - (lost + 1)) <= 1


def test_a_file_pair_with_an_empty_side_is_refused(tmp_path: Path) -> None:
    pair = FilePair(source=write(tmp_path / "a.zh", "一\n"), target=write(tmp_path / "a.en", ""))
    with pytest.raises(UserError, match=r"a\.zh has 1 lines and .*a\.en has 0.*line 1$"):
        read(pair)


def test_neither_a_file_nor_a_named_corpus_lists_the_named_ones() -> None:
    with pytest.raises(UserError, match=r"^tatoebo: neither .* named corpora: hsk, tatoeba$"):
        read("tatoebo")


def test_a_missing_side_of_a_file_pair_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^.*none\.en: no such file$"):
        read(FilePair(source=write(tmp_path / "a.zh", "一\n"), target=str(tmp_path / "none.en")))


def test_hsk_has_all_sentences_of_its_package_and_no_placeholder() -> None:
    package = pytest.importorskip("hsk_sentences_audio")
    pairs = read("hsk")
    assert [pair.source for pair in pairs] == [sentence["chinese"] for sentence in package.load_sentences()]
    assert Pair("老师，您好！", "Hello, teacher!") in pairs
    assert not {"placeholder", "PH"} & {pair.target for pair in pairs}
    assert read("hsk", "en", "zh") == [Pair(english, chinese) for chinese, english in pairs]


@pytest.mark.parametrize("languages", [("zh", "de"), ("fr", "en"), ("zh", "zh")])
def test_a_named_corpus_lacks_other_languages(languages: tuple[str, str]) -> None:
    with pytest.raises(UserError, match=r"corpus hsk .* data\.source_language and data\.target_language"):
        read("hsk", *languages)


def test_hsk_without_its_package_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hsk_sentences_audio", None)
    with pytest.raises(UserError, match=r"^.*hsk-sentences-audio.*make train.*$"):
        read("hsk")


@pytest.mark.parametrize(("name", "licence"), [("hsk", "CC-BY-SA 4.0"), ("tatoeba", "CC-BY 2.0 FR")])
def test_a_named_corpus_states_its_licence_in_one_line(name: str, licence: str) -> None:
    line = provenance(name)
    assert line is not None and licence in line and "https://" in line and "\n" not in line


def test_files_have_no_known_provenance() -> None:
    assert provenance("a.tsv") is None
    assert provenance(FilePair(source="hsk", target="tatoeba")) is None


def test_the_digest_of_a_file_is_that_of_its_bytes_and_of_a_pair_of_files_both(tmp_path: Path) -> None:
    one, other = write(tmp_path / "a.zh", "一\n"), write(tmp_path / "a.en", "one\n")
    tsv = write(tmp_path / "a.tsv", "一\tone\n")
    both = content_digest(FilePair(source=one, target=other), "zh", "en")
    assert both == [hashlib.sha256(text.encode()).hexdigest() for text in ("一\n", "one\n")]
    [first] = content_digest(tsv, "zh", "en")
    assert first == hashlib.sha256(Path(tsv).read_bytes()).hexdigest()
    Path(tsv).write_bytes(Path(tsv).read_bytes() + b"\n")
    assert content_digest(tsv, "zh", "en") != [first]


def test_the_digest_of_a_named_corpus_is_that_of_its_text_whichever_way_round() -> None:
    pytest.importorskip("hsk_sentences_audio")
    digests = [content_digest("hsk", *languages) for languages in (("zh", "en"), ("zh", "en"), ("en", "zh"))]
    assert digests[0] == digests[1] != digests[2]


def test_what_is_wrong_with_a_corpus_at_first_sight_is_said_without_reading_it(tmp_path: Path) -> None:
    (tmp_path / "folder.tsv").mkdir()
    none = str(tmp_path / "none.zh")
    faults: list[tuple[CorpusSpec, str]] = [
        ("tatoebo", r"^tatoebo: neither .* named corpora: hsk, tatoeba$"),
        (str(tmp_path / "folder.tsv"), r"folder\.tsv: is a folder"),
        (FilePair(source=none, target=none), r"none\.zh: no such file"),
        (write(tmp_path / "a.tsv.gz", "一\tone\n"), r"a\.tsv\.gz: damaged or cut short after line 0"),
    ]
    for spec, message in faults:
        with pytest.raises(UserError, match=message):
            content_digest(spec, "zh", "en")
    with pytest.raises(UserError, match="corpus hsk is Chinese and English"):
        content_digest("hsk", "zh", "de")


def test_the_data_readme_covers_every_named_corpus() -> None:
    readme = (Path(__file__).parents[2] / "data" / "README.md").read_text(encoding="utf-8")
    assert [name for name in NAMED_CORPORA if f"| `{name}`" not in readme] == []
