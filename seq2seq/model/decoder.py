"""Target tokens to features: attention, [Q;C] -> nn.Linear, the cell, the output layer."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from seq2seq.config import schema
from seq2seq.model import decoder_loop
from seq2seq.model.attention import Attention, AttentionState, Memory, SelfAttention, SelfAttentionCache
from seq2seq.model.embedding import TokenEmbedding
from seq2seq.model.products import Linear, linear
from seq2seq.model.recurrent import Recurrent, RecurrentState


class DecoderState(NamedTuple):
    """What one step hands to the next."""

    recurrent: RecurrentState
    attention: AttentionState
    first: RecurrentState | None
    """Masks of a conditional GRU's first step; its hidden state is that of `recurrent`."""
    fed: Float[Tensor, "B R"] | None
    """The last reprojected [Q;C], where input feeding wants it."""
    written: SelfAttentionCache | None
    """What self-attention knows of the earlier steps."""

    def select(self, rows: Int[Tensor, "N"]) -> "DecoderState":
        """The states of the given sentences: repeated, reordered or dropped."""
        return DecoderState(
            self.recurrent.select(rows),
            self.attention.select(rows),
            None if self.first is None else self.first.select(rows),
            None if self.fed is None else self.fed.index_select(0, rows),
            None if self.written is None else self.written.select(rows),
        )


