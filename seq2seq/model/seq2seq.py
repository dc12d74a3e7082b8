"""Seq2Seq joins encoder and decoder."""

from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn

from seq2seq.config import Config
from seq2seq.data.tokenizer import PAD
from seq2seq.model.attention import Attention, Memory
from seq2seq.model.decoder import Decoder, DecoderState
from seq2seq.model.encoder import Encoder


class Predictions(NamedTuple):
    """What the model says of a reference it was given."""

    logits: Float[Tensor, "B T V"]
    attention: Float[Tensor, "B T S"]


class Seq2Seq(nn.Module):
    """P(target | source), one token at a time."""

    def __init__(self, encoder: Encoder, decoder: Decoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def encode(self, source: Int[Tensor, "B S"]) -> tuple[Memory, DecoderState]:
        """What the decoder attends to, and its first state; done once a sentence."""
        mask = source != PAD
        outputs, summary = self.encoder(source, mask)
        memory = self.decoder.attention.prepare(outputs, mask)
        return memory, self.decoder.start(summary, memory)

    def forward(
        self, source: Int[Tensor, "B S"], target_input: Int[Tensor, "B T"], teacher_forcing: float = 1.0
    ) -> Predictions:
        """Logits of each next token, given the reference before it (`target_input`: <s> y_1 ... y_{T-1})."""
        memory, state = self.encode(source)
        features, attention = self.decoder(target_input, state, memory, teacher_forcing)
        return Predictions(self.decoder.output(features), attention)


def build_model(config: Config, source_vocabulary: int, target_vocabulary: int) -> Seq2Seq:
    """A freshly initialised model; seed torch first for weights that can be had again."""
    encoder = Encoder(config.encoder, source_vocabulary)
    memory_size = config.encoder.output_size
    attention = Attention(config.attention, config.decoder.hidden_size, memory_size)
    return Seq2Seq(encoder, Decoder(config.decoder, target_vocabulary, attention, memory_size))
