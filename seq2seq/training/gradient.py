"""The gradient of one update, over one batch or several, in smaller pieces where memory runs out."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from seq2seq.config import Config
from seq2seq.data.batching import Batch
from seq2seq.data.tokenizer import PAD
from seq2seq.errors import is_out_of_memory
from seq2seq.model import Seq2Seq
from seq2seq.training.loss import coverage_penalty, cross_entropy


class Piece(NamedTuple):
    """A batch, or part of one, and the rows of the corpus it is made of."""

    rows: NDArray[np.int64]
    batch: Batch

    def halves(self) -> list[Self]:
        """Both halves; of a single pair nothing is left."""
        middle = len(self.rows) // 2
        rows = [self.rows[:middle], self.rows[middle:]] if middle else []
        return [type(self)(*both) for both in zip(rows, self.batch.halves(), strict=True)]


class Sums(NamedTuple):
    """Over the target tokens of an update, </s> included."""

    likelihood: float
    """Negative log-likelihood of the references, in nats."""
    tokens: int
    """How many there are; 0 where memory sufficed for no pair."""


def accumulate_gradient(model: Seq2Seq, config: Config, pieces: Sequence[Piece], tell: Callable[[Piece], None]) -> Sums:
    """Leave the gradient of the loss per token in the parameters' `.grad`.

    Where memory does not suffice for a piece, all is begun anew with its halves, since part of its gradient may
    have been added up already; a pair for which alone it does not suffice is left out.

    Args:
        model: in training mode.
        config: the whole configuration.
        pieces: batches that make one update, of any size each: a token counts the same in all.
        tell: hears of each piece for which memory did not suffice.
    """
    while True:
        found = _try(model, config, pieces)
        if isinstance(found, Sums):
            return found
        tell(pieces[found])
        pieces = [*pieces[:found], *pieces[found].halves(), *pieces[found + 1 :]]


def _try(model: Seq2Seq, config: Config, pieces: Sequence[Piece]) -> Sums | int:
    """The sums, or which piece memory did not suffice for: what was computed of it is freed with this frame."""
    device = next(model.parameters()).device
    tokens = sum(int((piece.batch.target_output != PAD).sum()) for piece in pieces)
    likelihood = 0.0
    for parameter in model.parameters():
        parameter.grad = None
    for number, piece in enumerate(pieces):
        try:
            likelihood += _backward(model, config, piece.batch.to(device), tokens)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return number
    return Sums(likelihood, tokens)


def _backward(model: Seq2Seq, config: Config, batch: Batch, tokens: int) -> float:
    """Teacher-forced forward, loss, backward; the negative log-likelihood."""
    predictions = model(batch.source, batch.target_input, config.teacher_forcing.ratio)
    loss = cross_entropy(predictions.logits, batch.target_output, config.training.label_smoothing)
    minimised = loss.smoothed
    if config.attention.coverage_loss:
        penalty = coverage_penalty(predictions.attention, batch.target_output != PAD)
        minimised = minimised + config.attention.coverage_loss * penalty
    (minimised / tokens).backward()
    return float(loss.likelihood)
