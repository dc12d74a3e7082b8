"""Self-attention: each position of a sentence attends to the others (Q = K = V)."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from seq2seq.model.attention.scores import split_heads
from seq2seq.model.products import Linear


class SelfAttentionCache(NamedTuple):
    """Keys and values of the T positions so far, of each head."""

    keys: Float[Tensor, "B G T A"]
    values: Float[Tensor, "B G T A"]

    def select(self, rows: Int[Tensor, "N"]) -> "SelfAttentionCache":
        """The caches of the given sentences: repeated, reordered or dropped."""
        return SelfAttentionCache(*(part.index_select(0, rows) for part in self))


class SelfAttention(nn.Module):
    """x + dropout(Linear(multi-head scaled dot attention of LayerNorm(x))).

    Heads: Vaswani 2017, section 3.2.2; the norm before instead of after: Xiong 2020, table 1.

    Args:
        size: size of an input and of an output, M.
        heads: heads, G; a divisor of size.
        dropout: dropout on what is added to the input.
        causal: position t attends only to positions up to t (Vaswani 2017, section 3.2.3).
    """

    def __init__(self, size: int, heads: int, dropout: float, causal: bool = False) -> None:
        super().__init__()
        self.size = size
        self.heads = heads
        self.causal = causal
        self.norm = nn.LayerNorm(size)
        self.query_key_value = Linear(size, 3 * size, bias=False)
        self.output = Linear(size, size)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, inputs: Float[Tensor, "B S M"], mask: Bool[Tensor, "B S"] | None = None
    ) -> Float[Tensor, "B S M"]:
        """A whole sentence; padding, where `mask` is False, stands at the end. No mask: no padding."""
        queries, keys, values = self._project(inputs)
        if mask is None:
            return self._add(inputs, F.scaled_dot_product_attention(queries, keys, values, is_causal=self.causal))
        seen = mask[:, None, None]
        if self.causal:
            seen = seen & torch.ones(mask.size(1), mask.size(1), dtype=torch.bool, device=mask.device).tril()
        return self._add(inputs, F.scaled_dot_product_attention(queries, keys, values, attn_mask=seen))

    def step(
        self, inputs: Float[Tensor, "B 1 M"], cache: SelfAttentionCache
    ) -> tuple[Float[Tensor, "B 1 M"], SelfAttentionCache]:
        """The next position of each sentence, and the cache with it.

        Raises:
            ValueError: not causal, so that a position would need later ones.
        """
        if not self.causal:
            raise ValueError("only causal self-attention can go one position after the other")
        queries, keys, values = self._project(inputs)
        cache = SelfAttentionCache(torch.cat([cache.keys, keys], dim=2), torch.cat([cache.values, values], dim=2))
        return self._add(inputs, F.scaled_dot_product_attention(queries, cache.keys, cache.values)), cache

    def empty_cache(self, batch: int) -> SelfAttentionCache:
        """The cache before the first position of `batch` sentences."""
        empty = self.output.weight.new_zeros(batch, self.heads, 0, self.size // self.heads)
        return SelfAttentionCache(empty, empty)

    def _project(self, inputs: Float[Tensor, "B S M"]) -> tuple[Float[Tensor, "B G S A"], ...]:
        parts = self.query_key_value(self.norm(inputs)).chunk(3, dim=-1)
        return tuple(split_heads(part, self.heads) for part in parts)

    def _add(self, inputs: Float[Tensor, "B S M"], summed: Float[Tensor, "B G S A"]) -> Float[Tensor, "B S M"]:
        return inputs + self.dropout(self.output(summed.transpose(1, 2).flatten(start_dim=2)))
