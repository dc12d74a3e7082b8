"""Tensors and text metadata in one safetensors file that says itself whether it is whole."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from seq2seq.data.files import atomic_write
from seq2seq.errors import UserError

CHECKSUM = "sha256"
"""Key of the metadata that holds the checksum of everything else."""


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors of any device; the old file stands until the new one is whole on disk.

    Raises:
        UserError: the file cannot be written.
    """
    here = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    content = save(here, {**metadata, CHECKSUM: _checksum(here, metadata)})
    with atomic_write(path) as file:
        file.write(content)


def read_tensors(path: Path, checked: bool = True) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors, on the CPU, and metadata, whose checksum is seen to fit unless not `checked`.

    Raises:
        DamagedError: the file is not as it was written.
        UserError: there is none.
    """
    if not path.is_file():
        raise UserError(f"{path}: missing; the run has not saved a model yet")
    path.open("rb").close()  # what may not be read is not damaged: the system's own words come out
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            metadata = dict(file.metadata() or {})
            # Copies: what is handed out is the file itself, mapped, and changes with it.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise DamagedError(f"{path}: damaged or no safetensors file ({error})") from None
    found = metadata.pop(CHECKSUM, None)
    if checked and found != _checksum(tensors, metadata):
        raise DamagedError(f"{path}: damaged: its content does not fit its checksum")
    return tensors, metadata


class DamagedError(UserError):
    """A file of a run is not as it was written."""


def _checksum(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(dict(metadata), sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
