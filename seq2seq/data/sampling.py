"""Subword regularisation: in each epoch a sentence is segmented in another way (Kudo 2018; Provilkov 2020)."""

import zlib
from collections.abc import Sequence

from seq2seq.data.corpus import Pair
from seq2seq.data.tokenizer import TextTokenizer


class SubwordSampler:
    """Segments pairs anew; the segmentation depends on (seed, epoch, pair, side) alone.

    Args:
        pairs: text of the corpus, in the order of its ids.
        source, target: the tokenizers.
        source_alpha, target_alpha: strength of each side's sampling; 0 gives the best segmentation.
        seed: of the draws.
    """

    def __init__(
        self,
        pairs: Sequence[Pair],
        source: TextTokenizer,
        target: TextTokenizer,
        source_alpha: float,
        target_alpha: float,
        seed: int,
    ) -> None:
        self.pairs, self.seed = pairs, seed
        self.sides = ((source, source_alpha), (target, target_alpha))

    def sample(self, epoch: int, row: int) -> list[list[int]]:
        """Ids of both sides of a pair, in this epoch."""
        draws = zip(self.pairs[row], self.sides, strict=True)
        return [
            tokenizer.sample(text, alpha, zlib.crc32(f"{self.seed} {epoch} {row} {side}".encode()))
            for side, (text, (tokenizer, alpha)) in enumerate(draws)
        ]
