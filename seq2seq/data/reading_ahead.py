"""Batches to come, read many together in the order in which their pairs lie on disk."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seq2seq.data.store import ParallelStore

Rows = NDArray[Any]
"""Numbers of pairs in a corpus, from 0, in integers of any size."""

_PAIRS = 32_768
"""Pairs read together: some MB, and some twenty of them in each 64 KiB of a corpus of millions."""


class ReadingAhead:
    """Finds the pairs of a batch in memory, if it is the next one or another that was read with it.

    Read one by one in shuffled order, each pair would cost a fault of its own, and each fault 64 KiB of resident
    memory (fault-around of Linux).

    Args:
        store: the corpus.
        plan: the rows of each batch.
    """

    def __init__(self, store: ParallelStore, plan: Sequence[Rows]) -> None:
        self.store, self.plan = store, plan
        self._first = self._end = self._next = 0
        self._rows: Rows = np.zeros(0, dtype=np.int32)
        self._read = store

    def find(self, rows: Rows) -> tuple[ParallelStore, Rows]:
        """A store that holds the pairs, and their rows in it.

        Args:
            rows: a batch of the plan, the very array; others are found in the corpus itself.
        """
        number = self._next
        if number >= len(self.plan) or self.plan[number] is not rows:
            number = next((number for number, each in enumerate(self.plan) if each is rows), -1)
        if number < 0:
            return self.store, rows
        if not self._first <= number < self._end:
            self._read_from(number)
        self._next = number + 1
        return self._read, np.searchsorted(self._rows, rows)

    def _read_from(self, first: int) -> None:
        end, count = first, 0
        while end < len(self.plan) and count < _PAIRS:
            count += len(self.plan[end])
            end += 1
        self._rows = np.sort(np.concatenate(self.plan[first:end]))
        self._read = self.store.read(self._rows)
        self._first, self._end = first, end