class Decoder(nn.Module):
    """The three orders of attention, recurrence and output; A[Q] stands for tanh(Linear[Q; C]), C attended to by Q.

    attend: before (Bahdanau 2015): a_t = A[s_{t-1}];  s_t = cell([y_{t-1}; a_t], s_{t-1});
        tanh(Linear[s_t; a_t]) is read.
    attend: between (conditional GRU, Sennrich 2017, section 3.1): q_t = GRU_1(y_{t-1}, s_{t-1});  a_t = A[q_t];
        s_t = GRU_2(a_t, q_t);  tanh(Linear[s_t; a_t]) is read.
    attend: after (Luong 2015, equation 5): s_t = cell(y_{t-1}, s_{t-1});  a_t = A[s_t] is read;
        with input feeding the cell reads [y_{t-1}; a_{t-1}].
    With self-attention, s_t is enriched by s_1 ... s_t where the output layer (and, after, the attention) reads it.

    Args:
        settings: sizes and choices.
        vocabulary_size: target vocabulary, V.
        attention: queries of size H.
        memory_size: size of an encoder output, M.
    """

    def __init__(self, settings: schema.Decoder, vocabulary_size: int, attention: Attention, memory_size: int) -> None:
        super().__init__()
        hidden, embedded = settings.hidden_size, settings.embedding_size
        features = embedded if settings.tie_embeddings else hidden
        self.order = settings.attend
        self.input_feeding = settings.input_feeding
        reprojected = features if self.order == "after" else hidden
        variational = settings.variational_dropout
        # A tied table is also the output layer, where larger weights would start with a loss far above a uniform guess.
        std = 0.25 if settings.tie_embeddings else 1.0
        dropout = 0.0 if variational else settings.embedding_dropout
        self.embedding = TokenEmbedding(vocabulary_size, embedded, dropout, settings.word_dropout, std)
        self.initial = Linear(memory_size, hidden * settings.layers) if settings.initial_state == "encoder" else None

        def recurrent(cell: str, size: int, layers: int, dropped: int = embedded) -> Recurrent:
            return Recurrent(
                cell,
                size,
                hidden,
                layers,
                settings.dropout,
                layer_norm=settings.layer_norm,
                residual=settings.residual,
                variational_dropout=variational,
                input_dropout=settings.embedding_dropout if variational else 0.0,
                dropped_inputs=dropped,
            )

        self.first: Recurrent | None = None
        if settings.cell == "cgru":
            self.first = recurrent("gru", embedded, 1)
            self.recurrent = recurrent("gru", reprojected, settings.layers, dropped=0)
        else:
            fed = reprojected if self.order == "before" or self.input_feeding else 0
            self.recurrent = recurrent(settings.cell, embedded + fed, settings.layers)
        heads = settings.self_attention
        self.self_attention = SelfAttention(hidden, heads, settings.dropout, causal=True) if heads else None
        self.attention = attention
        self.reproject = Linear(hidden + memory_size, reprojected)
        self.readout = None if self.order == "after" else Linear(hidden + reprojected, features)
        self.dropout = nn.Dropout(settings.dropout)
        self.untied = None if settings.tie_embeddings else Linear(features, vocabulary_size, bias=False)
        self.output_bias = nn.Parameter(torch.zeros(vocabulary_size))

    def start(self, summary: Float[Tensor, "B M"], memory: Memory) -> DecoderState:
        """First state: tanh(Linear(the encoder's final state)), or zeros (Bahdanau 2015, appendix A.2.2)."""
        batch = summary.size(0)
        recurrent = self.recurrent.zero_state(batch)
        if self.initial is not None:
            hidden = torch.tanh(self.initial(summary)).unflatten(1, (recurrent.hidden.size(0), -1))
            recurrent = recurrent._replace(hidden=hidden.transpose(0, 1).contiguous())
        first = None if self.first is None else self.first.zero_state(batch)
        fed = summary.new_zeros(batch, self.reproject.out_features) if self.input_feeding else None
        written = None if self.self_attention is None else self.self_attention.empty_cache(batch)
        return DecoderState(recurrent, self.attention.start(memory), first, fed, written)

    def step(
        self, tokens: Int[Tensor, "B"], state: DecoderState, memory: Memory
    ) -> tuple[Float[Tensor, "B R"], DecoderState, Float[Tensor, "B S"]]:
        """One step: the last tokens in; features for the output layer, next state and attention weights out."""
        return self._step(self.embedding(tokens.unsqueeze(1)), state, memory)

    def _step(
        self, embedded: Float[Tensor, "B 1 E"], state: DecoderState, memory: Memory
    ) -> tuple[Float[Tensor, "B R"], DecoderState, Float[Tensor, "B S"]]:
        recurrent, attention, first, fed, written = state
        if self.order == "after":
            inputs = embedded if fed is None else torch.cat([embedded, fed.unsqueeze(1)], dim=-1)
            outputs, recurrent = self.recurrent(inputs, recurrent)
            outputs, written = self._look_back(outputs, written)
            reprojected, weights, attention = self._attend(outputs, memory, attention)
            features = self.dropout(reprojected)
        else:
            if self.first is None or first is None:
                query = recurrent.hidden[-1].unsqueeze(1)
                reprojected, weights, attention = self._attend(query, memory, attention)
                outputs, recurrent = self.recurrent(torch.cat([embedded, reprojected], dim=-1), recurrent)
            else:
                query, between = self.first(embedded, first._replace(hidden=recurrent.hidden[:1]))
                reprojected, weights, attention = self._attend(query, memory, attention)
                hidden = torch.cat([between.hidden, recurrent.hidden[1:]])
                outputs, recurrent = self.recurrent(reprojected, recurrent._replace(hidden=hidden))
            outputs, written = self._look_back(outputs, written)
            features = self._read_out(outputs, reprojected)
        fed = reprojected.squeeze(1) if self.input_feeding else None
        return features.squeeze(1), DecoderState(recurrent, attention, first, fed, written), weights.squeeze(1)

    def _look_back(
        self, outputs: Float[Tensor, "B 1 H"], written: SelfAttentionCache | None
    ) -> tuple[Float[Tensor, "B 1 H"], SelfAttentionCache | None]:
        if self.self_attention is None or written is None:
            return outputs, None
        return self.self_attention.step(outputs, written)

    def _attend(
        self, query: Float[Tensor, "B T H"], memory: Memory, state: AttentionState
    ) -> tuple[Float[Tensor, "B T R"], Float[Tensor, "B T S"], AttentionState]:
        context, weights, state = self.attention(query, memory, state)
        return torch.tanh(self.reproject(torch.cat([query, context], dim=-1))), weights, state

    def _read_out(
        self, outputs: Float[Tensor, "B T H"], reprojected: Float[Tensor, "B T R"]
    ) -> Float[Tensor, "B T R2"]:
        assert self.readout is not None
        return self.dropout(torch.tanh(self.readout(torch.cat([outputs, reprojected], dim=-1))))

    def forward(
        self, tokens: Int[Tensor, "B T"], state: DecoderState, memory: Memory, teacher_forcing: float = 1.0
    ) -> tuple[Float[Tensor, "B T R"], Float[Tensor, "B T S"]]:
        """Features and attention weights of all steps; `tokens` is the reference, shifted right.

        `teacher_forcing` is the chance, for each token, that the reference is fed rather than the model's own best
        last token (scheduled sampling, Bengio 2015).
        """
        if teacher_forcing < 1.0:
            return self._sampled(tokens, state, memory, teacher_forcing)
        embedded = self.embedding(tokens)
        if self.order == "after" and not self.input_feeding and not self.attention.stepwise:
            # No step needs the context of an earlier one: the recurrence runs in one call, attention in another.
            outputs = self.recurrent(embedded, state.recurrent)[0]
            if self.self_attention is not None:
                outputs = self.self_attention(outputs)
            reprojected, weights, _ = self._attend(outputs, memory, state.attention)
            return self.dropout(reprojected), weights
        if self.fits_loop(embedded):
            return self._loop(embedded, state, memory)
        steps = []
        for step in embedded.split(1, dim=1):
            features, state, weights = self._step(step, state, memory)
            steps.append((features, weights))
        return _stacked(steps)

    def fits_loop(self, embedded: Float[Tensor, "B T E"]) -> bool:
        """Whether the teacher-forced steps can run in decoder_loop.py: the same numbers, in a fraction of the time.

        Each step needs the reprojected [Q;C] of one before it, without self-attention; decoder_loop.fits has the rest.
        """
        feeding = self.order == "before" or self.input_feeding
        return feeding and self.self_attention is None and decoder_loop.fits(self.recurrent, self.attention, embedded)

    def _loop(
        self, embedded: Float[Tensor, "B T E"], state: DecoderState, memory: Memory
    ) -> tuple[Float[Tensor, "B T R"], Float[Tensor, "B T S"]]:
        hidden, _, masks = state.recurrent
        if masks is not None:
            embedded = embedded * masks[0][:, None, : embedded.size(2)]
        outputs, reprojected, weights = decoder_loop.teacher_forced(
            self.recurrent, self.attention, self.reproject, embedded, hidden[0], state.fed, memory
        )
        features = self.dropout(reprojected) if self.order == "after" else self._read_out(outputs, reprojected)
        return features, weights

    def _sampled(
        self, tokens: Int[Tensor, "B T"], state: DecoderState, memory: Memory, teacher_forcing: float
    ) -> tuple[Float[Tensor, "B T R"], Float[Tensor, "B T S"]]:
        steps: list[tuple[Tensor, Tensor]] = []
        for reference in tokens.unbind(dim=1):
            fed = reference
            if steps:
                own = self.output(steps[-1][0].detach()).argmax(dim=-1)
                fed = torch.where(torch.rand(own.shape, device=own.device) < teacher_forcing, reference, own)
            features, state, weights = self.step(fed, state, memory)
            steps.append((features, weights))
        return _stacked(steps)

    def output(self, features: Float[Tensor, "*B R"]) -> Float[Tensor, "*B V"]:
        """The output layer: features to logits over the target vocabulary."""
        weight = self.embedding.table.weight if self.untied is None else self.untied.weight
        return linear(features, weight, self.output_bias)


def _stacked(steps: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    features, weights = zip(*steps, strict=True)
    return torch.stack(features, dim=1), torch.stack(weights, dim=1)
