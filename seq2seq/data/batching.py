"""Batches of like lengths under a token budget, in a seeded order that can be taken up anywhere."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2seq.data.sampling import SubwordSampler
from seq2seq.data.store import ParallelStore
from seq2seq.data.tokenizer import BOS, EOS, PAD

Ids = Sequence[int] | NDArray[np.int32]


class Batch(NamedTuple):
    """Padded ids of B pairs."""

    source: Tensor
    """(B S): x_1 ... x_n </s>"""
    target_input: Tensor
    """(B T): <s> y_1 ... y_m"""
    target_output: Tensor
    """(B T): y_1 ... y_m </s>"""

    def to(self, device: torch.device) -> "Batch":
        """The same batch on another device."""
        return Batch(*(tensor.to(device, non_blocking=True) for tensor in self))

    def halves(self) -> "list[Batch]":
        """Both halves of its pairs; a single pair has none."""
        middle = len(self.source) // 2
        parts = [slice(0, middle), slice(middle, None)] if middle else []
        return [Batch(*(tensor[part] for tensor in self)) for part in parts]


def pad(sentences: Sequence[Ids], before: int | None, after: int | None) -> Tensor:
    """Ids of sentences as one (B S) int64 tensor, with an id put before and after each, padded at the end."""
    extra = (before is not None) + (after is not None)
    out = np.full((len(sentences), max(map(len, sentences), default=0) + extra), PAD, dtype=np.int64)
    start = 0 if before is None else 1
    if before is not None:
        out[:, 0] = before
    for row, sentence in zip(out, sentences, strict=True):
        row[start : start + len(sentence)] = sentence
        if after is not None:
            row[start + len(sentence)] = after
    return torch.from_numpy(out)


def make_batch(sources: Sequence[Ids], targets: Sequence[Ids]) -> Batch:
    """A Batch from the ids of both sides, without special ids."""
    return Batch(pad(sources, None, EOS), pad(targets, BOS, None), pad(targets, None, EOS))


def group(lengths: NDArray[np.int64], order: NDArray[np.int64], budget: int) -> list[NDArray[np.int64]]:
    """Cut `order` into runs whose count times greatest length stays within `budget`; a longer one stands alone."""
    groups, start, longest = [], 0, 0
    for position, index in enumerate(order):
        longest = max(longest, int(lengths[index]))
        if position > start and (position - start + 1) * longest > budget:
            groups.append(order[start:position])
            start, longest = position, int(lengths[index])
    if len(order) > start:
        groups.append(order[start:])
    return groups


class Batches:
    """All batches of a corpus, epoch after epoch.

    Args:
        store: the corpus as ids.
        budget: tokens in a batch at most, padding included, on its longer side.
        seed: of the order; None: by length, the same in each epoch (dev and test).
        sampler: segments the text anew in each epoch; the budget still counts the ids of the store.
    """

    def __init__(
        self, store: ParallelStore, budget: int, seed: int | None = None, sampler: SubwordSampler | None = None
    ) -> None:
        self.store, self.budget, self.seed, self.sampler = store, budget, seed, sampler
        # One more for </s> (source) or <s> (target).
        self.source_lengths = store.source.lengths + 1
        self.target_lengths = store.target.lengths + 1

    def plan(self, epoch: int) -> list[NDArray[np.int64]]:
        """The pairs of each batch: sentences of like lengths, shuffled within and between, by (seed, epoch) alone."""
        order = np.arange(len(self.store))
        random = None if self.seed is None else np.random.default_rng([self.seed, epoch])
        if random is not None:
            random.shuffle(order)
        order = order[np.lexsort((self.source_lengths[order], self.target_lengths[order]))]
        groups = group(np.maximum(self.source_lengths, self.target_lengths), order, self.budget)
        if random is not None:
            random.shuffle(groups)
        return groups

    def rows(self, epoch: int, start: int = 0) -> Iterator[NDArray[np.int64]]:
        """The pairs of each batch of an epoch, from batch `start` on; `batch` makes the batch of them."""
        return iter(self.plan(epoch)[start:])

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Batches of an epoch, from batch `start` on."""
        return (self.batch(epoch, rows) for rows in self.rows(epoch, start))

    def batch(self, epoch: int, rows: NDArray[np.int64]) -> Batch:
        """The batch of the given pairs."""
        if self.sampler is not None:
            sampled = [self.sampler.sample(epoch, int(row)) for row in rows]
            return make_batch([source for source, _ in sampled], [target for _, target in sampled])
        return make_batch([self.store.source[row] for row in rows], [self.store.target[row] for row in rows])

    def padding_share(self) -> float:
        """Share of padding among all positions of an epoch's batches, both sides."""
        groups = self.plan(0)
        used = int(self.source_lengths.sum() + self.target_lengths.sum())
        padded = sum(len(g) * int(self.source_lengths[g].max() + self.target_lengths[g].max()) for g in groups)
        return 1 - used / padded if padded else 0.0
