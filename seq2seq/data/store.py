"""Token ids on disk, memory-mapped: a flat array of ids and where each sentence starts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from seq2seq.data.files import atomic_write


def write_array(path: Path, array: NDArray[np.generic]) -> None:
    """Write an array as .npy, atomically.

    Raises:
        UserError: the file cannot be written.
    """
    array = np.ascontiguousarray(array)
    with atomic_write(path) as file:
        # Not np.save, which writes past the file object, so that a full disk would not be blamed on the file.
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        file.write(array.data)


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

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens in each sentence."""
        return np.diff(self.offsets)

    @classmethod
    def of(cls, sentences: Iterable[Sequence[int]]) -> Self:
        """A store in memory."""
        arrays = [np.asarray(sentence, dtype=np.int32) for sentence in sentences]
        offsets = np.zeros(len(arrays) + 1, dtype=np.int64)
        np.cumsum([len(array) for array in arrays], out=offsets[1:])
        return cls(np.concatenate([*arrays, np.zeros(0, dtype=np.int32)]), offsets)

    def write(self, directory: Path, name: str) -> None:
        """Write the store so that `open` finds it."""
        write_array(directory / f"{name}.offsets.npy", self.offsets)
        write_array(directory / f"{name}.ids.npy", self.ids)

    @classmethod
    def open(cls, directory: Path, name: str) -> Self:
        """A store on disk, mapped and not read."""
        arrays = (np.load(directory / f"{name}.{part}.npy", mmap_mode="r") for part in ("ids", "offsets"))
        return cls(*arrays)


@dataclass(frozen=True)
class ParallelStore:
    """Both sides of a corpus as ids; what batches are made of."""

    source: TokenStore
    target: TokenStore

    def __len__(self) -> int:
        return len(self.source)

    def write(self, directory: Path, name: str) -> None:
        """Write both sides so that `open` finds them."""
        self.source.write(directory, f"{name}.source")
        self.target.write(directory, f"{name}.target")

    @classmethod
    def open(cls, directory: Path, name: str) -> Self:
        """Both sides on disk, mapped and not read."""
        return cls(TokenStore.open(directory, f"{name}.source"), TokenStore.open(directory, f"{name}.target"))
