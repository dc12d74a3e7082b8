"""Token ids on disk, memory-mapped: a flat array of ids and where each sentence starts."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from seq2seq.data.mapped import appended_array, map_array, release

_CHUNK = 1 << 18
"""Sentences whose lengths are worked out at once."""
_ROWS = 512
"""Sentences that are read before a store on disk is let go of: a few MB of a corpus of millions."""


class Flat(NamedTuple):
    """Sentences one after the other."""

    ids: NDArray[np.int32]
    """All ids."""
    lengths: NDArray[np.int64]
    """Ids in each sentence."""


def flat(sentences: Sequence[Sequence[int] | NDArray[np.int32]]) -> Flat:
    """Sentences as one array."""
    lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
    return Flat(np.fromiter(chain.from_iterable(sentences), dtype=np.int32, count=lengths.sum()), lengths)


class TokenStore:
    """Sentences as ids.

    Args:
        ids: the ids of all sentences, one after the other (int32).
        offsets: where each sentence starts, and where the last one ends (int64).
    """

    def __init__(self, ids: NDArray[np.int32], offsets: NDArray[np.int64]) -> None:
        self.ids, self.offsets = ids, offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> NDArray[np.int32]:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def take(self, rows: NDArray[np.integer[Any]]) -> Flat:
        """The sentences of the given rows."""
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        ends = np.cumsum(lengths)
        places = np.repeat(starts - (ends - lengths), lengths) + np.arange(lengths.sum())
        return Flat(self.ids[places], lengths)

    def read(self, rows: NDArray[np.integer[Any]]) -> "TokenStore":
        """The sentences of the given rows as a store in memory; a store on disk is let go of on the way."""
        pieces = []
        for start in range(0, len(rows), _ROWS):
            pieces.append(self.take(rows[start : start + _ROWS]))
            self.release()
        return TokenStore.of_flat(pieces)

    @property
    def lengths(self) -> NDArray[np.uint16] | NDArray[np.uint32]:
        """Tokens in each sentence, in 16 bits each where that is enough, also for one more."""
        lengths = np.empty(len(self), dtype=np.uint32)
        for start in range(0, len(self), _CHUNK):
            lengths[start : start + _CHUNK] = np.diff(self.offsets[start : start + _CHUNK + 1])
            self.release()
        return lengths.astype(np.uint16) if lengths.max(initial=0) < np.iinfo(np.uint16).max else lengths

    def release(self) -> None:
        """Let go of what was read of a store on disk."""
        release(self.ids)
        release(self.offsets)

    @classmethod
    def of(cls, sentences: Iterable[Sequence[int]]) -> Self:
        """A store in memory."""
        return cls.of_flat([flat(list(sentences))])

    @classmethod
    def of_flat(cls, pieces: Sequence[Flat]) -> Self:
        """A store in memory, of all sentences of the pieces."""
        nothing = flat([])
        ids, lengths = (np.concatenate(each) for each in zip(nothing, *pieces, strict=True))
        return cls(ids, np.concatenate([[0], np.cumsum(lengths)]))

    @classmethod
    def open(cls, directory: Path, name: str) -> Self:
        """A store on disk, mapped and not read."""
        return cls(*(map_array(directory / f"{name}.{part}.npy") for part in ("ids", "offsets")))


@contextmanager
def write_tokens(directory: Path, name: str) -> Iterator[Callable[[Flat], None]]:
    """Write a store that `TokenStore.open` finds, from the sentences that the function given is called with.

    Raises:
        UserError: it cannot be written.
    """
    end = 0
    ids, offsets = (directory / f"{name}.{part}.npy" for part in ("ids", "offsets"))
    with appended_array(ids, np.int32) as append_ids, appended_array(offsets, np.int64) as append_offsets:
        append_offsets(np.zeros(1, dtype=np.int64))

        def write(sentences: Flat) -> None:
            nonlocal end
            append_ids(sentences.ids)
            append_offsets(end + np.cumsum(sentences.lengths))
            end += len(sentences.ids)

        yield write


@dataclass(frozen=True)
class ParallelStore:
    """Both sides of a corpus as ids; what batches are made of."""

    source: TokenStore
    target: TokenStore

    def __len__(self) -> int:
        return len(self.source)

    def read(self, rows: NDArray[np.integer[Any]]) -> "ParallelStore":
        """Some of the pairs, in memory; fastest in rising order, in which they lie on disk."""
        return ParallelStore(self.source.read(rows), self.target.read(rows))

    @classmethod
    def open(cls, directory: Path, name: str) -> Self:
        """Both sides on disk, mapped and not read."""
        return cls(TokenStore.open(directory, f"{name}.source"), TokenStore.open(directory, f"{name}.target"))
