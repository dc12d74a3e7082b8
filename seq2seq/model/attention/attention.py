"""Attention: score, select, sum."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seq2seq.config import schema
from seq2seq.model.attention.scores import SCORES, split_heads
from seq2seq.model.attention.selection import SELECTIONS
from seq2seq.model.products import Linear


class Memory(NamedTuple):
    """What the decoder attends to: made once for a sentence, read at every step."""

    keys: Float[Tensor, "B G S A"]
    values: Float[Tensor, "B G S M"]
    """M here is the part of one head."""
    mask: Bool[Tensor, "B S"]

    def select(self, rows: Int[Tensor, "N"]) -> "Memory":
        """The memory of the given sentences: repeated, reordered or dropped."""
        return Memory(*(part.index_select(0, rows) for part in self))


class AttentionState(NamedTuple):
    """What the queries so far hand to the next one."""

    position: Int[Tensor, "B"]
    """Target position of the next query."""
    coverage: Float[Tensor, "B S"] | None
    """Sum of the weights so far, where attention reads it."""

    def select(self, rows: Int[Tensor, "N"]) -> "AttentionState":
        """The states of the given sentences: repeated, reordered or dropped."""
        coverage = None if self.coverage is None else self.coverage.index_select(0, rows)
        return AttentionState(self.position.index_select(0, rows), coverage)


class Attention(nn.Module):
    """C = select(score(Q, K)) V.

    One head sums the encoder's outputs themselves (Bahdanau 2015, equation 5). With more, each sums its own part of
    Linear(outputs), and C is all heads joined (Vaswani 2017, section 3.2.2); the decoder's [Q;C] -> Linear is their
    output projection. With coverage, w_c times the attention that a position has had so far is added to its key
    (Tu 2016; See 2017, equation 11).

    Args:
        settings: the section `attention` of the configuration.
        query_size: size of a query, H.
        memory_size: size of an encoder output, M.
    """

    def __init__(self, settings: schema.Attention, query_size: int, memory_size: int) -> None:
        super().__init__()
        self.heads = settings.heads
        self.score = SCORES[settings.kind](settings, query_size, memory_size)
        self.selection = SELECTIONS[settings.selection](settings, query_size)
        self.value = Linear(memory_size, memory_size, bias=False) if self.heads > 1 else nn.Identity()
        self.w_c: nn.Parameter | None = None
        if settings.coverage:
            self.w_c = nn.Parameter(nn.init.xavier_uniform_(torch.empty(self.heads, self.score.key_size)))

    @property
    def stepwise(self) -> bool:
        """Whether a query needs the weights of the one before, so that queries can come only one at a time."""
        return self.w_c is not None

    def prepare(self, outputs: Float[Tensor, "B S M"], mask: Bool[Tensor, "B S"]) -> Memory:
        """Keys and values from the encoder's outputs, once a sentence; padding stands at the end."""
        return Memory(self.score.keys(outputs), split_heads(self.value(outputs), self.heads), mask)

    def start(self, memory: Memory) -> AttentionState:
        """The state before the first query."""
        position = memory.mask.new_zeros(memory.mask.size(0), dtype=torch.long)
        if not self.stepwise:
            return AttentionState(position, None)
        precision = torch.promote_types(memory.values.dtype, torch.float32)
        return AttentionState(position, torch.zeros_like(memory.mask, dtype=precision))

    def forward(
        self, query: Float[Tensor, "B T H"], memory: Memory, state: AttentionState
    ) -> tuple[Float[Tensor, "B T M"], Float[Tensor, "B T S"], AttentionState]:
        """The context of each query, its weights (the mean over the heads) and the state after the last query.

        Raises:
            ValueError: several queries at once, though stepwise.
        """
        keys, values, mask = memory
        if self.w_c is not None:
            assert state.coverage is not None
            if query.size(1) != 1:
                raise ValueError(f"coverage takes one query at a time, not {query.size(1)}")
            keys = keys + state.coverage[:, None, :, None] * self.w_c.unsqueeze(1)
        scores = self.score(self.score.queries(query), keys)
        weights = self.selection(scores, mask, query, state.position)
        context = (weights.to(values.dtype) @ values).transpose(1, 2).flatten(start_dim=2)
        mean = weights.mean(dim=1)
        coverage = None if state.coverage is None else state.coverage + mean.squeeze(1)
        return context, mean, AttentionState(state.position + query.size(1), coverage)
