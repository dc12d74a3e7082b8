"""Split a corpus into train, dev and test such that no sentence of dev or test stands in train, on either side."""

import hashlib
import random
import unicodedata
from array import array
from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seq2seq.data.corpus import Pair
from seq2seq.errors import UserError

# Groups above this share of the corpus, and above this many pairs, are no fair sample of it.
_LARGE_SHARE = 0.01
_LARGE_PAIRS = 10

Keys = NDArray[np.uint64]
"""(N 2) the `side_keys` of pairs."""
Rows = NDArray[np.int64]


class Split(NamedTuple):
    """Rows of three parts; train in the order of the corpus, dev and test in random order: a prefix is a sample."""

    train: Rows
    dev: Rows
    test: Rows


def split(keys: Keys, dev_size: int, test_size: int, seed: int) -> Split:
    """Split by group: pairs that share a `side_key` on the source or on the target side, directly or over others.

    A group goes to one part as a whole. Groups of more than 1% of the corpus (and more than 10 pairs) go to train. Of
    a group in dev or test one pair for each distinct source is kept, the rest is left out of the split. The same pairs
    and seed give the same split on every machine.

    Args:
        keys: (N 2) the `side_keys` of the pairs.
        dev_size, test_size: pairs in dev and test, exactly; 0 leaves that part empty.

    Raises:
        UserError: the corpus has too few groups for these sizes.
    """
    group_of, group_sizes = np.unique(_roots(keys), return_inverse=True, return_counts=True)[1:]
    by_group, ends = np.argsort(group_of, kind="stable"), np.cumsum(group_sizes)
    offers = _distinct_sources(keys, group_of)
    candidates = array("q", np.flatnonzero(group_sizes <= max(_LARGE_PAIRS, _LARGE_SHARE * len(keys))).tobytes())
    random.Random(seed).shuffle(candidates)
    # Train must get something: a large group, or else one of the others.
    usable = len(candidates) - (len(candidates) == len(group_sizes))
    chosen = np.array(candidates[:usable], dtype=np.int64)
    totals = np.concatenate([[0], np.cumsum(offers[chosen])])
    after_test = _groups_for(test_size, totals, 0)
    after_dev = _groups_for(dev_size, totals, after_test)
    if after_dev > usable:
        raise UserError(_too_small(len(keys), len(group_sizes), dev_size, test_size, totals))

    def offered(groups: NDArray[np.int64]) -> Rows:
        rows = [by_group[ends[each] - group_sizes[each] : ends[each]] for each in groups]
        firsts = [np.sort(members[np.unique(keys[members, 0], return_index=True)[1]]) for members in rows]
        return np.concatenate([np.zeros(0, dtype=np.int64), *firsts])

    held_out = np.zeros(len(group_sizes), dtype=np.bool_)
    held_out[chosen[:after_dev]] = True
    return Split(
        train=np.flatnonzero(~held_out[group_of]),
        dev=offered(chosen[after_test:after_dev])[:dev_size],
        test=offered(chosen[:after_test])[:test_size],
    )


def side_keys(pairs: Iterable[Pair]) -> Keys:
    """(N 2) 64-bit digests of the `side_key` of both sides; 0 for an empty side, which is shared with no one.

    That two of N different sentences have the same digest, and are taken for one, has a chance below N^2 / 2^65: 2e-7
    for 2.5 million.
    """
    digests = [_digest(side_key(text)) for pair in pairs for text in pair]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64, copy=False).reshape(-1, 2)


def _digest(key: str) -> bytes:
    return hashlib.blake2b(key.encode(errors="surrogatepass"), digest_size=8).digest() if key else bytes(8)


def side_key(text: str) -> str:
    """What two sentences share that differ only in case, width, punctuation and blanks.

    NFKC, casefolded, without punctuation, blanks and invisible characters; of a text that is nothing else, the
    punctuation stays. Empty only for a text of blanks.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    visible = [(c, category) for c in folded if (category := unicodedata.category(c)) not in _INVISIBLE]
    return "".join(c for c, category in visible if category[0] != "P") or "".join(c for c, _ in visible)


_INVISIBLE = {"Zs", "Zl", "Zp", "Cc", "Cf"}


def overlap(train: Keys, held_out: Keys) -> int:
    """Number of held-out pairs that share the `side_key` of their source or target with a pair of `train`."""
    return len(held_out) - len(apart(held_out, train))


def apart(keys: Keys, others: Keys) -> Rows:
    """Rows of the pairs that share the `side_key` of neither their source nor their target with one of `others`."""
    shared = [np.isin(keys[:, side], others[:, side]) & (keys[:, side] != 0) for side in range(2)]
    return np.flatnonzero(~(shared[0] | shared[1]))


def _roots(keys: Keys) -> Rows:
    """For each pair the first one of its connected component, that is of those it shares sides with, over others too.

    Each root is hung below the smallest root it is linked to, then all paths are made short, until nothing changes
    (Shiloach & Vishkin 1982).
    """
    parents = np.arange(len(keys))
    links = [_neighbours(keys[:, side]) for side in range(2)]
    one, other = (np.concatenate(ends) for ends in zip(*links, strict=True))
    while True:
        a, b = parents[one], parents[other]
        differ = a != b
        if not differ.any():
            return parents
        one, other, a, b = one[differ], other[differ], a[differ], b[differ]
        np.minimum.at(parents, np.maximum(a, b), np.minimum(a, b))
        while not np.array_equal(shorter := parents[parents], parents):
            parents = shorter


def _neighbours(keys: NDArray[np.uint64]) -> tuple[Rows, Rows]:
    """Rows of the same key, each with the next one."""
    order = np.argsort(keys, kind="stable")
    same = (keys[order[1:]] == keys[order[:-1]]) & (keys[order[1:]] != 0)
    return order[:-1][same], order[1:][same]


def _distinct_sources(keys: Keys, group_of: Rows) -> Rows:
    """For each group, how many distinct sources its pairs have."""
    order = np.lexsort((keys[:, 0], group_of))
    sources, groups = keys[order, 0], group_of[order]
    new = np.ones(len(keys), dtype=np.bool_)
    new[1:] = (sources[1:] != sources[:-1]) | (groups[1:] != groups[:-1])
    return np.bincount(groups[new])


def _groups_for(size: int, totals: Rows, start: int) -> int:
    """End of the groups that hold `size` pairs from `start` on; beyond the last one if there are too few.

    Args:
        totals: pairs in the groups before each one, and in all.
    """
    if size == 0 or start >= len(totals):
        return start
    return int(np.searchsorted(totals, totals[start] + size))


def _too_small(pairs: int, groups: int, dev_size: int, test_size: int, totals: Rows) -> str:
    """Say which sizes would fit: the largest limit that both can be held to."""

    def fails(limit: int) -> bool:
        after_test = _groups_for(min(limit, test_size), totals, 0)
        return _groups_for(min(limit, dev_size), totals, after_test) >= len(totals)

    limit = bisect_left(range(1, pairs + 1), True, key=fails)
    sizes = f"data.dev_size {dev_size:,} and data.test_size {test_size:,}"
    corpus = f"the corpus ({pairs:,} pairs in {groups:,} groups of shared sentences)"
    if limit == 0:
        return f"{corpus} is too small to be split into {sizes}: give files as data.dev and data.test"
    fit = f"data.dev_size {min(limit, dev_size):,} and data.test_size {min(limit, test_size):,}"
    return f"{corpus} is too small for {sizes}: {fit} would fit"
