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
    if name == "auto":
        return torch.device("cuda" if cuda else "mps" if mps else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"device {name}: unknown; use auto, cpu, cuda, cuda:N or mps") from None
    there = {"cpu": True, "cuda": cuda, "mps": mps}.get(device.type, False)
    if not there or (device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count()):
        raise UserError(f"device {name}: this machine has none; use device: auto")
    return device


def use_threads(count: int | None) -> None:
    """CPU threads for torch; None: OMP_NUM_THREADS, else one for each core this process may use."""
    # OpenMP takes a list, too: the threads of each level of nesting.
    if count is None and re.match(r"\s*0*[1-9][0-9]*\s*(,|$)", os.environ.get("OMP_NUM_THREADS", "")):
        return
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    torch.set_num_threads(count or available)
