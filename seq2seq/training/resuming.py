"""From what training works on to the tensors of a checkpoint, and back."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from seq2seq.model import Seq2Seq
from seq2seq.training.averaging import AverageWeights
from seq2seq.training.state import TrainerState

STATE = "state"
"""Key of the metadata that holds the TrainerState."""


def collect(
    model: Seq2Seq, optimizer: torch.optim.Optimizer, average: AverageWeights | None, device: torch.device
) -> dict[str, Tensor]:
    """Weights, optimizer, average and random state, as model.*, optimizer.N.*, average.* and random.*."""
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    for index, values in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": value for name, value in values.items()}
    if average is not None:
        tensors |= {f"average.{name}": value for name, value in average.average.items()}
    tensors["random.cpu"] = torch.get_rng_state()
    if device.type == "cuda":
        tensors["random.cuda"] = torch.cuda.get_rng_state(device)
    elif device.type == "mps":
        tensors["random.mps"] = torch.mps.get_rng_state()
    return tensors


def restore(
    tensors: Mapping[str, Tensor],
    model: Seq2Seq,
    optimizer: torch.optim.Optimizer,
    average: AverageWeights | None,
    device: torch.device,
) -> None:
    """Put back what `collect` gave.

    Raises:
        RuntimeError, KeyError, ValueError: the tensors are those of another model.
    """
    parts: dict[str, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        part, _, name = key.partition(".")
        parts.setdefault(part, {})[name] = value
    model.load_state_dict(parts["model"])
    moments: dict[int, dict[str, Any]] = {}
    for key, value in parts.get("optimizer", {}).items():
        index, _, name = key.partition(".")
        moments.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict(optimizer.state_dict() | {"state": moments})
    if average is not None:
        # A run that did not average so far starts its average from where it is.
        for name, value in parts.get("average", parts["model"]).items():
            average.average[name].copy_(value)
    torch.set_rng_state(parts["random"]["cpu"])
    if "cuda" in parts["random"] and device.type == "cuda":
        torch.cuda.set_rng_state(parts["random"]["cuda"], device)
    elif "mps" in parts["random"] and device.type == "mps":
        torch.mps.set_rng_state(parts["random"]["mps"])


def state_to_json(state: TrainerState) -> str:
    """What `state_from_json` reads."""
    return json.dumps(dataclasses.asdict(state))


def state_from_json(text: str) -> TrainerState:
    """The state that was written, by this program or an older one.

    Raises:
        ValueError, TypeError: this is none.
    """
    return TrainerState(**json.loads(text))
