"""Pairs of sentences in a TSV file on disk: written as they come, read where they are asked for."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray

from seq2seq.data.corpus import Pair
from seq2seq.data.files import atomic_write
from seq2seq.data.mapped import appended_array, map_array, map_bytes, release
from seq2seq.data.workers import PIECE

_LINE_END = ord("\n")
_RELEASE_AFTER = 1024
"""Lines after which the pages read are let go of; each may have brought 64 KiB with it (fault-around of Linux)."""


class PairFile(Sequence[Pair]):
    r"""The lines source<TAB>target of a file, mapped; neither side holds \t, \n or \r.

    Args:
        text: the bytes of the file.
        offsets: where each line starts, and where the last one ends (int64).
    """

    def __init__(self, text: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
        self._text, self._offsets = text, offsets
        self._taken = 0

    @classmethod
    def open(cls, path: Path) -> Self:
        """A file that `write_pairs` wrote."""
        return cls(map_bytes(path), map_array(_offsets_path(path)))

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, index: int) -> Pair: ...

    @overload
    def __getitem__(self, index: slice) -> list[Pair]: ...

    def __getitem__(self, index: int | slice) -> Pair | list[Pair]:
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"line {index} of {len(self)}")
        return parse(self._line(index % len(self)))

    def __iter__(self) -> Iterator[Pair]:
        for piece in self.pieces():
            yield from map(parse, piece.splitlines(keepends=True))

    def pieces(self) -> Iterator[bytes]:
        """The lines as they stand in the file, some thousands at a time."""
        for start in range(0, len(self), PIECE):
            first, last = self._offsets[[start, min(start + PIECE, len(self))]]
            yield self._text[first:last].tobytes()
            self._release()

    def take(self, rows: NDArray[np.integer[Any]]) -> Iterator[bytes]:
        """The lines of the given rows as they stand in the file, some thousands at a time."""
        for start in range(0, len(rows), PIECE):
            yield b"".join(map(self._line, rows[start : start + PIECE].tolist()))

    def _line(self, row: int) -> bytes:
        self._taken += 1
        if self._taken % _RELEASE_AFTER == 0:
            self._release()
        return self._text[self._offsets[row] : self._offsets[row + 1]].tobytes()

    def _release(self) -> None:
        release(self._text)
        release(self._offsets)


def format_pairs(pairs: Iterable[Pair]) -> bytes:
    """The lines of pairs."""
    return "".join(f"{source}\t{target}\n" for source, target in pairs).encode()


def parse(line: bytes) -> Pair:
    """The pair of a line, with or without its end."""
    source, _, target = line.removesuffix(b"\n").decode().partition("\t")
    return Pair(source, target)


@contextmanager
def write_pairs(path: Path) -> Iterator[Callable[[bytes], None]]:
    """Write a file that `PairFile` opens, atomically, from pieces of whole lines.

    Raises:
        UserError: it cannot be written.
    """
    size = 0
    with atomic_write(path) as text, appended_array(_offsets_path(path), np.int64) as append:
        append(np.zeros(1, dtype=np.int64))

        def write(lines: bytes) -> None:
            nonlocal size
            append(np.flatnonzero(np.frombuffer(lines, dtype=np.uint8) == _LINE_END) + (size + 1))
            size += len(lines)
            text.write(lines)

        yield write


def _offsets_path(path: Path) -> Path:
    return path.with_suffix(".lines.npy")
