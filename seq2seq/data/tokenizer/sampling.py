"""Random segmentations into subwords, drawn here: SentencePiece's seed repeats its draws within one process only.

A draw depends on (text, alpha, seed) and the pieces alone, in every process and on every machine; the last bits of
math.exp and math.log could change one in some 10**15.
"""

import heapq
import math
import random
import re
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

import sentencepiece

from seq2seq.data.tokenizer.protocol import BLANK, SPECIALS, UNK

# SentencePiece's unigram model scores a character that it does not know so much below its least likely piece.
_UNKNOWN_PENALTY = 10.0
# In the table of prefixes: the beginning of a piece that is none itself.
_NO_PIECE = (-1, 0.0)
# No piece reaches across a blank, so BPE deals with a word, the blank before it included, at a time.
_WORD = re.compile(f"{BLANK}[^{BLANK}]*|[^{BLANK}]+")


class SegmentationSampler(Protocol):
    """Draws segmentations of normalised text, its blanks written as ▁."""

    def sample(self, text: str, alpha: float, seed: int) -> list[int]:
        """Ids of a random segmentation; one UNK stands for a run of unknown characters, as in SentencePiece."""


def segmentation_sampler(processor: sentencepiece.SentencePieceProcessor) -> SegmentationSampler:
    """The sampler of a model's kind, unigram or byte-pair encoding, with the pieces and scores of the model."""
    ids = range(len(SPECIALS), processor.get_piece_size())
    pieces = {processor.id_to_piece(each): (each, processor.get_score(each)) for each in ids}
    # Byte-pair encoding scores its pieces 0, -1, -2 ... in their order, unigram by the logarithms of probabilities.
    ranked = all(score == -rank for rank, (_, score) in enumerate(pieces.values()))
    return BPEDropout(pieces) if ranked else UnigramSampler(pieces)


class UnigramSampler:
    """Draws a segmentation x with probability P(x)**alpha / Σ P(x')**alpha, the sum over all of the text's (Kudo
    2018, section 3.2, with l = ∞), by filtering backward and sampling forward (Scott 2002).

    Args:
        pieces: id and score, the logarithm of its probability, of each piece.
    """

    def __init__(self, pieces: Mapping[str, tuple[int, float]]) -> None:
        self._unknown_score = min(score for _, score in pieces.values()) - _UNKNOWN_PENALTY
        self._prefixes = {piece[:end]: _NO_PIECE for piece in pieces for end in range(1, len(piece))}
        self._prefixes.update(pieces)

    def sample(self, text: str, alpha: float, seed: int) -> list[int]:
        """Ids of a random segmentation.

        Args:
            text: as the processor normalises it.
            alpha: above 0; the smaller, the more alike are the probabilities.
            seed: of the draw.
        """
        candidates = self._candidates(text, alpha)
        uniform = _uniform(seed)
        drawn, start = [], 0
        while start < len(text):
            ids, ends, sums = candidates[start]
            # A product that is rounded up to the total is not to lie beyond the last piece.
            chosen = bisect(sums, uniform() * sums[-1], 0, len(sums) - 1) if len(sums) > 1 else 0
            drawn.append(ids[chosen])
            start = ends[chosen]
        return _joined_unknowns(drawn)

    def _candidates(self, text: str, alpha: float) -> list[tuple[list[int], list[int], list[float]]]:
        """For each start, of the pieces that may begin there: ids, ends, and running sums of what they weigh.

        A piece weighs P(piece)**alpha times what all segmentations of the text after it weigh together.
        """
        size = len(text)
        log_weights = [0.0] * (size + 1)  # of all segmentations of text[start:] together
        candidates: list[tuple[list[int], list[int], list[float]]] = [([], [], [])] * size
        for start in reversed(range(size)):
            ids, ends, logs = [], [], []
            for end in range(start + 1, size + 1):
                found = self._prefixes.get(text[start:end])
                if found is not None and found is not _NO_PIECE:
                    ids.append(found[0])
                    ends.append(end)
                    logs.append(alpha * found[1] + log_weights[end])
                elif end == start + 1:
                    ids.append(UNK)
                    ends.append(end)
                    logs.append(alpha * self._unknown_score + log_weights[end])
                if found is None:
                    break
            largest, total, sums = max(logs), 0.0, []
            for each in logs:  # not by sum(), whose rounding differs between versions of Python
                total += math.exp(each - largest)
                sums.append(total)
            log_weights[start] = largest + math.log(total)
            candidates[start] = ids, ends, sums
        return candidates


class BPEDropout:
    """Byte-pair encoding that leaves out each possible merge with probability alpha, anew before each merge
    (Provilkov et al. 2020, algorithm 1).

    A word is the text from one blank to the next, so text without blanks is a single long word, in which a merge
    that was left out often gets another chance: Chinese needs a larger alpha for as much variety.

    Args:
        pieces: id and score of each piece; of two possible merges that with the higher score comes first.
    """

    def __init__(self, pieces: Mapping[str, tuple[int, float]]) -> None:
        self._ids = {piece: each for piece, (each, _) in pieces.items()}
        self._ranks = {piece: -score for piece, (_, score) in pieces.items()}

    def sample(self, text: str, alpha: float, seed: int) -> list[int]:
        """Ids of a random segmentation.

        Args:
            text: as the processor normalises it.
            alpha: chance to leave out a merge; 0 gives the model's own segmentation, 1 characters.
            seed: of the draw.
        """
        uniform = _uniform(seed)
        words = _WORD.findall(text)
        return _joined_unknowns(
            self._ids.get(piece, UNK) for word in words for piece in self._split(word, alpha, uniform)
        )

    def _split(self, word: str, alpha: float, uniform: Callable[[], float]) -> Iterator[str]:
        """Pieces of a word."""
        size = len(word)
        ends = list(range(1, size + 1))  # of the piece that begins here; 0: none begins here any more
        starts = list(range(-1, size))  # of the piece that ends here
        possible: list[tuple[float, int, int, int]] = []
        left_out: list[tuple[float, int, int, int]] = []

        def add(start: int, middle: int, end: int) -> None:
            rank = self._ranks.get(word[start:end])
            if rank is not None:
                heapq.heappush(possible, (rank, start, middle, end))

        for middle in range(1, size):
            add(middle - 1, middle, middle + 1)
        while possible:
            merge = heapq.heappop(possible)
            _, start, middle, end = merge
            if ends[start] != middle or ends[middle] != end:
                continue  # one of the two has become part of another piece
            if uniform() < alpha:
                left_out.append(merge)
                continue
            ends[start], ends[middle], starts[end] = end, 0, start
            if start > 0:
                add(starts[start], start, end)
            if end < size:
                add(start, end, ends[end])
            while left_out:
                heapq.heappush(possible, left_out.pop())
        return (word[start:end] for start, end in enumerate(ends) if end)


def _uniform(seed: int) -> Callable[[], float]:
    """Draws from [0, 1): Python promises this stream for a seed, NumPy's Generator promises none (NEP 19)."""
    return random.Random(seed).random


def _joined_unknowns(ids: Iterable[int]) -> list[int]:
    """The ids with one UNK for each run of them."""
    joined: list[int] = []
    for each in ids:
        if each != UNK or not joined or joined[-1] != UNK:
            joined.append(each)
    return joined
