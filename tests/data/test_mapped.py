"""Arrays on disk."""

import sys
from pathlib import Path

import numpy as np
import pytest

from seq2seq.data.mapped import appended_array, map_array, map_bytes, release, write_array
from seq2seq.errors import UserError


@pytest.mark.parametrize("sizes", [[], [0], [3], [2, 0, 5], [10**6, 7]])
def test_an_array_written_in_pieces_is_the_file_that_numpy_writes(tmp_path: Path, sizes: list[int]) -> None:
    pieces = [np.arange(size, dtype=np.int64) for size in sizes]
    with appended_array(tmp_path / "a.npy", np.int32) as append:
        for piece in pieces:
            append(piece)
    np.save(tmp_path / "b.npy", np.concatenate([np.zeros(0), *pieces]).astype(np.int32))
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()


def test_a_block_that_raises_leaves_the_file_before(tmp_path: Path) -> None:
    write_array(tmp_path / "a.npy", np.arange(3))
    with pytest.raises(ZeroDivisionError), appended_array(tmp_path / "a.npy", np.int64) as append:
        append(np.zeros(9))
        raise ZeroDivisionError
    assert np.load(tmp_path / "a.npy").tolist() == [0, 1, 2]
    assert [path.name for path in tmp_path.iterdir()] == ["a.npy"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a\.npy: is a folder"):
        (tmp_path / "a.npy").mkdir()
        with appended_array(tmp_path / "a.npy", np.int64):
            pass


def test_what_is_mapped_is_not_read_and_can_be_let_go_of(tmp_path: Path) -> None:
    write_array(tmp_path / "a.npy", np.arange(100_000).reshape(-1, 2))
    mapped, text = map_array(tmp_path / "a.npy"), map_bytes(tmp_path / "a.npy")
    assert isinstance(mapped, np.memmap) and isinstance(text, np.memmap)
    for _ in range(2):
        assert mapped[-1].tolist() == [99_998, 99_999]
        assert text[:6].tobytes() == b"\x93NUMPY"
        release(mapped)
        release(text)
    release(np.arange(3))


def test_an_empty_file_has_no_bytes(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert map_bytes(tmp_path / "empty").tobytes() == b""


def resident_pages() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1])


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_pages_that_were_let_go_of_are_no_longer_resident(tmp_path: Path) -> None:
    write_array(tmp_path / "a.npy", np.ones(4_000_000))
    mapped = map_array(tmp_path / "a.npy")
    before = resident_pages()
    assert mapped.sum() == 4_000_000
    assert resident_pages() - before > 4_000
    release(mapped)
    assert resident_pages() - before < 1_000
