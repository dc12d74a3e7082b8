"""The processes of one training: one alone, or those that torchrun started (DistributedDataParallel's scheme)."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import distributed, nn

from seq2seq.errors import UserError

Item = TypeVar("Item")
Sliceable = TypeVar("Sliceable", list[Any], range, NDArray[np.int64])


class Processes:
    """One process, which has nobody to ask."""

    rank, count = 0, 1

    @property
    def is_first(self) -> bool:
        """Whether this one writes files and shows progress."""
        return self.rank == 0

    def part(self, items: Sliceable) -> Sliceable:
        """This process's part of what is shared out: every `count`-th item, from `rank` on."""
        return items[self.rank :: self.count]

    def sums(self, *values: float) -> tuple[float, ...]:
        """The sum of each value over all processes."""
        return values

    def sum_gradients(self, parameters: Iterable[nn.Parameter], weight: float) -> None:
        """Make each gradient the sum over all processes of weight times theirs."""

    def gather(self, value: Item) -> list[Item]:
        """What each process gives, by rank."""
        return [value]

    def from_first(self, value: Item) -> Item:
        """What the first process gives."""
        return value


class TorchrunProcesses(Processes):
    """All processes that torchrun started: gloo on the CPU, nccl on CUDA.

    Args:
        device: of this process.

    Raises:
        UserError: they cannot reach one another.
    """

    def __init__(self, device: torch.device) -> None:
        try:
            distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
        except (RuntimeError, ValueError) as error:
            raise UserError(f"the processes of torchrun cannot reach one another: {error}") from None
        self.device = device
        self.rank, self.count = distributed.get_rank(), distributed.get_world_size()

    def sums(self, *values: float) -> tuple[float, ...]:
        summed = torch.tensor(values, dtype=torch.float64, device=self.device)
        with _together():
            distributed.all_reduce(summed)
        return tuple(summed.tolist())

    def sum_gradients(self, parameters: Iterable[nn.Parameter], weight: float) -> None:
        given = list(parameters)
        flat = torch.cat([torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in given])
        flat.mul_(weight)
        with _together():
            distributed.all_reduce(flat)
        for parameter, part in zip(given, flat.split([p.numel() for p in given]), strict=True):
            parameter.grad = part.view_as(parameter)

    def gather(self, value: Item) -> list[Item]:
        gathered: list[Any] = [None] * self.count
        with _together():
            distributed.all_gather_object(gathered, value)
        return gathered

    def from_first(self, value: Item) -> Item:
        given: list[Any] = [value]
        with _together():
            distributed.broadcast_object_list(given, src=0, device=self.device)
        return given[0]


@contextmanager
def _together() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        reason = str(error).splitlines()[0][:200]
        raise UserError(f"another process of this training has ended or cannot be reached ({reason})") from None


def join(device: torch.device) -> Processes:
    """Those that torchrun started this one with, or this one alone."""
    return TorchrunProcesses(device) if int(os.environ.get("WORLD_SIZE", "1")) > 1 else Processes()
