"""Tensor files: equal when they come back, and never read when they are not what was written."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from seq2seq.checkpoint.tensors import DamagedError, read_tensors, write_tensors
from seq2seq.errors import UserError

TENSORS = {"a": torch.randn(3, 4), "b": torch.arange(3), "c": torch.randn(4, 3).t(), "d": torch.tensor(0.5)}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_tensors(tmp_path / "x.safetensors", TENSORS, {"step": "3", "text": "一\n"})
    return tmp_path / "x.safetensors"


def test_tensors_come_back_equal_with_their_metadata(file: Path) -> None:
    tensors, metadata = read_tensors(file)
    assert metadata == {"step": "3", "text": "一\n"}
    assert tensors.keys() == TENSORS.keys()
    assert all(torch.equal(tensors[name], value) for name, value in TENSORS.items())


def test_what_was_read_does_not_change_with_the_file(file: Path) -> None:
    tensors, _ = read_tensors(file)
    with file.open("r+b") as opened:
        opened.write(bytes(file.stat().st_size))
    assert all(torch.equal(tensors[name], value) for name, value in TENSORS.items())


def test_a_flipped_bit_is_noticed_wherever_it_is(file: Path) -> None:
    content = file.read_bytes()
    whole = read_tensors(file)

    @settings(max_examples=300, deadline=None)
    @given(st.integers(0, len(content) * 8 - 1))
    def flip(bit: int) -> None:
        spoilt = bytearray(content)
        spoilt[bit // 8] ^= 1 << bit % 8
        file.write_bytes(spoilt)
        try:
            tensors, metadata = read_tensors(file)
        except DamagedError as error:
            assert str(error).startswith(f"{file}: damaged") and "\n" not in str(error)
        else:
            # The header ends in blanks, of which JSON takes any; nothing else may pass.
            assert metadata == whole[1] and all(torch.equal(tensors[n], v) for n, v in whole[0].items())
            assert content[bit // 8 : bit // 8 + 1].isspace()

    flip()


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 9, 100, -1])
def test_a_truncated_file_is_noticed(file: Path, keep: int) -> None:
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(DamagedError, match=r"x\.safetensors: damaged"):
        read_tensors(file)


@pytest.mark.parametrize(
    "header", ['{"a":{"dtype":"F32","shape":[9999999999],"data_offsets":[0,39999999996]}}', "{}" * 99]
)
def test_a_header_that_lies_about_sizes_is_refused_before_memory_is_taken(tmp_path: Path, header: str) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header.encode() + b"\0" * 64)
    with pytest.raises(DamagedError, match="damaged"):
        read_tensors(path)
    path.write_bytes((1 << 62).to_bytes(8, "little") + header.encode())
    with pytest.raises(DamagedError, match="damaged"):
        read_tensors(path)


def test_a_file_without_a_checksum_is_taken_only_where_none_is_expected(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(2)}, tmp_path / "x.safetensors", {"step": "1"})
    assert read_tensors(tmp_path / "x.safetensors", checked=False)[1] == {"step": "1"}
    with pytest.raises(DamagedError, match="does not fit its checksum"):
        read_tensors(tmp_path / "x.safetensors")


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="missing; the run has not saved a model yet"):
        read_tensors(tmp_path / "x.safetensors")
