"""From what training works on to the tensors of a checkpoint, and back."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from seq2seq.model import Seq2Seq
from seq2seq.training.averaging import AverageWeights
from seq2seq.training.state import TrainerState

STATE = "state"
"""Key of the metadata that holds the TrainerState."""


def collect(
    model: Seq2Seq,
    optimizer: torch.optim.Optimizer,
    average: AverageWeights | None,
    random: Sequence[Mapping[str, Tensor]],
) -> dict[str, Tensor]:
    """Weights, optimizer, average and random state of each process, as model.*, optimizer.N.*, average.*, random.*."""
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    for index, values in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": value for name, value in values.items()}
    if average is not None:
        tensors |= {f"average.{name}": value for name, value in average.average.items()}
    for rank, states in enumerate(random):
        tensors |= {f"random.{_of_rank(kind, rank)}": state for kind, state in states.items()}
    return tensors


def random_states(device: torch.device) -> dict[str, Tensor]:
    """Of the generators that training draws from."""
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    elif device.type == "mps":
        states["mps"] = torch.mps.get_rng_state()
    return states


def restore(
    tensors: Mapping[str, Tensor],
    model: Seq2Seq,
    optimizer: torch.optim.Optimizer,
    average: AverageWeights | None,
) -> None:
    """Put back what `collect` gave, without the random states.

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
    _check_moments(moments, list(model.parameters()))
    optimizer.load_state_dict(optimizer.state_dict() | {"state": moments})
    if average is not None:
        # A run that did not average so far starts its average from where it is.
        for name, value in parts.get("average", parts["model"]).items():
            average.average[name].copy_(value)


def restore_random(tensors: Mapping[str, Tensor], device: torch.device, rank: int) -> None:
    """Put back the random states of a process; one that the run did not have before keeps its own."""
    for kind, put in (
        ("cpu", torch.set_rng_state),
        ("cuda", lambda state: torch.cuda.set_rng_state(state, device)),
        ("mps", torch.mps.set_rng_state),
    ):
        state = tensors.get(f"random.{_of_rank(kind, rank)}")
        if state is not None and kind in ("cpu", device.type):
            put(state)


def _of_rank(kind: str, rank: int) -> str:
    return f"{kind}.{rank}" if rank else kind


def state_to_json(state: TrainerState) -> str:
    """What `state_from_json` reads."""
    return json.dumps(dataclasses.asdict(state))


def state_from_json(text: str) -> TrainerState:
    """The state that was written, by this program or an older one.

    Raises:
        ValueError, TypeError: this is none.
    """
    state = TrainerState(**json.loads(text))
    kinds: dict[str, Any] = {field.name: type(field.default) for field in dataclasses.fields(state)}
    for name, value in dataclasses.asdict(state).items():
        allowed = (int, float) if kinds[name] is float else (kinds[name],)
        if not isinstance(value, allowed) or value < 0:
            raise ValueError(f"{name} is {value!r}")
    return state


def _check_moments(moments: Mapping[int, Mapping[str, Tensor]], parameters: Sequence[Tensor]) -> None:
    """Fused optimizers trust their state: one of another size would have them write past its end."""
    if moments and moments.keys() != set(range(len(parameters))):
        raise ValueError("the optimizer's state is that of other parameters")
    for index, values in moments.items():
        expected = parameters[index]
        whole = values.keys() == {"exp_avg", "exp_avg_sq", "step"} and values["step"].numel() == 1
        if not whole or any(
            values[name].shape != expected.shape or values[name].dtype != expected.dtype
            for name in ("exp_avg", "exp_avg_sq")
        ):
            raise ValueError(f"the optimizer's state of parameter {index} does not fit it")
