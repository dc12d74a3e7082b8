"""Source tokens to annotations: embed, read in one or both directions, and let positions look at each other."""

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from seq2seq.config import schema
from seq2seq.model.attention import SelfAttention
from seq2seq.model.embedding import TokenEmbedding
from seq2seq.model.recurrent import Recurrent, RecurrentState


class Encoder(nn.Module):
    """Embedding and (bidirectional) recurrence (Bahdanau 2015, section 3.2), then self-attention where wanted."""

    def __init__(self, settings: schema.Encoder, vocabulary_size: int) -> None:
        super().__init__()
        variational, embedding_dropout = settings.variational_dropout, settings.embedding_dropout
        self.embedding = TokenEmbedding(
            vocabulary_size,
            settings.embedding_size,
            0.0 if variational else embedding_dropout,
            settings.word_dropout,
            std=1.0,
        )
        self.recurrent = Recurrent(
            settings.cell,
            settings.embedding_size,
            settings.hidden_size,
            settings.layers,
            settings.dropout,
            settings.bidirectional,
            layer_norm=settings.layer_norm,
            residual=settings.residual,
            variational_dropout=variational,
            input_dropout=embedding_dropout if variational else 0.0,
        )
        heads = settings.self_attention
        self.self_attention = SelfAttention(settings.output_size, heads, settings.dropout) if heads else None

    def forward(
        self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "B S M"], Float[Tensor, "B M"]]:
        """Outputs at each position, and the top layer's final state (of both directions, joined)."""
        outputs, state = self.recurrent.read(self.embedding(source), mask)
        if self.self_attention is not None:
            outputs = self.self_attention(outputs, mask)
        return outputs, self._summary(state)

    def _summary(self, state: RecurrentState) -> Float[Tensor, "B M"]:
        top = state.hidden[-self.recurrent.directions :]
        return top.transpose(0, 1).flatten(start_dim=1)
