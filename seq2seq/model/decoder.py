"""Target tokens to features: attention, [Q;C] -> nn.Linear, the cell, the output layer."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from seq2seq.config import schema
from seq2seq.model.attention import Attention, Memory
from seq2seq.model.embedding import TokenEmbedding
from seq2seq.model.recurrent import Recurrent, RecurrentState


class DecoderState(NamedTuple):
    """What one step hands to the next."""

    recurrent: RecurrentState
    fed: Float[Tensor, "B R"] | None
    """The last reprojected [Q;C], where input feeding wants it."""

    def select(self, rows: Int[Tensor, "N"]) -> "DecoderState":
        """The states of the given sentences: repeated, reordered or dropped."""
        return DecoderState(self.recurrent.select(rows), None if self.fed is None else self.fed.index_select(0, rows))


class Decoder(nn.Module):
    """The two orders of attention, recurrence and output.

    attend: before (Bahdanau 2015): Q = s_{t-1};  a_t = tanh(Linear[Q;C]);  s_t = cell([y_{t-1}; a_t], s_{t-1});
        features = tanh(Linear[s_t; a_t]).
    attend: after (Luong 2015, equation 5): s_t = cell(y_{t-1}, s_{t-1});  Q = s_t;  features = a_t = tanh(Linear[Q;C]);
        with input feeding the cell reads [y_{t-1}; a_{t-1}].

    Args:
        settings: sizes and choices.
        vocabulary_size: target vocabulary, V.
        attention: any Attention with queries of size H.
        memory_size: size of an encoder output, M.
    """

    def __init__(self, settings: schema.Decoder, vocabulary_size: int, attention: Attention, memory_size: int) -> None:
        super().__init__()
        hidden, embedded = settings.hidden_size, settings.embedding_size
        features = embedded if settings.tie_embeddings else hidden
        self.before = settings.attend == "before"
        self.input_feeding = settings.input_feeding
        reprojected = hidden if self.before else features
        # A tied table is also the output layer, where larger weights would start with a loss far above a uniform guess.
        std = 0.25 if settings.tie_embeddings else 1.0
        self.embedding = TokenEmbedding(
            vocabulary_size, embedded, settings.embedding_dropout, settings.word_dropout, std
        )
        self.initial = nn.Linear(memory_size, hidden * settings.layers) if settings.initial_state == "encoder" else None
        fed = reprojected if self.before or self.input_feeding else 0
        self.recurrent = Recurrent(settings.cell, embedded + fed, hidden, settings.layers, settings.dropout)
        self.attention = attention
        self.reproject = nn.Linear(hidden + memory_size, reprojected)
        self.readout = nn.Linear(hidden + reprojected, features) if self.before else None
        self.dropout = nn.Dropout(settings.dropout)
        self.untied = None if settings.tie_embeddings else nn.Linear(features, vocabulary_size, bias=False)
        self.output_bias = nn.Parameter(torch.zeros(vocabulary_size))

    def start(self, summary: Float[Tensor, "B M"]) -> DecoderState:
        """First state: tanh(Linear(the encoder's final state)), or zeros (Bahdanau 2015, appendix A.2.2)."""
        state = self.recurrent.zero_state(summary.size(0))
        if self.initial is not None:
            hidden = torch.tanh(self.initial(summary)).unflatten(1, (state.hidden.size(0), -1))
            state = state._replace(hidden=hidden.transpose(0, 1).contiguous())
        fed = summary.new_zeros(summary.size(0), self.reproject.out_features) if self.input_feeding else None
        return DecoderState(state, fed)

    def step(
        self, tokens: Int[Tensor, "B"], state: DecoderState, memory: Memory
    ) -> tuple[Float[Tensor, "B R"], DecoderState, Float[Tensor, "B S"]]:
        """One step: the last tokens in; features for the output layer, next state and attention weights out."""
        return self._step(self.embedding(tokens.unsqueeze(1)), state, memory)

    def _step(
        self, embedded: Float[Tensor, "B 1 E"], state: DecoderState, memory: Memory
    ) -> tuple[Float[Tensor, "B R"], DecoderState, Float[Tensor, "B S"]]:
        if self.before:
            reprojected, weights = self._attend(state.recurrent.hidden[-1].unsqueeze(1), memory)
            outputs, recurrent = self.recurrent(torch.cat([embedded, reprojected], dim=-1), state.recurrent)
            features = self._read_out(outputs, reprojected)
            return features.squeeze(1), DecoderState(recurrent, None), weights.squeeze(1)
        inputs = embedded if state.fed is None else torch.cat([embedded, state.fed.unsqueeze(1)], dim=-1)
        outputs, recurrent = self.recurrent(inputs, state.recurrent)
        reprojected, weights = self._attend(outputs, memory)
        fed = reprojected.squeeze(1)
        return self.dropout(fed), DecoderState(recurrent, fed if self.input_feeding else None), weights.squeeze(1)

    def _attend(
        self, query: Float[Tensor, "B T H"], memory: Memory
    ) -> tuple[Float[Tensor, "B T R"], Float[Tensor, "B T S"]]:
        context, weights = self.attention(query, memory)
        return torch.tanh(self.reproject(torch.cat([query, context], dim=-1))), weights

    def _read_out(
        self, outputs: Float[Tensor, "B T H"], reprojected: Float[Tensor, "B T R"]
    ) -> Float[Tensor, "B T R2"]:
        assert self.readout is not None
        return self.dropout(torch.tanh(self.readout(torch.cat([outputs, reprojected], dim=-1))))

    def forward(
        self, tokens: Int[Tensor, "B T"], state: DecoderState, memory: Memory, teacher_forcing: float = 1.0
    ) -> Float[Tensor, "B T R"]:
        """Features at all steps; `tokens` is the reference, shifted right.

        `teacher_forcing` is the chance, for each token, that the reference is fed rather than the model's own best
        last token (scheduled sampling, Bengio 2015).
        """
        if teacher_forcing < 1.0:
            return self._sampled(tokens, state, memory, teacher_forcing)
        embedded = self.embedding(tokens)
        if not self.before and not self.input_feeding:
            # No step needs the context of an earlier one: the recurrence runs in one call, attention in another.
            return self.dropout(self._attend(self.recurrent(embedded, state.recurrent)[0], memory)[0])
        features = []
        for step in embedded.split(1, dim=1):
            feature, state, _ = self._step(step, state, memory)
            features.append(feature)
        return torch.stack(features, dim=1)

    def _sampled(
        self, tokens: Int[Tensor, "B T"], state: DecoderState, memory: Memory, teacher_forcing: float
    ) -> Float[Tensor, "B T R"]:
        features: list[Tensor] = []
        for reference in tokens.unbind(dim=1):
            fed = reference
            if features:
                own = self.output(features[-1].detach()).argmax(dim=-1)
                fed = torch.where(torch.rand(own.shape, device=own.device) < teacher_forcing, reference, own)
            feature, state, _ = self.step(fed, state, memory)
            features.append(feature)
        return torch.stack(features, dim=1)

    def output(self, features: Float[Tensor, "*B R"]) -> Float[Tensor, "*B V"]:
        """The output layer: features to logits over the target vocabulary."""
        weight = self.embedding.table.weight if self.untied is None else self.untied.weight
        return F.linear(features, weight, self.output_bias)
