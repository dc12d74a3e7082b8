"""THE FORMULAS: how well a query Q fits a key K. The constructor holds the parameters, forward the formula.

With G heads everything is cut into G equal parts (Vaswani 2017, section 3.2.2); with one head a formula is the paper's.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from seq2seq.config import schema
from seq2seq.model.products import Linear


def split_heads(vectors: Float[Tensor, "B T M"], heads: int) -> Float[Tensor, "B G T A"]:
    """Each vector cut into `heads` parts, M = G A; a view, no copy."""
    return vectors.unflatten(-1, (heads, -1)).transpose(1, 2)


class Score(nn.Module):
    """score(Q, K). A subclass sets `query`, `key` and `key_size`, and says in forward how the two meet.

    Args:
        settings: kind, size and heads; a size of None is the query's.
        query_size: size of a query, H.
        memory_size: size of an encoder output, M.
    """

    query: nn.Module
    key: nn.Module
    key_size: int
    """Size of a key of one head, A."""

    def __init__(self, settings: schema.Attention, query_size: int, memory_size: int) -> None:
        super().__init__()
        self.heads = settings.heads

    def queries(self, query: Float[Tensor, "B T H"]) -> Float[Tensor, "B G T A"]:
        """What of the score depends on the query alone."""
        return split_heads(self.query(query), self.heads)

    def keys(self, outputs: Float[Tensor, "B S M"]) -> Float[Tensor, "B G S A"]:
        """What of the score depends on the encoder's outputs alone: made once a sentence."""
        return split_heads(self.key(outputs), self.heads)

    def forward(self, queries: Float[Tensor, "B G T A"], keys: Float[Tensor, "B G S A"]) -> Float[Tensor, "B G T S"]:
        """The score of each query and each key."""
        raise NotImplementedError


class _AsTheyAre(Score):
    """Q and K themselves, cut into heads."""

    def __init__(self, settings: schema.Attention, query_size: int, memory_size: int) -> None:
        super().__init__(settings, query_size, memory_size)
        self.query = nn.Identity()
        self.key = nn.Identity()
        self.key_size = memory_size // self.heads


class NoScore(_AsTheyAre):
    """score = 0: one fixed C for all steps, the mean of the encoder's outputs (the classic encoder-decoder)."""

    def forward(self, queries: Float[Tensor, "B G T H"], keys: Float[Tensor, "B G S M"]) -> Float[Tensor, "B G T S"]:
        return queries.new_zeros(*queries.shape[:3], keys.size(2))


class _LinearOfConcatenation(Score):
    """Linear([Q;K]), computed as W_q Q + (W_k K + b): the same numbers, and the second part only once a sentence."""

    query: Linear

    def __init__(self, settings: schema.Attention, query_size: int, memory_size: int, outputs: int) -> None:
        super().__init__(settings, query_size, memory_size)
        self.query = Linear(query_size, outputs, bias=False)
        self.key = Linear(memory_size, outputs)
        self.key_size = outputs // self.heads

    def linear(self, queries: Float[Tensor, "B G T A"], keys: Float[Tensor, "B G S A"]) -> Float[Tensor, "B G T S A"]:
        return queries.unsqueeze(3) + keys.unsqueeze(2)


class Concat(_LinearOfConcatenation):
    """score = Linear([Q;K]) with one output (formula 1 of the lesson)."""

    def __init__(self, settings: schema.Attention, query_size: int, memory_size: int) -> None:
        super().__init__(settings, query_size, memory_size, outputs=settings.heads)

    def forward(self, queries: Float[Tensor, "B G T 1"], keys: Float[Tensor, "B G S 1"]) -> Float[Tensor, "B G T S"]:
        return self.linear(queries, keys).squeeze(-1)


class ConcatPositions(_LinearOfConcatenation):
    """score_j = Linear([Q;K_j])_j: formula 1 with one output for each of P source positions, P = max_length.

    Position j reads output j, so unlike Concat it depends on the query; positions from P on share the last output.
    """

    key: Linear

    def __init__(self, settings: schema.Attention, query_size: int, memory_size: int) -> None:
        super().__init__(settings, query_size, memory_size, outputs=settings.heads * settings.max_length)
        self.last = settings.max_length - 1
        self.key_size = 1

    def keys(self, outputs: Float[Tensor, "B S M"]) -> Float[Tensor, "B G S 1"]:
        read = self._outputs_read(outputs.size(1), outputs)
        weight = self.key.weight.unflatten(0, (self.heads, -1)).index_select(1, read)
        bias = self.key.bias.unflatten(0, (self.heads, -1)).index_select(1, read)
        return (torch.einsum("bsm,gsm->bgs", outputs, weight) + bias).unsqueeze(-1)

    def forward(self, queries: Float[Tensor, "B G T P"], keys: Float[Tensor, "B G S 1"]) -> Float[Tensor, "B G T S"]:
        return queries.index_select(3, self._outputs_read(keys.size(2), keys)) + keys.transpose(2, 3)

    def _outputs_read(self, positions: int, like: Tensor) -> Tensor:
        return torch.arange(positions, device=like.device).clamp(max=self.last)


