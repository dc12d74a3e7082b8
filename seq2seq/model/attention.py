"""The formulas of attention. The base class masks, normalises and sums; a subclass says only how to score."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


class Memory(NamedTuple):
    """What the decoder attends to: made once for a sentence, read at every step."""

    keys: Float[Tensor, "B S A"]
    values: Float[Tensor, "B S M"]
    mask: Bool[Tensor, "B S"]

    def select(self, rows: Int[Tensor, "N"]) -> "Memory":
        """The memory of the given sentences: repeated, reordered or dropped."""
        return Memory(*(part.index_select(0, rows) for part in self))


class Attention(nn.Module):
    """C = softmax(score(Q, K)) V, with weight 0 on padding (Bahdanau 2015, equations 5 and 6).

    Args:
        query_size: size of a query, H.
        memory_size: size of an encoder output, M.
        size: size of the space in which they meet, A.
    """

    def __init__(self, query_size: int, memory_size: int, size: int) -> None:
        super().__init__()

    def prepare(self, outputs: Float[Tensor, "B S M"], mask: Bool[Tensor, "B S"]) -> Memory:
        """Keys and values from the encoder's outputs, once a sentence."""
        return Memory(self.keys(outputs), outputs, mask)

    def keys(self, outputs: Float[Tensor, "B S M"]) -> Float[Tensor, "B S A"]:
        """What of the keys does not depend on the query."""
        raise NotImplementedError

    def score(self, query: Float[Tensor, "B T H"], keys: Float[Tensor, "B S A"]) -> Float[Tensor, "B T S"]:
        """How well each query fits each key."""
        raise NotImplementedError

    def forward(
        self, query: Float[Tensor, "B T H"], memory: Memory
    ) -> tuple[Float[Tensor, "B T M"], Float[Tensor, "B T S"]]:
        """The context and the weights of each query; T = 1 is one step of the decoder."""
        scores = self.score(query, memory.keys)
        weights = scores.masked_fill(~memory.mask.unsqueeze(1), -torch.inf).softmax(dim=-1)
        return weights @ memory.values, weights


class NoAttention(Attention):
    """score = 0: one fixed C for all steps, the mean of the encoder's outputs (the classic encoder-decoder)."""

    def keys(self, outputs: Float[Tensor, "B S M"]) -> Float[Tensor, "B S A"]:
        return outputs[:, :, :1]

    def score(self, query: Float[Tensor, "B T H"], keys: Float[Tensor, "B S A"]) -> Float[Tensor, "B T S"]:
        return query.new_zeros(query.size(0), query.size(1), keys.size(1))


class _LinearOfConcatenation(Attention):
    """Linear([Q;K]), computed as W_q Q + (W_k K + b): the same numbers, and the second part only once a sentence."""

    def __init__(self, query_size: int, memory_size: int, size: int) -> None:
        super().__init__(query_size, memory_size, size)
        self.query = nn.Linear(query_size, size, bias=False)
        self.key = nn.Linear(memory_size, size)

    def keys(self, outputs: Float[Tensor, "B S M"]) -> Float[Tensor, "B S A"]:
        return self.key(outputs)

    def linear(self, query: Float[Tensor, "B T H"], keys: Float[Tensor, "B S A"]) -> Float[Tensor, "B T S A"]:
        return self.query(query).unsqueeze(2) + keys.unsqueeze(1)


class ConcatAttention(_LinearOfConcatenation):
    """score = Linear([Q;K]) with one output (formula 1 of the lesson)."""

    def __init__(self, query_size: int, memory_size: int, size: int) -> None:
        super().__init__(query_size, memory_size, 1)

    def score(self, query: Float[Tensor, "B T H"], keys: Float[Tensor, "B S A"]) -> Float[Tensor, "B T S"]:
        return self.linear(query, keys).squeeze(-1)


class ConcatTanhAttention(_LinearOfConcatenation):
    """score = sum(tanh(Linear([Q;K]))) (formula 2 of the lesson)."""

    def score(self, query: Float[Tensor, "B T H"], keys: Float[Tensor, "B S A"]) -> Float[Tensor, "B T S"]:
        return torch.tanh(self.linear(query, keys)).sum(dim=-1)


class AdditiveAttention(_LinearOfConcatenation):
    """score = v^T tanh(W Q + U K + b) (Bahdanau 2015, appendix A.1.2)."""

    def __init__(self, query_size: int, memory_size: int, size: int) -> None:
        super().__init__(query_size, memory_size, size)
        self.v = nn.Linear(size, 1, bias=False)

    def score(self, query: Float[Tensor, "B T H"], keys: Float[Tensor, "B S A"]) -> Float[Tensor, "B T S"]:
        return self.v(torch.tanh(self.linear(query, keys))).squeeze(-1)


class ScaledDotAttention(Attention):
    """score = (W Q) (U K)^T / sqrt(A) (formula 3 of the lesson; Vaswani 2017, equation 1)."""

    def __init__(self, query_size: int, memory_size: int, size: int) -> None:
        super().__init__(query_size, memory_size, size)
        self.query = nn.Linear(query_size, size, bias=False)
        self.key = nn.Linear(memory_size, size, bias=False)

    def keys(self, outputs: Float[Tensor, "B S M"]) -> Float[Tensor, "B S A"]:
        return self.key(outputs)

    def score(self, query: Float[Tensor, "B T H"], keys: Float[Tensor, "B S A"]) -> Float[Tensor, "B T S"]:
        return self.query(query) @ keys.transpose(1, 2) / keys.size(-1) ** 0.5


ATTENTIONS: dict[str, type[Attention]] = {
    "none": NoAttention,
    "concat": ConcatAttention,
    "concat_tanh": ConcatTanhAttention,
    "scaled_dot": ScaledDotAttention,
    "additive": AdditiveAttention,
}
