"""Optimizers and learning-rate schedules."""

import math
from collections.abc import Iterable

import torch
from torch import nn

from seq2seq.config.schema import Training

OPTIMIZERS: dict[str, type[torch.optim.Adam]] = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


def build_optimizer(parameters: Iterable[nn.Parameter], settings: Training) -> torch.optim.Optimizer:
    """The configured optimizer over all parameters."""
    return OPTIMIZERS[settings.optimizer](
        list(parameters), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
    )


def learning_rate(settings: Training, step: int, progress: float, decay: float = 1.0) -> float:
    """The rate of an update.

    Args:
        settings: peak rate, warm-up and schedule.
        step: updates done before this one.
        progress: share of the budget (minutes, steps or epochs) that is used, 0 to 1.
        decay: what `plateau` has multiplied the rate by so far.
    """
    warmup = min(1.0, (step + 1) / settings.warmup_steps) if settings.warmup_steps else 1.0
    factor = 1.0
    if settings.schedule == "cosine":
        # Loshchilov & Hutter 2017, equation 5, with one period.
        factor = 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))
    elif settings.schedule == "inverse_sqrt":
        # Vaswani 2017, section 5.3, scaled to reach the peak when warm-up ends.
        factor = min(1.0, math.sqrt(max(settings.warmup_steps, 1) / (step + 1)))
    elif settings.schedule == "plateau":
        factor = decay
    return settings.learning_rate * warmup * factor
