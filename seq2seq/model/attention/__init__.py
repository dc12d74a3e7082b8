"""Attention in three parts: a score (scores.py), a selection (selection.py), and what joins them (attention.py)."""

from seq2seq.model.attention.attention import Attention, AttentionState, Memory
from seq2seq.model.attention.scores import SCORES, Score
from seq2seq.model.attention.selection import SELECTIONS, Selection
from seq2seq.model.attention.self_attention import SelfAttention, SelfAttentionCache

__all__ = [
    "SCORES",
    "SELECTIONS",
    "Attention",
    "AttentionState",
    "Memory",
    "Score",
    "Selection",
    "SelfAttention",
    "SelfAttentionCache",
]
