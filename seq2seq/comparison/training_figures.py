"""What a run's files say of its training, each figure checked: a run may have been copied in part or edited."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from seq2seq.checkpoint import RunDirectory
from seq2seq.data.files import read_lines
from seq2seq.errors import UserError


@dataclass(frozen=True)
class TrainingFigures:
    """A finished training."""

    perplexity: float
    """Of the test references, for each target token."""
    tokens_per_second: float
    """Target tokens in training, validation left out: the median of the validations' reports."""
    updates: int
    epoch: int
    """In which training ended, from 1."""
    minutes: float
    """Of training, validation included."""
    dev_curve: list[tuple[float, float]]
    """(minutes, dev BLEU) of each validation."""


def training_figures(run: RunDirectory) -> TrainingFigures:
    """The figures of report.json and metrics.jsonl.

    Raises:
        UserError: a file is missing or damaged.
    """
    report = run.read_json("report.json")
    try:
        perplexity = _number(report, "perplexity")
    except ValueError as error:
        raise _damaged(str(run.path / "report.json"), error) from None
    validations = _validations(run)
    last = validations[-1]
    return TrainingFigures(
        perplexity=perplexity,
        tokens_per_second=median(each["tokens_per_second"] for each in validations),
        updates=int(last["step"]),
        epoch=int(last["epoch"]),
        minutes=last["minutes"],
        dev_curve=[(each["minutes"], each["dev_bleu"]) for each in validations],
    )


def _validations(run: RunDirectory) -> list[dict[str, float]]:
    path = run.path / "metrics.jsonl"
    found = []
    for number, line in read_lines(path):
        try:
            content = json.loads(line)
            if not isinstance(content, dict):
                raise ValueError("holds no JSON object")
            if "dev_bleu" in content:
                keys = ("step", "epoch", "minutes", "tokens_per_second", "dev_bleu")
                found.append({key: _number(content, key) for key in keys})
        except ValueError as error:
            raise _damaged(f"{path}, line {number}", error) from None
    if not found:
        raise _damaged(str(path), ValueError("holds no validation"))
    return found


def _number(content: Mapping[str, Any], key: str) -> float:
    if key not in content:
        raise ValueError(f"{key} is missing")
    value = content[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{key} is {value!r}, not a number")
    return value


def _damaged(where: str, error: ValueError) -> UserError:
    return UserError(f"{where}: {error}; the run is damaged, train again or copy it anew")
