"""From rows of the train store back to the lines of the user's files."""

import json
from pathlib import Path

import numpy as np
import pytest

from seq2seq.config.schema import FilePair
from seq2seq.data.corpus import Label, label
from seq2seq.data.origins import MOST_NUMBERS, Origins


def of(*sizes: int) -> Origins:
    labels = [Label("mine.tsv", False), Label("hsk", True), *(Label(f"{n}.tsv", False) for n in range(2, 40))]
    return Origins.of(list(zip(labels, sizes, strict=False)))


def test_rows_of_corpora_one_after_the_other_are_numbered_from_one_in_each() -> None:
    origins = of(3, 0, 2)
    assert origins.places.tolist() == [[0, 1], [0, 2], [0, 3], [2, 1], [2, 2]]
    assert len(origins) == 5
    assert origins.take([4, 0]).places.tolist() == [[2, 2], [0, 1]]
    labels = list(zip(origins.corpora, (3, 0, 2), strict=True))
    assert Origins.of(labels, [4, 0]).places.tolist() == [[2, 2], [0, 1]]


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ([4], "mine.tsv, line 5"),
        ([9, 2, 4, 2], "mine.tsv, lines 3, 5, 10"),
        ([100], "hsk, entry 1"),
        ([120, 100, 7], "mine.tsv, line 8; hsk, entries 1, 21"),
        (range(10), "mine.tsv, lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10"),
        (range(99, -1, -1), "mine.tsv, lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 90 more"),
        (range(20, 200), "mine.tsv, lines 21, 22, 23, 24, 25, 26, 27, 28, 29 and 71 more; hsk, entries 1 and 99 more"),
        ([*range(4), *range(100, 120)], "mine.tsv, lines 1, 2, 3, 4; hsk, entries 1, 2, 3, 4, 5, 6 and 14 more"),
        ([], ""),
    ],
)
def test_rows_are_described_by_corpus_and_number(rows, line: str) -> None:
    assert of(100, 100).describe(np.array(rows, dtype=np.int64)) == line


def test_each_of_many_corpora_is_named_up_to_the_limit() -> None:
    line = of(*[3] * 30).describe(range(90))
    assert line.startswith("mine.tsv, lines 1 and 2 more; hsk, entries 1 and 2 more; 2.tsv, lines 1 and 2 more; ")
    assert line.count(";") == MOST_NUMBERS
    assert line.endswith("; 9.tsv, lines 1 and 2 more; 60 more in 20 other corpora")


def test_what_is_written_is_mapped_and_not_read(tmp_path: Path) -> None:
    of(3, 4).take([6, 1]).write(tmp_path, "train")
    origins = Origins.open(tmp_path, "train")
    assert isinstance(origins.places, np.memmap)
    assert origins.describe([0, 1]) == "mine.tsv, line 2; hsk, entry 4"
    assert json.loads((tmp_path / "train.origins.json").read_text(encoding="utf-8"))[0] == ["mine.tsv", False]


def test_a_corpus_is_named_as_the_user_knows_it() -> None:
    assert label("hsk") == ("hsk", True)
    assert label("./hsk") == ("./hsk", False)
    assert label(FilePair(source="a.zh", target="a.en")) == ("a.zh and a.en", False)
