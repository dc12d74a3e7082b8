"""Seq2Seq joins encoder and decoder."""

from jaxtyping import Float, Int
from torch import Tensor, nn

from seq2seq.config import Config
from seq2seq.data.tokenizer import PAD
from seq2seq.model.attention import ATTENTIONS, Memory
from seq2seq.model.decoder import Decoder, DecoderState
from seq2seq.model.encoder import Encoder


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
        return self.decoder.attention.prepare(outputs, mask), self.decoder.start(summary)

    def forward(
        self, source: Int[Tensor, "B S"], target_input: Int[Tensor, "B T"], teacher_forcing: float = 1.0
    ) -> Float[Tensor, "B T V"]:
        """Logits of each next token, given the reference before it (`target_input`: <s> y_1 ... y_{T-1})."""
        memory, state = self.encode(source)
        return self.decoder.output(self.decoder(target_input, state, memory, teacher_forcing))


def build_model(config: Config, source_vocabulary: int, target_vocabulary: int) -> Seq2Seq:
    """A freshly initialised model; seed torch first for weights that can be had again."""
    encoder = Encoder(config.encoder, source_vocabulary)
    hidden = config.decoder.hidden_size
    attention = ATTENTIONS[config.attention.kind](hidden, encoder.output_size, config.attention.size or hidden)
    return Seq2Seq(encoder, Decoder(config.decoder, target_vocabulary, attention, encoder.output_size))
