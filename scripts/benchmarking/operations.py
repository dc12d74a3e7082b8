"""Where the time of a training goes: PyTorch's profiler, by phase of an update and by operation."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from seq2seq.data.batching import Batches
from seq2seq.model import Decoder, Encoder

PHASES: tuple[tuple[str, Any, str], ...] = (
    ("batch", Batches, "batch"),
    ("forward: encoder", Encoder, "forward"),
    ("forward: decoder", Decoder, "forward"),
    ("forward: output layer", Decoder, "output"),
    ("backward", torch.Tensor, "backward"),
    ("clipping", torch.nn.utils, "clip_grad_norm_"),
)
UPDATE = "whole update"
OPTIMIZER = "Optimizer.step"
"""What PyTorch itself calls this phase; the optimizer's class follows."""


class Operations:
    """Records a training while it runs; asked for between two updates."""

    def __init__(self) -> None:
        self._profile: profile | None = None

    def record(self) -> None:
        """Record from now on, the next update first."""
        for name, owner, attribute in PHASES:
            setattr(owner, attribute, _named(name, getattr(owner, attribute)))
        self._profile = profile(activities=[ProfilerActivity.CPU])
        self._profile.start()

    def table(self) -> dict[str, list[tuple[str, float, int]]]:
        """Since `record`, and ends the recording: name, seconds and calls of phases and operations, longest first.

        The time of a phase holds that of the operations in it; the time of an operation is its own alone.
        """
        assert self._profile is not None
        self._profile.stop()
        phases, operations = [], []
        names = {UPDATE, *(name for name, _, _ in PHASES)}
        for event in self._profile.key_averages():
            if event.key in names or event.key.startswith(OPTIMIZER):
                phases.append((event.key, 1e-6 * event.cpu_time_total, event.count))
            operations.append((event.key, 1e-6 * event.self_cpu_time_total, event.count))
        longest = functools.partial(sorted, key=lambda row: -row[1])
        return {"phases": longest(phases), "operations": longest(operations)}


def _named(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def recorded(*arguments: Any, **keywords: Any) -> Any:
        with record_function(name):
            return function(*arguments, **keywords)

    return recorded
