"""Token ids to vectors, with the two kinds of dropout that belong there."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from seq2seq.data.tokenizer import BOS, EOS, PAD, UNK


class TokenEmbedding(nn.Module):
    """Embedding, then dropout; word dropout replaces whole tokens by <unk> first (Gal & Ghahramani 2016).

    Args:
        vocabulary_size: entries, V.
        size: size of an embedding, E.
        dropout: share of the features that are dropped.
        word_dropout: share of the tokens that are replaced.
        std: standard deviation of the initial embeddings.
    """

    def __init__(self, vocabulary_size: int, size: int, dropout: float, word_dropout: float, std: float) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary_size, size, padding_idx=PAD)
        nn.init.normal_(self.table.weight, std=std)
        nn.init.zeros_(self.table.weight[PAD].detach())
        self.dropout = nn.Dropout(dropout)
        self.word_dropout = word_dropout

    def forward(self, tokens: Int[Tensor, "*B T"]) -> Float[Tensor, "*B T E"]:
        if self.training and self.word_dropout:
            dropped = torch.rand(tokens.shape, device=tokens.device) < self.word_dropout
            special = (tokens == PAD) | (tokens == BOS) | (tokens == EOS)
            tokens = tokens.masked_fill(dropped & ~special, UNK)
        return self.dropout(self.table(tokens))
