"""Split a corpus into train, dev and test such that no sentence of dev or test stands in train, on either side."""

import random
import unicodedata
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from seq2seq.data.corpus import Pair
from seq2seq.errors import UserError

# Groups above this share of the corpus, and above this many pairs, are no fair sample of it.
_LARGE_SHARE = 0.01
_LARGE_PAIRS = 10


class Split(NamedTuple):
    """Rows of three parts; train in the order of the corpus, dev and test in random order: a prefix is a sample."""

    train: list[int]
    dev: list[int]
    test: list[int]


def split(pairs: Sequence[Pair], dev_size: int, test_size: int, seed: int) -> Split:
    """Split by group: pairs that share a `side_key` on the source or on the target side, directly or over others.

    A group goes to one part as a whole. Groups of more than 1% of the corpus (and more than 10 pairs) go to train. Of
    a group in dev or test one pair for each distinct source is kept, the rest is left out of the split. The same pairs
    and seed give the same split on every machine.

    Args:
        dev_size, test_size: pairs in dev and test, exactly; 0 leaves that part empty.

    Raises:
        UserError: the corpus has too few groups for these sizes.
    """
    groups = _groups(pairs)
    large = max(_LARGE_PAIRS, _LARGE_SHARE * len(pairs))
    candidates = [group for group in groups if len(group) <= large]
    random.Random(seed).shuffle(candidates)
    offers = [_distinct_sources(pairs, group) for group in candidates]
    # Train must get something: a large group, or else one of the others.
    usable = len(candidates) - (len(candidates) == len(groups))
    counts = [len(offer) for offer in offers[:usable]]
    after_test = _groups_for(test_size, counts, 0)
    after_dev = _groups_for(dev_size, counts, after_test)
    if after_dev > usable:
        raise UserError(_too_small(len(pairs), len(groups), dev_size, test_size, counts))
    held_out = {row for group in candidates[:after_dev] for row in group}
    return Split(
        train=[row for row in range(len(pairs)) if row not in held_out],
        dev=[row for offer in offers[after_test:after_dev] for row in offer][:dev_size],
        test=[row for offer in offers[:after_test] for row in offer][:test_size],
    )


def side_key(text: str) -> str:
    """What two sentences share that differ only in case, width, punctuation and blanks.

    NFKC, casefolded, without punctuation, blanks and invisible characters; of a text that is nothing else, the
    punctuation stays. Empty only for a text of blanks.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    visible = [(c, category) for c in folded if (category := unicodedata.category(c)) not in _INVISIBLE]
    return "".join(c for c, category in visible if category[0] != "P") or "".join(c for c, _ in visible)


_INVISIBLE = {"Zs", "Zl", "Zp", "Cc", "Cf"}


def overlap(train: Iterable[Pair], held_out: Iterable[Pair]) -> int:
    """Number of pairs of `held_out` that share the `side_key` of their source or target with a pair of `train`."""
    held_out = list(held_out)
    return len(held_out) - len(apart(held_out, train))


def apart(pairs: Iterable[Pair], others: Iterable[Pair]) -> list[int]:
    """Rows of the pairs that share the `side_key` of neither their source nor their target with one of `others`."""
    known = {key for pair in others for key in _keys(pair)}
    return [row for row, pair in enumerate(pairs) if not any(key in known for key in _keys(pair))]


def _keys(pair: Pair) -> list[tuple[int, str]]:
    """The pair's sides, as (0, source key) and (1, target key); an empty side is shared with no one."""
    return [(side, key) for side, text in enumerate(pair) if (key := side_key(text))]


def _groups(pairs: Sequence[Pair]) -> list[list[int]]:
    """Connected components as lists of indices, in the order of their first pair."""
    parents = list(range(len(pairs)))

    def root(index: int) -> int:
        while parents[index] != index:
            parents[index] = parents[parents[index]]
            index = parents[index]
        return index

    first: dict[tuple[int, str], int] = {}
    for index, pair in enumerate(pairs):
        for key in _keys(pair):
            a, b = sorted((root(index), root(first.setdefault(key, index))))
            parents[b] = a
    groups = defaultdict(list)
    for index in range(len(pairs)):
        groups[root(index)].append(index)
    return list(groups.values())


def _distinct_sources(pairs: Sequence[Pair], group: list[int]) -> list[int]:
    distinct: dict[str, int] = {}
    for index in group:
        distinct.setdefault(side_key(pairs[index].source), index)
    return list(distinct.values())


def _groups_for(size: int, counts: list[int], start: int) -> int:
    """End of the groups that hold `size` pairs from `start` on; beyond the last one if there are too few."""
    end = start
    while size > 0:
        if end >= len(counts):
            return len(counts) + 1
        size -= counts[end]
        end += 1
    return end


def _too_small(pairs: int, groups: int, dev_size: int, test_size: int, counts: list[int]) -> str:
    """Say which sizes would fit: the largest limit that both can be held to."""

    def fails(limit: int) -> bool:
        after_test = _groups_for(min(limit, test_size), counts, 0)
        return _groups_for(min(limit, dev_size), counts, after_test) > len(counts)

    limit = bisect_left(range(1, pairs + 1), True, key=fails)
    sizes = f"data.dev_size {dev_size:,} and data.test_size {test_size:,}"
    corpus = f"the corpus ({pairs:,} pairs in {groups:,} groups of shared sentences)"
    if limit == 0:
        return f"{corpus} is too small to be split into {sizes}: give files as data.dev and data.test"
    fit = f"data.dev_size {min(limit, dev_size):,} and data.test_size {min(limit, test_size):,}"
    return f"{corpus} is too small for {sizes}: {fit} would fit"
