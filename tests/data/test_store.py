"""Stores of ids: written in pieces, mapped and not read, taken from in any order."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.data.store import ParallelStore, TokenStore, flat, write_tokens

SENTENCES = [[5, 6], [], [7, 8, 9], [4]]


def test_a_store_gives_back_what_was_written_in_pieces_and_is_mapped_not_read(tmp_path: Path) -> None:
    with write_tokens(tmp_path, "s") as write:
        write(flat(SENTENCES[:3]))
        write(flat([]))
        write(flat(SENTENCES[3:]))
    store = TokenStore.open(tmp_path, "s")
    assert [store[row].tolist() for row in range(len(store))] == SENTENCES
    assert store.lengths.tolist() == [2, 0, 3, 1]
    assert isinstance(store.ids, np.memmap) and isinstance(store.offsets, np.memmap)
    assert (store.ids.dtype, store.offsets.dtype) == (np.int32, np.int64)


def test_a_store_of_nothing_is_one_too(tmp_path: Path) -> None:
    with write_tokens(tmp_path, "s"):
        pass
    for store in (TokenStore.open(tmp_path, "s"), TokenStore.of([])):
        assert len(store) == 0 and store.lengths.tolist() == []
        assert store.read(np.zeros(0, dtype=np.int32)).offsets.tolist() == [0]


@given(st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=5), min_size=1, max_size=20), st.data())
def test_rows_are_taken_and_read_in_the_order_asked_for(sentences: list[list[int]], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, len(sentences) - 1), max_size=30))
    store = TokenStore.of(sentences)
    taken, read = store.take(np.array(rows, dtype=np.int32)), store.read(np.array(rows, dtype=np.int32))
    assert taken.ids.tolist() == [each for row in rows for each in sentences[row]]
    assert taken.lengths.tolist() == [len(sentences[row]) for row in rows]
    assert [read[place].tolist() for place in range(len(read))] == [sentences[row] for row in rows]


def test_more_sentences_than_are_read_at_once_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seq2seq.data.store._ROWS", 2)
    monkeypatch.setattr("seq2seq.data.store._CHUNK", 3)
    side = TokenStore.of(SENTENCES)
    read = ParallelStore(side, side).read(np.array([0, 1, 2, 3, 3]))
    assert [read.target[row].tolist() for row in range(len(read))] == [*SENTENCES, [4]]
    assert side.lengths.tolist() == [2, 0, 3, 1]


@pytest.mark.parametrize(("longest", "kind"), [(65_534, np.uint16), (65_535, np.uint32)])
def test_lengths_take_16_bits_where_one_more_still_fits(longest: int, kind: type) -> None:
    lengths = TokenStore.of([[1] * longest, [1]]).lengths
    assert lengths.dtype == kind
    assert (lengths + 1).tolist() == [longest + 1, 2]
