"""What every tokenizer offers, the four special ids, and where its file lies."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

PAD, UNK, BOS, EOS = range(4)
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
"""How the special ids are shown, by id."""

BLANK = "\N{LOWER ONE EIGHTH BLOCK}"
"""Stands for a blank inside tokens, as in SentencePiece; one that is typed is read as a blank."""


class TextTokenizer(Protocol):
    """Text to ids and back; PAD, BOS and EOS never come out of text, whatever is typed."""

    @property
    def size(self) -> int:
        """Entries of the vocabulary, the four special ones among them."""

    def encode(self, text: str) -> list[int]:
        """Ids of a text, without BOS and EOS; UNK for what is not in the vocabulary."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text."""

    def sample(self, text: str, alpha: float, seed: int) -> list[int]:
        """Ids of one random segmentation, the same for the same seed, for subword regularisation in training.

        unigram draws with probabilities ** alpha (Kudo 2018, section 3.2), so a small alpha varies most; bpe leaves
        out each merge with probability alpha (BPE-dropout, Provilkov et al. 2020). Alpha 0, and kinds without
        subwords: the same as `encode`.
        """

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, its blanks squeezed, so that it is one line; special ids are skipped."""

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """One piece of text for each id, for display."""

    def save(self, directory: Path, side: str) -> None:
        """Write the tokenizer of `side` ("source" or "target") so that `load_tokenizer` finds it.

        Raises:
            UserError: the file cannot be written.
        """


def squeeze(text: str) -> str:
    """The text with one space for each run of blanks (tabs, line ends, full-width, BLANK), and none at the ends."""
    return " ".join(text.replace(BLANK, " ").split())


def tokenizer_path(directory: Path, side: str, suffix: str) -> Path:
    """Where the tokenizer of a side lies: "model" is SentencePiece's own format, "json" a vocabulary."""
    return directory / f"tokenizer.{side}.{suffix}"