class ConcatTanh(_LinearOfConcatenation):
    """score = sum(tanh(Linear([Q;K]))) (formula 2 of the lesson)."""

    def __init__(self, settings: schema.Attention, query_size: int, memory_size: int) -> None:
        super().__init__(settings, query_size, memory_size, outputs=settings.size or query_size)

    def forward(self, queries: Float[Tensor, "B G T A"], keys: Float[Tensor, "B G S A"]) -> Float[Tensor, "B G T S"]:
        return torch.tanh(self.linear(queries, keys)).sum(dim=-1)


class Additive(_LinearOfConcatenation):
    """score = v^T tanh(W Q + U K + b) (Bahdanau 2015, appendix A.1.2)."""

    def __init__(self, settings: schema.Attention, query_size: int, memory_size: int) -> None:
        super().__init__(settings, query_size, memory_size, outputs=settings.size or query_size)
        # A row for each head.
        self.v = Linear(self.key_size, self.heads, bias=False)

    def forward(self, queries: Float[Tensor, "B G T A"], keys: Float[Tensor, "B G S A"]) -> Float[Tensor, "B G T S"]:
        return torch.einsum("bgtsa,ga->bgts", torch.tanh(self.linear(queries, keys)), self.v.weight)


class _Product(Score):
    """W Q and U K, without bias, for a score that multiplies them."""

    query: Linear

    def __init__(self, settings: schema.Attention, query_size: int, memory_size: int) -> None:
        super().__init__(settings, query_size, memory_size)
        size = settings.size or query_size
        self.query = Linear(query_size, size, bias=False)
        self.key = Linear(memory_size, size, bias=False)
        self.key_size = size // self.heads


class ScaledDot(_Product):
    """score = (W Q) (U K)^T / sqrt(A) (formula 3 of the lesson; Vaswani 2017, equation 1, where A is d_k)."""

    def forward(self, queries: Float[Tensor, "B G T A"], keys: Float[Tensor, "B G S A"]) -> Float[Tensor, "B G T S"]:
        return (queries / self.key_size**0.5) @ keys.transpose(2, 3)


class Cosine(_Product):
    """score = cos(W Q, U K) / temperature (Graves 2014, equations 5 and 6, where 1 / temperature is beta)."""

    def __init__(self, settings: schema.Attention, query_size: int, memory_size: int) -> None:
        super().__init__(settings, query_size, memory_size)
        self.temperature = settings.temperature

    def forward(self, queries: Float[Tensor, "B G T A"], keys: Float[Tensor, "B G S A"]) -> Float[Tensor, "B G T S"]:
        # In half precision the small number that keeps F.normalize from dividing by 0 would itself be 0.
        precision = torch.promote_types(keys.dtype, torch.float32)
        queries, keys = (F.normalize(vectors.to(precision), dim=-1) for vectors in (queries, keys))
        return queries @ keys.transpose(2, 3) / self.temperature


class Dot(_AsTheyAre):
    """score = Q K^T, without parameters (Luong 2015, section 3.1); the two have one size, H = M."""

    def forward(self, queries: Float[Tensor, "B G T A"], keys: Float[Tensor, "B G S A"]) -> Float[Tensor, "B G T S"]:
        return queries @ keys.transpose(2, 3)


class General(Dot):
    """score = Q W K^T (Luong 2015, section 3.1)."""

    def __init__(self, settings: schema.Attention, query_size: int, memory_size: int) -> None:
        super().__init__(settings, query_size, memory_size)
        self.query = Linear(query_size, memory_size, bias=False)


SCORES: dict[str, type[Score]] = {
    "none": NoScore,
    "concat": Concat,
    "concat_positions": ConcatPositions,
    "concat_tanh": ConcatTanh,
    "scaled_dot": ScaledDot,
    "additive": Additive,
    "dot": Dot,
    "general": General,
    "cosine": Cosine,
}
