"""Preparation: done once, the same each time, without a leak; everything a run needs lies in its directory."""

import logging
from pathlib import Path

import numpy as np
import pytest
from tqdm import tqdm

from seq2seq.config import parse_config
from seq2seq.data import corpus, files, workers
from seq2seq.data import prepare as module
from seq2seq.data.corpus import Pair
from seq2seq.data.prepare import PARTS, Prepared, prepare
from seq2seq.data.splitting import overlap, side_keys
from seq2seq.data.tokenizer import train_tokenizer
from seq2seq.errors import UserError


@pytest.fixture
def tsv(tmp_path: Path) -> Path:
    lines = [f"{number}\t{number * 7}" for number in range(1000, 1400)]
    (tmp_path / "a.tsv").write_text("\n".join([*lines, lines[0], "\tempty side"]) + "\n", encoding="utf-8")
    return tmp_path / "a.tsv"


def test_text_and_ids_of_each_part_agree(config, tsv: Path, tmp_path: Path) -> None:
    prepared = prepare(config(f"data.train={tsv}", "data.dev_size=20", "data.test_size=30"), tmp_path)
    for part, size in (("train", 350), ("dev", 20), ("test", 30)):
        pairs, store = prepared.pairs(part), prepared.store(part)
        assert len(pairs) == len(store) == size
        for side in ("source", "target"):
            tokenizer, ids = prepared.tokenizer(side), getattr(store, side)
            assert [tokenizer.decode(ids[row].tolist()) for row in range(size)] == [getattr(p, side) for p in pairs]
    keys = {part: side_keys(prepared.pairs(part)) for part in PARTS}
    assert overlap(keys["train"], keys["dev"]) == overlap(keys["train"], keys["test"]) == 0


def test_it_is_done_once_and_again_only_when_text_or_settings_change(config, tsv: Path, tmp_path: Path) -> None:
    first = prepare(config(f"data.train={tsv}"), tmp_path)
    made = (first.directory / "train.tsv").stat().st_mtime_ns
    again = prepare(config(f"data.train={tsv}", "training.max_minutes=3", "encoder.layers=2"), tmp_path)
    assert again == first and (again.directory / "train.tsv").stat().st_mtime_ns == made
    others = [config(f"data.train={tsv}", each) for each in ("seed=1", "data.dev_size=9", "data.cleaning.max_ratio=9")]
    directories = {prepare(other, tmp_path).directory for other in others}
    tsv.write_text(tsv.read_text(encoding="utf-8").replace("1001", "1002"), encoding="utf-8")
    directories.add(prepare(config(f"data.train={tsv}"), tmp_path).directory)
    assert len(directories | {first.directory}) == 5


def test_a_preparation_that_fails_leaves_nothing_behind(config, tsv: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"data\.dev_size"):
        prepare(config(f"data.train={tsv}", "data.dev_size=5000"), tmp_path)
    assert list((tmp_path / "prepared").iterdir()) == []


def test_given_dev_and_test_are_normalised_but_nothing_of_them_is_dropped(config, tsv: Path, tmp_path: Path) -> None:
    held_out = tmp_path / "held.tsv"
    held_out.write_text("x\u200by\tz\n" * 2 + "long\t" + "l" * 900 + "\n", encoding="utf-8")
    prepared = prepare(config(f"data.train={tsv}", f"data.dev={held_out}", f"data.test={held_out}"), tmp_path)
    assert list(prepared.pairs("dev")) == [Pair("xy", "z"), Pair("xy", "z"), Pair("long", "l" * 900)]
    assert len(prepared.pairs("train")) == 400, "only the repeated pair and the empty one are gone"


