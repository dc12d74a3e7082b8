"""Batches read before they are asked for are the batches of the plan."""

import numpy as np
import pytest

from seq2seq.data.reading_ahead import ReadingAhead
from seq2seq.data.store import ParallelStore, TokenStore


class Counted(ParallelStore):
    """A store that notes the rows that are read from it."""

    reads: list[list[int]]

    def read(self, rows):
        self.reads.append(rows.tolist())
        return super().read(rows)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Counted:
    monkeypatch.setattr("seq2seq.data.reading_ahead._PAIRS", 4)
    side = TokenStore.of([[row] * (row % 3) for row in range(12)])
    store = Counted(side, side)
    object.__setattr__(store, "reads", [])
    return store


PLAN = [np.array(rows) for rows in ([9, 2], [11, 0, 5], [1], [7, 3, 10], [4], [8, 6])]


def sentences(found: tuple[ParallelStore, np.ndarray]) -> list[list[int]]:
    store, rows = found
    return [store.source[row].tolist() for row in rows] + [store.target[row].tolist() for row in rows]


def expected(rows: np.ndarray) -> list[list[int]]:
    return [[row] * (row % 3) for row in rows] * 2


def test_batches_in_turn_are_read_together_in_rising_order(store: Counted) -> None:
    ahead = ReadingAhead(store, PLAN)
    assert [sentences(ahead.find(rows)) for rows in PLAN] == [expected(rows) for rows in PLAN]
    assert store.reads == [[0, 2, 5, 9, 11], [1, 3, 7, 10], [4, 6, 8]]


def test_an_epoch_may_be_taken_up_anywhere_and_a_batch_asked_for_again(store: Counted) -> None:
    ahead = ReadingAhead(store, PLAN)
    for number in (3, 3, 4, 0, 1, 5):
        assert sentences(ahead.find(PLAN[number])) == expected(PLAN[number])
    assert store.reads == [[3, 4, 7, 10], [0, 2, 5, 9, 11], [6, 8]]


def test_rows_of_no_plan_are_found_in_the_corpus_itself(store: Counted) -> None:
    rows = np.array([3, 1])
    found = ReadingAhead(store, PLAN).find(rows)
    assert found[0] is store and found[1] is rows
    assert store.reads == []
