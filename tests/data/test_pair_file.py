"""Pairs in a file: written in pieces, mapped, a sequence like any other."""

from pathlib import Path

import numpy as np
import pytest

from seq2seq.data.corpus import Pair
from seq2seq.data.pair_file import PairFile, format_pairs, parse, write_pairs

PAIRS = [Pair("你好", "Hello\u2028there\x0b\x85"), Pair("", ""), Pair("a", ""), Pair("", "\ufeffb"), Pair("c ", " d")]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PairFile:
    monkeypatch.setattr("seq2seq.data.pair_file.PIECE", 2)
    monkeypatch.setattr("seq2seq.data.pair_file._RELEASE_AFTER", 2)
    with write_pairs(tmp_path / "x.tsv") as write:
        write(format_pairs(PAIRS[:3]))
        write(b"")
        write(format_pairs(PAIRS[3:]))
    return PairFile.open(tmp_path / "x.tsv")


def test_it_is_a_sequence_of_pairs(file: PairFile) -> None:
    assert len(file) == 5
    assert list(file) == PAIRS
    assert [file[row] for row in range(-5, 5)] == PAIRS * 2
    assert file[1:4] == PAIRS[1:4] and file[::-2] == PAIRS[::-2]
    assert PAIRS[3] in file and file.index(PAIRS[3]) == 3
    for row in (5, -6):
        with pytest.raises(IndexError):
            file[row]


def test_rows_are_taken_in_the_order_asked_for(file: PairFile) -> None:
    lines = b"".join(file.take(np.array([4, 0, 3, 0, 1]))).splitlines()
    assert list(map(parse, lines)) == [PAIRS[4], PAIRS[0], PAIRS[3], PAIRS[0], PAIRS[1]]
    assert list(file.take(np.zeros(0, dtype=np.int64))) == []


def test_pieces_are_the_file(file: PairFile, tmp_path: Path) -> None:
    pieces = list(file.pieces())
    assert [piece.count(b"\n") for piece in pieces] == [2, 2, 1]
    assert b"".join(pieces) == (tmp_path / "x.tsv").read_bytes() == format_pairs(PAIRS)


def test_a_file_of_no_pair_is_an_empty_sequence(tmp_path: Path) -> None:
    with write_pairs(tmp_path / "x.tsv"):
        pass
    file = PairFile.open(tmp_path / "x.tsv")
    assert len(file) == 0 and not file
    assert list(file) == []
    assert list(file.pieces()) == []
