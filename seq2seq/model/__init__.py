"""The model. One letter for each axis, in every signature of this package:

| letter | axis | letter | axis |
|---|---|---|---|
| B | sentences in the batch | E | embedding |
| S | source positions | H | recurrent state of the decoder (its outputs are the queries Q) |
| T | target positions | M | encoder outputs (annotations), the values |
| L | recurrent layers | A | space in which queries meet keys, of one head |
| V | target vocabulary | R | reprojected [Q;C], what the output layer reads |
| N | rows that are selected of a batch | G | heads of attention (groups of the features) |

A mask is True where a token stands and False on padding.
"""

from seq2seq.model.attention import (
    SCORES,
    SELECTIONS,
    Attention,
    AttentionState,
    Memory,
    SelfAttention,
    SelfAttentionCache,
)
from seq2seq.model.decoder import Decoder, DecoderState
from seq2seq.model.encoder import Encoder
from seq2seq.model.recurrent import CELLS, Recurrent, RecurrentState
from seq2seq.model.seq2seq import Seq2Seq, build_model

__all__ = [
    "CELLS",
    "SCORES",
    "SELECTIONS",
    "Attention",
    "AttentionState",
    "Decoder",
    "DecoderState",
    "Encoder",
    "Memory",
    "Recurrent",
    "RecurrentState",
    "SelfAttention",
    "SelfAttentionCache",
    "Seq2Seq",
    "build_model",
]
