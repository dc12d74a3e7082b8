"""Preparation: done once, the same each time, without a leak; everything a run needs lies in its directory."""

import logging
from pathlib import Path

import pytest

from seq2seq.config import Config, parse_config
from seq2seq.data.corpus import Pair
from seq2seq.data.prepare import prepare
from seq2seq.data.splitting import overlap
from seq2seq.errors import UserError


def config(*sets: str) -> Config:
    common = ["tokenizer.source={kind: characters, vocabulary_size: 60}", "data.source_language=en"]
    return parse_config("", [*common, "tokenizer.target={kind: characters, vocabulary_size: 60}", *sets])


@pytest.fixture
def tsv(tmp_path: Path) -> Path:
    lines = [f"{number}\t{number * 7}" for number in range(1000, 1400)]
    (tmp_path / "a.tsv").write_text("\n".join([*lines, lines[0], "\tempty side"]) + "\n", encoding="utf-8")
    return tmp_path / "a.tsv"


def test_text_and_ids_of_each_part_agree(tsv: Path, tmp_path: Path) -> None:
    prepared = prepare(config(f"data.train={tsv}", "data.dev_size=20", "data.test_size=30"), tmp_path)
    for part, size in (("train", 350), ("dev", 20), ("test", 30)):
        pairs, store = prepared.pairs(part), prepared.store(part)
        assert len(pairs) == len(store) == size
        for side in ("source", "target"):
            tokenizer, ids = prepared.tokenizer(side), getattr(store, side)
            assert [tokenizer.decode(ids[row].tolist()) for row in range(size)] == [getattr(p, side) for p in pairs]
    assert overlap(prepared.pairs("train"), [*prepared.pairs("dev"), *prepared.pairs("test")]) == 0


def test_it_is_done_once_and_again_only_when_text_or_settings_change(tsv: Path, tmp_path: Path) -> None:
    first = prepare(config(f"data.train={tsv}"), tmp_path)
    made = (first.directory / "train.tsv").stat().st_mtime_ns
    again = prepare(config(f"data.train={tsv}", "training.max_minutes=3", "encoder.layers=2"), tmp_path)
    assert again == first and (again.directory / "train.tsv").stat().st_mtime_ns == made
    others = [config(f"data.train={tsv}", each) for each in ("seed=1", "data.dev_size=9", "data.cleaning.max_ratio=9")]
    directories = {prepare(other, tmp_path).directory for other in others}
    tsv.write_text(tsv.read_text(encoding="utf-8").replace("1001", "1002"), encoding="utf-8")
    directories.add(prepare(config(f"data.train={tsv}"), tmp_path).directory)
    assert len(directories | {first.directory}) == 5


def test_a_preparation_that_fails_leaves_nothing_behind(tsv: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"data\.dev_size"):
        prepare(config(f"data.train={tsv}", "data.dev_size=5000"), tmp_path)
    assert list((tmp_path / "prepared").iterdir()) == []


def test_given_dev_and_test_are_normalised_but_nothing_of_them_is_dropped(tsv: Path, tmp_path: Path) -> None:
    held_out = tmp_path / "held.tsv"
    held_out.write_text("x\u200by\tz\n" * 2 + "long\t" + "l" * 900 + "\n", encoding="utf-8")
    prepared = prepare(config(f"data.train={tsv}", f"data.dev={held_out}", f"data.test={held_out}"), tmp_path)
    assert prepared.pairs("dev") == [Pair("xy", "z"), Pair("xy", "z"), Pair("long", "l" * 900)]
    assert len(prepared.pairs("train")) == 400, "only the repeated pair and the empty one are gone"


def test_held_out_text_that_leaks_is_warned_of(tsv: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    held_out = tmp_path / "held.tsv"
    held_out.write_text("1001\tnew\nnew\t7014\nfresh\tfresh\n", encoding="utf-8")
    with caplog.at_level(logging.INFO):
        prepare(config(f"data.train={tsv}", f"data.test={held_out}", f"data.dev={held_out}"), tmp_path)
    assert "warning: 2 of 3 test pairs share a side with a training pair" in caplog.text


def test_extra_text_is_learned_from_but_never_leaks(tsv: Path, tmp_path: Path) -> None:
    extra, held_out = tmp_path / "extra.tsv", tmp_path / "held.tsv"
    held_out.write_text("seen\tone\nhidden\ttwo\n", encoding="utf-8")
    extra.write_text("Seen!\tother\nother\tTWO\nfree\tthree\nfree\tthree\n", encoding="utf-8")
    sets = (f"data.train={tsv}", f"data.extra=[{extra}]", f"data.dev={held_out}", f"data.test={held_out}")
    train = prepare(config(*sets), tmp_path).pairs("train")
    assert train[400:] == [Pair("free", "three")]


def test_a_tab_in_a_sentence_of_two_file_input_is_text(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\ty\n" * 3, encoding="utf-8")
    (tmp_path / "b").write_text("1\t2\n" * 3, encoding="utf-8")
    pair = f"{{source: {tmp_path}/a, target: {tmp_path}/b}}"
    keep = ("data.cleaning.normalize=false", "data.cleaning.drop_duplicates=false")
    prepared = prepare(config(f"data.train={pair}", f"data.dev={pair}", f"data.test={pair}", *keep), tmp_path)
    assert prepared.pairs("train") == [Pair("x y", "1 2")] * 3


def test_held_out_text_of_nothing_but_invisible_characters_is_refused_by_key(tsv: Path, tmp_path: Path) -> None:
    (tmp_path / "held.tsv").write_text("\u200b\t\u200b\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"data\.dev: .*held\.tsv holds no sentence pair to measure on"):
        prepare(config(f"data.train={tsv}", f"data.dev={tmp_path}/held.tsv"), tmp_path)


def test_a_preparation_of_which_something_was_deleted_is_made_again(tsv: Path, tmp_path: Path) -> None:
    prepared = prepare(config(f"data.train={tsv}"), tmp_path)
    for name in ("log.txt", "train.source.ids.npy", "test.tsv"):
        (prepared.directory / name).unlink()
        assert not prepared.is_complete()
        assert prepare(config(f"data.train={tsv}"), tmp_path) == prepared
        assert prepared.is_complete()


@pytest.mark.parametrize(
    ("content", "message"),
    [("", "data.train: "), ("\n\n", "holds no sentence pair"), ("a" * 500 + "\tb\n", "cleaning leaves nothing of")],
)
def test_text_without_a_usable_pair_is_refused_by_key(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=r"data\.train") as caught:
        prepare(config(f"data.train={tmp_path}/a.tsv"), tmp_path)
    assert message in str(caught.value)


def test_the_embedded_corpus_is_named_with_its_licence(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        prepare(parse_config("tokenizer: {source: {kind: characters}, target: {kind: bpe}}"), tmp_path)
    assert "hsk-sentences-audio" in caplog.text and "CC-BY-SA" in caplog.text
