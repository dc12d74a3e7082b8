"""An exponential moving average of the weights (Polyak & Juditsky 1992)."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class AverageWeights:
    """w' <- d w' + (1 - d) w after each update, with d rising to `decay` so that the first weights are forgotten."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.parameters = dict(model.named_parameters())
        self.restart()

    def restart(self) -> None:
        """Begin with the weights as they are."""
        self.average = {name: value.detach().clone() for name, value in self.parameters.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights after update `step`."""
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(list(self.average.values()), list(self.parameters.values()), 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The model with the averaged weights, for as long as the block runs."""
        with torch.no_grad():
            kept = {name: value.detach().clone() for name, value in self.parameters.items()}
            self._put(self.average)
        try:
            yield
        finally:
            self._put(kept)

    @torch.no_grad()
    def _put(self, weights: dict[str, Tensor]) -> None:
        for name, value in self.parameters.items():
            value.copy_(weights[name])
