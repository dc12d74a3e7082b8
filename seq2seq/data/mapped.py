"""Arrays on disk: written piece by piece, mapped and not read, and let go of so that memory does not fill with them."""

import mmap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from seq2seq.data.files import atomic_write


def write_array(path: Path, array: NDArray[np.generic]) -> None:
    """Write an array as .npy, atomically.

    Raises:
        UserError: the file cannot be written.
    """
    array = np.ascontiguousarray(array)
    with atomic_write(path) as file:
        _write_header(file, array.dtype, array.shape)
        file.write(array.data)


@contextmanager
def appended_array(path: Path, dtype: DTypeLike) -> Iterator[Callable[[NDArray[Any]], None]]:
    """Write a flat array as .npy, atomically, from the pieces that the function given is called with.

    Raises:
        UserError: the file cannot be written.
    """
    kind, count = np.dtype(dtype), 0
    with atomic_write(path) as file:
        _write_header(file, kind, (0,))

        def append(piece: NDArray[Any]) -> None:
            nonlocal count
            count += len(piece)
            file.write(np.ascontiguousarray(piece, dtype=kind).data)

        yield append
        # The header has room for any number of entries (numpy's GROWTH_AXIS_MAX_DIGITS), so its length stays.
        file.seek(0)
        _write_header(file, kind, (count,))


def _write_header(file: IO[bytes], dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    # Not np.save, which writes past the file object, so that a full disk would not be blamed on the file.
    description = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, description)


def map_array(path: Path) -> NDArray[Any]:
    """An array of a .npy file, mapped and not read."""
    array: NDArray[Any] = np.load(path, mmap_mode="r")
    return array


def map_bytes(path: Path) -> NDArray[np.uint8]:
    """The bytes of a file, mapped and not read."""
    if path.stat().st_size == 0:  # nothing cannot be mapped
        return np.zeros(0, dtype=np.uint8)
    return np.memmap(path, dtype=np.uint8, mode="r")


def release(array: NDArray[Any]) -> None:
    """Take the pages of a mapped array out of this process's memory; they stay in the system's cache of the disk.

    Pages that were read count as the process's own until the system runs short: without this, its resident memory
    would grow to the size of the corpus. Where the system cannot be told (Windows), nothing is done.
    """
    advice = getattr(mmap, "MADV_DONTNEED", None)
    mapped: Any = array.base
    if advice is not None and isinstance(mapped, mmap.mmap):
        mapped.madvise(advice)
