"""Where tensors live: CUDA when there is one, else MPS, else CPU."""

import os
import re

import torch

from seq2seq.errors import UserError


def choose_device(name: str) -> torch.device:
    """The device called `name`: auto, cpu, cuda, cuda:N or mps.

    Raises:
        UserError: this machine has no such device.
    """
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    if name == "auto" and cuda and "LOCAL_RANK" in os.environ:  # of torchrun: a device for each process
        name = f"cuda:{os.environ['LOCAL_RANK']}"
    if name == "auto":
        return torch.device("cuda" if cuda else "mps" if mps else "cpu")
    # torch.device takes an index of 8 bits: its cuda:300 is cuda:44.
    if not re.fullmatch(r"cpu|mps|cuda(:[0-9]{1,3})?", name):
        raise UserError(f"device {repr(name)[1:-1]}: unknown; use auto, cpu, cuda, cuda:N or mps")
    kind, _, index = name.partition(":")
    count = {"cpu": 1, "cuda": torch.cuda.device_count() if cuda else 0, "mps": int(mps)}[kind]
    if int(index or 0) >= count:
        raise UserError(f"device {name}: this machine has none; use device: auto")
    return torch.device(kind, int(index)) if index else torch.device(kind)


def use_threads(count: int | None) -> None:
    """CPU threads for torch; None: OMP_NUM_THREADS, else one for each core this process may use."""
    # OpenMP takes a list, too: the threads of each level of nesting.
    if count is None and re.match(r"\s*0*[1-9][0-9]*\s*(,|$)", os.environ.get("OMP_NUM_THREADS", "")):
        return
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    torch.set_num_threads(count or available)
