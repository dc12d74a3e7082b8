"""Label-smoothed cross entropy as sums, so that batches of any size add up to one honest figure."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from seq2seq.data.batching import Batch
from seq2seq.data.tokenizer import PAD
from seq2seq.errors import is_out_of_memory
from seq2seq.model import Seq2Seq


class Loss(NamedTuple):
    """Sums over the tokens of a batch."""

    smoothed: Tensor
    """What is minimised, in nats."""
    likelihood: Tensor
    """Negative log-likelihood of the reference, in nats; what perplexity is made of."""
    tokens: Tensor
    """Target tokens, </s> included."""


def cross_entropy(logits: Float[Tensor, "B T V"], targets: Int[Tensor, "B T"], smoothing: float = 0.0) -> Loss:
    """(1 - e) * -log p(y) + e * the mean of -log p over the vocabulary, summed over the tokens (Szegedy 2016)."""
    real = targets != PAD
    log_probabilities = logits.log_softmax(dim=-1)
    likelihood = -log_probabilities.gather(-1, targets.unsqueeze(-1)).squeeze(-1).masked_fill(~real, 0.0).sum()
    smoothed = likelihood
    if smoothing:
        spread = -log_probabilities.mean(dim=-1).masked_fill(~real, 0.0).sum()
        smoothed = (1 - smoothing) * likelihood + smoothing * spread
    return Loss(smoothed, likelihood.detach(), real.sum())


def coverage_penalty(attention: Float[Tensor, "B T S"], real: Bool[Tensor, "B T"]) -> Tensor:
    """Attention given twice: min(a_ts, the attention s had before t), summed over all (See 2017, equation 12)."""
    before = attention.cumsum(dim=1) - attention
    return torch.minimum(attention, before).sum(dim=-1).masked_fill(~real, 0.0).sum()


def model_perplexity(model: Seq2Seq, batches: Iterable[Batch]) -> float:
    """Perplexity of the references, over all their tokens; the model in eval mode."""
    return perplexity(*model_likelihood(model, batches))


@torch.inference_mode()
def model_likelihood(model: Seq2Seq, batches: Iterable[Batch]) -> tuple[float, int]:
    """Negative log-likelihood of the references, in nats, and their tokens; the model in eval mode."""
    device = next(model.parameters()).device
    likelihood, tokens = 0.0, 0
    for batch in batches:
        likelihood += _likelihood(model, batch.to(device))
        tokens += int((batch.target_output != PAD).sum())
    return likelihood, tokens


def _likelihood(model: Seq2Seq, batch: Batch) -> float:
    """Of the whole batch at once, or of its halves where memory does not suffice."""
    halves: list[Batch] = []
    try:
        logits = model(batch.source, batch.target_input).logits
        return float(cross_entropy(logits, batch.target_output).likelihood)
    except (RuntimeError, MemoryError) as error:
        halves = batch.halves()
        if not (halves and is_out_of_memory(error)):
            raise
    return sum(_likelihood(model, half) for half in halves)


def shown(value: float) -> str:
    """A perplexity for a person: two decimals, or a power of ten where a diverged model has hundreds of digits."""
    return f"{value:.2f}" if value < 1e6 else f"{value:.1e}"


def perplexity(likelihood: float, tokens: float) -> float:
    """exp of the mean negative log-likelihood of a token, at most e^700; infinite where a reference is impossible."""
    mean = likelihood / max(tokens, 1)
    return math.exp(min(mean, 700.0)) if math.isfinite(mean) else mean
