"""Batches of like lengths under a token budget, in a seeded order that can be taken up anywhere."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2seq.data.reading_ahead import ReadingAhead, Rows
from seq2seq.data.sampling import SubwordSampler
from seq2seq.data.store import Flat, ParallelStore, flat
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
    return _pad(flat(sentences), before, after)


def _pad(sentences: Flat, before: int | None, after: int | None) -> Tensor:
    lengths = sentences.lengths
    start, longest = int(before is not None), int(lengths.max(initial=0))
    out = np.full((len(lengths), start + longest + (after is not None)), PAD, dtype=np.int64)
    if before is not None:
        out[:, 0] = before
    out[:, start : start + longest][np.arange(longest) < lengths[:, None]] = sentences.ids
    if after is not None:
        out[np.arange(len(lengths)), start + lengths] = after
    return torch.from_numpy(out)


def make_batch(sources: Sequence[Ids], targets: Sequence[Ids]) -> Batch:
    """A Batch from the ids of both sides, without special ids."""
    return _batch(flat(sources), flat(targets))


def _batch(sources: Flat, targets: Flat) -> Batch:
    return Batch(_pad(sources, None, EOS), _pad(targets, BOS, None), _pad(targets, None, EOS))


def group(lengths: NDArray[np.integer[Any]], order: Rows, budget: int) -> list[Rows]:
    """Cut `order` into runs whose count times greatest length stays within `budget`; a longer one stands alone."""
    cuts, start, longest = [0], 0, 0
    for position, length in enumerate(lengths[order].data):
        if length > longest:
            longest = length
        if (position - start + 1) * longest > budget and position > start:
            cuts.append(position)
            start, longest = position, length
    return [order[one:other] for one, other in pairwise([*cuts, len(order)])] if len(order) else []


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
        self._planned: tuple[int, list[Rows], ReadingAhead] | None = None

    def plan(self, epoch: int) -> list[Rows]:
        """The pairs of each batch: sentences of like lengths, shuffled within and between, by (seed, epoch) alone.

        The last plan is kept, and given again when it is asked for again.
        """
        if self._planned is None or self._planned[0] != epoch:
            self._planned = None  # before the next one is made, so that there are never two
            plan = self._plan(epoch)
            self._planned = epoch, plan, ReadingAhead(self.store, plan)
        return self._planned[1]

    def _plan(self, epoch: int) -> list[Rows]:
        order = np.arange(len(self.store), dtype=np.int32)
        random = None if self.seed is None else np.random.default_rng([self.seed, epoch])
        if random is not None:
            random.shuffle(order)
        order = self._by_length(order)
        groups = group(np.maximum(self.source_lengths, self.target_lengths), order, self.budget)
        if random is not None:
            random.shuffle(groups)
        return groups

    def _by_length(self, order: Rows) -> Rows:
        """The rows by the length of the target, then of the source; equals stay in order.

        As np.lexsort would have it, which takes several times the memory of the rows.
        """
        targets, out, end = self.target_lengths[order], np.empty_like(order), 0
        for length in np.unique(targets):
            alike = order[np.flatnonzero(targets == length)]
            start, end = end, end + len(alike)
            out[start:end] = alike[np.argsort(self.source_lengths[alike], kind="stable")]
        return out

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Batches of an epoch."""
        return (self.batch(epoch, rows) for rows in self.plan(epoch))

    def batch(self, epoch: int, rows: Rows) -> Batch:
        """The batch of the given pairs."""
        if self.sampler is not None:
            sampled = [self.sampler.sample(epoch, int(row)) for row in rows]
            return make_batch([source for source, _ in sampled], [target for _, target in sampled])
        store = self.store
        if self._planned is not None:
            store, rows = self._planned[2].find(rows)
        return _batch(store.source.take(rows), store.target.take(rows))

    def padding_share(self) -> float:
        """Share of padding among all positions of an epoch's batches, both sides."""
        groups = self.plan(0)
        if not groups:
            return 0.0
        sizes = np.array([len(rows) for rows in groups])
        order, starts = np.concatenate(groups), np.cumsum(sizes) - sizes
        used = padded = 0
        for lengths in (self.source_lengths, self.target_lengths):
            used += int(lengths.sum())
            padded += int((np.maximum.reduceat(lengths[order], starts) * sizes).sum())
        return 1 - used / padded