def test_held_out_text_that_leaks_is_warned_of(
    config, tsv: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    held_out = tmp_path / "held.tsv"
    held_out.write_text("1001\tnew\nnew\t7014\nfresh\tfresh\n", encoding="utf-8")
    with caplog.at_level(logging.INFO):
        prepare(config(f"data.train={tsv}", f"data.test={held_out}", f"data.dev={held_out}"), tmp_path)
    assert "warning: 2 of 3 test pairs share a side with a training pair" in caplog.text


def test_extra_text_is_learned_from_but_never_leaks(config, tsv: Path, tmp_path: Path) -> None:
    extra, held_out = tmp_path / "extra.tsv", tmp_path / "held.tsv"
    held_out.write_text("seen\tone\nhidden\ttwo\n", encoding="utf-8")
    extra.write_text("Seen!\tother\nother\tTWO\nfree\tthree\nfree\tthree\n", encoding="utf-8")
    sets = (f"data.train={tsv}", f"data.extra=[{extra}]", f"data.dev={held_out}", f"data.test={held_out}")
    train = prepare(config(*sets), tmp_path).pairs("train")
    assert train[400:] == [Pair("free", "three")]


def test_held_out_text_of_nothing_but_invisible_characters_is_refused_by_key(config, tsv: Path, tmp_path: Path) -> None:
    (tmp_path / "held.tsv").write_text("\u200b\t\u200b\n", encoding="utf-8")
    for part in ("dev", "test"):
        with pytest.raises(UserError) as caught:
            prepare(config(f"data.train={tsv}", f"data.{part}={tmp_path}/held.tsv"), tmp_path)
        assert str(caught.value) == (
            f"data.{part}: {tmp_path}/held.tsv holds no sentence pair to measure on; give a file with "
            f"source<TAB>target lines, or leave data.{part} out, and it is split off from data.train"
        )


@pytest.mark.parametrize(
    ("content", "message"),
    [("", "data.train: "), ("\n\n", "holds no sentence pair"), ("a" * 500 + "\tb\n", "cleaning leaves nothing of")],
)
def test_text_without_a_usable_pair_is_refused_by_key(config, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=r"data\.train") as caught:
        prepare(config(f"data.train={tmp_path}/a.tsv"), tmp_path)
    assert message in str(caught.value)


def test_the_embedded_corpus_is_named_with_its_licence(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        prepare(parse_config("tokenizer: {source: {kind: characters}, target: {kind: bpe}}"), tmp_path)
    assert "hsk-sentences-audio" in caplog.text and "CC-BY-SA" in caplog.text


def places(prepared: Prepared) -> list[tuple[str, int]]:
    origins = prepared.origins()
    return [(Path(origins.corpora[corpus].name).name, number) for corpus, number in origins.places.tolist()]


def test_every_training_pair_is_traced_to_its_line(config, tsv: Path, tmp_path: Path) -> None:
    lines = tsv.read_text(encoding="utf-8").splitlines()
    tsv.write_text("\n".join(["", lines[0], "x" * 500 + "\ty", *lines]) + "\n", encoding="utf-8")
    (tmp_path / "b").write_text("1001\nnew\nold\nnew\n", encoding="utf-8")
    (tmp_path / "c").write_text("one\n\u200btwo\nthree\ntwo\n", encoding="utf-8")
    (tmp_path / "d.tsv").write_text("\nlast\tfour\nold\tthree\n", encoding="utf-8")
    extra = f"data.extra=[{{source: {tmp_path}/b, target: {tmp_path}/c}}, {tmp_path}/d.tsv]"
    prepared = prepare(config(f"data.train={tsv}", "data.dev_size=20", "data.test_size=30", extra), tmp_path)
    a_lines = tsv.read_text(encoding="utf-8").split("\n")
    text = {
        "a.tsv": [Pair(*line.split("\t")) if line else Pair("", "") for line in a_lines],
        "c": [Pair("1001", "one"), Pair("new", "two"), Pair("old", "three"), Pair("new", "two")],
        "d.tsv": [Pair("", ""), Pair("last", "four"), Pair("old", "three")],
    }
    found = places(prepared)
    assert [text[name][number - 1] for name, number in found] == list(prepared.pairs("train"))
    assert len(found) == len(set(found)) == len(prepared.origins())
    assert ("a.tsv", 2) in found or "1000" in {pair.source for part in ("test", "dev") for pair in prepared.pairs(part)}
    assert ("a.tsv", 4) not in found, "a repetition; the first one stays"
    assert [each for each in found if each[0] != "a.tsv" and each[1] > 1] == [("c", 2), ("c", 3), ("d.tsv", 2)]


def test_a_line_that_moves_to_another_corpus_makes_another_preparation(config, tsv: Path, tmp_path: Path) -> None:
    one, other = tmp_path / "one.tsv", tmp_path / "other.tsv"
    sets = (f"data.train={tsv}", f"data.extra=[{one}, {other}]")
    one.write_text("a\t1\nb\t2\n", encoding="utf-8")
    other.write_text("c\t3\n", encoding="utf-8")
    first = prepare(config(*sets), tmp_path)
    one.write_text("a\t1\n", encoding="utf-8")
    other.write_text("b\t2\nc\t3\n", encoding="utf-8")
    second = prepare(config(*sets), tmp_path)
    assert places(first)[-3:] == [("one.tsv", 1), ("one.tsv", 2), ("other.tsv", 1)]
    assert places(second)[-3:] == [("one.tsv", 1), ("other.tsv", 1), ("other.tsv", 2)]


def test_a_tab_that_moves_between_two_files_makes_another_preparation(config, tmp_path: Path) -> None:
    pair = f"{{source: {tmp_path}/a, target: {tmp_path}/b}}"
    sets = [f"data.{part}={pair}" for part in ("train", "dev", "test")]
    found = []
    for source, target in (("x\ty", "z"), ("x", "y\tz")):
        (tmp_path / "a").write_text(f"{source}\n", encoding="utf-8")
        (tmp_path / "b").write_text(f"{target}\n", encoding="utf-8")
        found.append(list(prepare(config(*sets), tmp_path).pairs("train")))
    assert found == [[Pair("x y", "z")], [Pair("x", "y z")]]


@pytest.mark.parametrize("key", ["dev", "test", "extra"])
def test_an_empty_file_is_refused_by_its_key(config, tsv: Path, tmp_path: Path, key: str) -> None:
    (tmp_path / "empty.tsv").touch()
    value = f"[{tmp_path}/empty.tsv]" if key == "extra" else f"{tmp_path}/empty.tsv"
    with pytest.raises(UserError, match=rf"^data\.{key}: .*empty\.tsv holds no sentence pair.*; give a file with"):
        prepare(config(f"data.train={tsv}", f"data.{key}={value}"), tmp_path)


def test_a_corpus_that_is_prepared_is_found_without_reading_its_lines(
    config, tsv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = (f"data.train={tsv}", f"data.extra=[{{source: {tsv}, target: {tsv}}}]")
    first = prepare(config(*sets), tmp_path)
    read: list[int] = []

    def counted(path: Path):
        for number, line in files.read_lines(path):
            read.append(number)
            yield number, line

    monkeypatch.setattr(corpus, "read_lines", counted)
    assert prepare(config(*sets), tmp_path) == first
    assert set(read) == {1}, "the first line alone, for what is wrong with a file shows there"


def test_a_text_that_changes_while_it_is_prepared_is_refused(
    config, tsv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = module._write

    def write_late(*arguments) -> None:
        write(*arguments)
        tsv.write_text("1\t2\n", encoding="utf-8")

    monkeypatch.setattr(module, "_write", write_late)
    with pytest.raises(UserError, match="the text has changed while it was being prepared; start again"):
        prepare(config(f"data.train={tsv}"), tmp_path)
    assert list((tmp_path / "prepared").iterdir()) == []


def test_many_processes_prepare_the_same_as_one(
    config, tsv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seq2seq.data.pair_file.PIECE", 30)
    monkeypatch.setattr("seq2seq.data.cleaning.in_pieces", lambda pairs: workers.in_pieces(pairs, 30))
    started: list[int] = []
    start = workers.Workers._start

    def noted(pool: workers.Workers) -> None:
        started.append(pool._count)
        start(pool)

    monkeypatch.setattr(workers.Workers, "_start", noted)
    found = []
    for threads in (1, 2):
        settings = config(f"data.train={tsv}", "data.dev_size=9", f"threads={threads}")
        prepared = prepare(settings, tmp_path / str(threads))
        found.append({path.name: path.read_bytes() for path in prepared.directory.iterdir()})
    assert started == [2], "the second time, once for all that is to be done"
    assert found[0] == found[1]


def test_tokenizers_learn_from_a_seeded_sample_of_a_large_corpus(
    config, tsv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned: list[list[str]] = []

    def train(sentences, *arguments):
        learned.append(list(sentences))
        return train_tokenizer(learned[-1], *arguments)

    monkeypatch.setattr(module, "train_tokenizer", train)
    monkeypatch.setattr(module, "LEARNING_PAIRS", 50)
    for folder in ("one", "two"):
        prepared = prepare(config(f"data.train={tsv}"), tmp_path / folder)
    pairs = list(prepared.pairs("train"))
    source, target = learned[:2]
    assert learned[2:] == [source, target]
    places = [pairs.index(Pair(*both)) for both in zip(source, target, strict=True)]
    assert len(places) == 50 and places == sorted(set(places)) and places[-1] > 150


def test_the_text_of_a_part_is_mapped_and_not_read(config, tsv: Path, tmp_path: Path) -> None:
    pairs = prepare(config(f"data.train={tsv}"), tmp_path).pairs("train")
    assert isinstance(pairs._text, np.memmap) and isinstance(pairs._offsets, np.memmap)


def test_a_long_preparation_shows_a_bar_on_stderr_and_a_short_one_none(
    config, tsv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = []
    for delay in (600, 0):
        monkeypatch.setattr(module, "tqdm", lambda *args, **more: tqdm(*args, **{**more, "delay": delay}))  # noqa: B023
        prepare(config(f"data.train={tsv}"), tmp_path / str(delay))
        shown.append(capsys.readouterr())
    assert shown[0] == ("", "")
    assert shown[1].out == ""
    assert all(what in shown[1].err for what in ("reading", "learning the source tokenizer", "encoding train"))
