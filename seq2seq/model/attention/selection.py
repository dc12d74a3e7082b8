"""Which positions the scores select: scores in, weights out. Padding has weight exactly 0 in each."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.function import Function, once_differentiable

from seq2seq.config import schema
from seq2seq.model.products import Linear


class Selection(nn.Module):
    """Scores to weights. A subclass says in `weights` how, with scores of -inf on padding.

    Args:
        settings: selection and what belongs to it.
        query_size: size of a query, H.
    """

    def __init__(self, settings: schema.Attention, query_size: int) -> None:
        super().__init__()

    def forward(
        self,
        scores: Float[Tensor, "B G T S"],
        mask: Bool[Tensor, "B S"],
        query: Float[Tensor, "B T H"],
        position: Int[Tensor, "B"],
    ) -> Float[Tensor, "B G T S"]:
        """Weights in the precision of the scores, at least float32; each sentence has at least one token.

        Only the local selection reads `query`, and `position`, the target position of each sentence's first query.
        """
        return self.weights(_masked(scores, mask))

    def weights(self, scores: Float[Tensor, "B G T S"]) -> Float[Tensor, "B G T S"]:
        """The weights, from scores that are -inf where the weight has to be 0."""
        raise NotImplementedError


def _masked(scores: Float[Tensor, "B G T S"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B G T S"]:
    precision = torch.promote_types(scores.dtype, torch.float32)
    return scores.to(precision).masked_fill(~mask[:, None, None], -torch.inf)


class Soft(Selection):
    """softmax over all positions (Bahdanau 2015, equation 6)."""

    def weights(self, scores: Float[Tensor, "B G T S"]) -> Float[Tensor, "B G T S"]:
        return scores.softmax(dim=-1)


class Hard(Selection):
    """Exactly one position: weights are exactly 0 or 1.

    Training draws a position from softmax(scores) by adding Gumbel noise; its gradient is that of the relaxed draw,
    softmax((scores + noise) / temperature) (straight-through Gumbel-softmax; Jang 2017, section 2.2).
    Evaluation takes the position of the largest score, the first of equals; it has no gradient.
    """

    def __init__(self, settings: schema.Attention, query_size: int) -> None:
        super().__init__(settings, query_size)
        self.temperature = settings.gumbel_temperature

    def weights(self, scores: Float[Tensor, "B G T S"]) -> Float[Tensor, "B G T S"]:
        if not self.training:
            return _one_hot(scores)
        # -log of an exponential draw has the Gumbel distribution; a draw of 0 would give an infinite score.
        draw = torch.empty_like(scores).exponential_().clamp(min=torch.finfo(scores.dtype).tiny)
        noisy = scores - draw.log()
        relaxed = (noisy / self.temperature).softmax(dim=-1)
        return _one_hot(noisy) + (relaxed - relaxed.detach())


def _one_hot(scores: Float[Tensor, "B G T S"]) -> Float[Tensor, "B G T S"]:
    return torch.zeros_like(scores).scatter(-1, scores.argmax(dim=-1, keepdim=True), 1.0)


class Local(Selection):
    """softmax within the window [p - D, p + D], exactly 0 outside (Luong 2015, section 3.2).

    centre: monotonic (local-m): p is the target position, at most the sentence's last position.
    centre: predicted (local-p, equations 9 and 10): p = (len - 1) sigmoid(v_p^T tanh(W_p Q)), with len - 1 for the
        paper's len because positions count from 0; the weights are multiplied by exp(-(s - p)^2 / (2 sigma^2)),
        sigma = D / 2, and as in the paper not normalised again. W_p serves all heads, v_p has a row for each.
    """

    def __init__(self, settings: schema.Attention, query_size: int) -> None:
        super().__init__(settings, query_size)
        self.window = settings.window
        self.predicted = settings.centre == "predicted"
        if self.predicted:
            self.w_p = Linear(query_size, query_size, bias=False)
            self.v_p = Linear(query_size, settings.heads, bias=False)

    def forward(
        self,
        scores: Float[Tensor, "B G T S"],
        mask: Bool[Tensor, "B S"],
        query: Float[Tensor, "B T H"],
        position: Int[Tensor, "B"],
    ) -> Float[Tensor, "B G T S"]:
        scores = _masked(scores, mask)
        last = mask.sum(dim=1)[:, None, None] - 1
        centre = self._predict(query, last) if self.predicted else self._follow(position, query.size(1), last)
        distance = torch.arange(scores.size(-1), device=scores.device) - centre.unsqueeze(-1)
        weights = scores.masked_fill(distance.abs() > self.window, -torch.inf).softmax(dim=-1)
        return weights * torch.exp(-2 * (distance / self.window).square()) if self.predicted else weights

    def _predict(self, query: Float[Tensor, "B T H"], last: Int[Tensor, "B 1 1"]) -> Float[Tensor, "B G T"]:
        predicted = self.v_p(torch.tanh(self.w_p(query))).transpose(1, 2)
        return last * predicted.to(torch.promote_types(predicted.dtype, torch.float32)).sigmoid()

    def _follow(self, position: Int[Tensor, "B"], steps: int, last: Int[Tensor, "B 1 1"]) -> Int[Tensor, "B 1 T"]:
        ahead = torch.arange(steps, device=position.device)
        return torch.minimum(position[:, None, None] + ahead, last)


class Sparsemax(Selection):
    """The probabilities nearest to the scores, with exact zeros (Martins & Astudillo 2016)."""

    def weights(self, scores: Float[Tensor, "B G T S"]) -> Float[Tensor, "B G T S"]:
        return _Sparsemax.apply(scores)


class Entmax(Selection):
    """1.5-entmax, between softmax and sparsemax: smooth, with exact zeros (Peters 2019)."""

    def weights(self, scores: Float[Tensor, "B G T S"]) -> Float[Tensor, "B G T S"]:
        return _Entmax.apply(scores)


def _descending(shifted: Float[Tensor, "*B S"]) -> Float[Tensor, "*B S"]:
    # The largest is 0 and the threshold at least -1: what lies well below has weight 0 and must not cost precision.
    return shifted.clamp(min=-2).sort(dim=-1, descending=True).values


def _at_support(values: Float[Tensor, "*B S"], supported: Bool[Tensor, "*B S"]) -> Float[Tensor, "*B 1"]:
    return values.gather(-1, supported.sum(dim=-1, keepdim=True) - 1)


class _Sparsemax(Function):
    """max(z - tau, 0), where tau makes the sum 1 (Martins & Astudillo 2016, algorithm 1).

    Gradient: the incoming one minus its mean over the support, and 0 outside (the same, section 2.5).
    """

    @staticmethod
    def forward(ctx: Any, scores: Float[Tensor, "*B S"]) -> Float[Tensor, "*B S"]:
        shifted = scores - scores.amax(dim=-1, keepdim=True)
        ordered = _descending(shifted)
        count = torch.arange(1, scores.size(-1) + 1, device=scores.device)
        sums = ordered.cumsum(dim=-1)
        tau = _at_support((sums - 1) / count, 1 + count * ordered > sums)
        weights = (shifted - tau).clamp(min=0)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Float[Tensor, "*B S"]) -> Float[Tensor, "*B S"]:
        (weights,) = ctx.saved_tensors
        support = weights > 0
        mean = (gradient * support).sum(dim=-1, keepdim=True) / support.sum(dim=-1, keepdim=True)
        return (gradient - mean) * support


class _Entmax(Function):
    """max(z / 2 - tau, 0)^2, where tau makes the sum 1 (Peters 2019, algorithm 2).

    Gradient: the incoming one minus its mean weighted by r, times r, where r = sqrt(weights) (the same, section 3).
    """

    @staticmethod
    def forward(ctx: Any, scores: Float[Tensor, "*B S"]) -> Float[Tensor, "*B S"]:
        shifted = (scores - scores.amax(dim=-1, keepdim=True)) / 2
        ordered = _descending(shifted)
        count = torch.arange(1, scores.size(-1) + 1, device=scores.device)
        mean = ordered.cumsum(dim=-1) / count
        spread = ordered.square().cumsum(dim=-1) - count * mean.square()
        taus = mean - ((1 - spread) / count).clamp(min=0).sqrt()
        weights = (shifted - _at_support(taus, taus < ordered)).clamp(min=0).square()
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Float[Tensor, "*B S"]) -> Float[Tensor, "*B S"]:
        (weights,) = ctx.saved_tensors
        root = weights.sqrt()
        mean = (gradient * root).sum(dim=-1, keepdim=True) / root.sum(dim=-1, keepdim=True)
        return (gradient - mean) * root


SELECTIONS: dict[str, type[Selection]] = {
    "soft": Soft,
    "hard": Hard,
    "local": Local,
    "sparsemax": Sparsemax,
    "entmax": Entmax,
}
