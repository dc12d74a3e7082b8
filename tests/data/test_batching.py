"""Batches: within the budget, alike in length, in an order that (seed, epoch) alone decides."""

import zlib

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.data.batching import Batches, group, make_batch, pad
from seq2seq.data.store import ParallelStore, TokenStore
from seq2seq.data.tokenizer import BOS, EOS, PAD


@pytest.fixture
def store() -> ParallelStore:
    random = np.random.default_rng(1)
    source = [random.integers(4, 50, size=random.integers(1, 30)).tolist() for _ in range(300)]
    target = [random.integers(4, 50, size=max(1, len(s) + int(random.integers(-3, 4)))).tolist() for s in source]
    return ParallelStore(TokenStore.of(source), TokenStore.of(target))


def test_a_batch_has_each_special_id_where_it_belongs() -> None:
    batch = make_batch([[5, 6], [7]], [[8], [9, 10, 11]])
    assert batch.source.tolist() == [[5, 6, EOS], [7, EOS, PAD]]
    assert batch.target_input.tolist() == [[BOS, 8, PAD, PAD], [BOS, 9, 10, 11]]
    assert batch.target_output.tolist() == [[8, EOS, PAD, PAD], [9, 10, 11, EOS]]


def test_padding_of_nothing_is_an_empty_tensor() -> None:
    assert pad([], None, EOS).shape == (0, 1)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=80), st.integers(1, 100))
def test_groups_hold_everything_once_within_the_budget(lengths: list[int], budget: int) -> None:
    array = np.array(lengths)
    groups = group(array, np.arange(len(array)), budget)
    assert np.concatenate(groups).tolist() == list(range(len(lengths)))
    for rows in groups:
        assert len(rows) == 1 or len(rows) * array[rows].max() <= budget


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(1, 30), st.randoms())
def test_groups_are_those_of_a_plain_loop(lengths: list[int], budget: int, random) -> None:
    order = list(range(len(lengths)))
    random.shuffle(order)
    expected: list[list[int]] = []
    for row in order:
        longer = [*expected[-1], row] if expected else []
        if longer and len(longer) * max(lengths[each] for each in longer) <= budget:
            expected[-1] = longer
        else:
            expected.append([row])
    groups = group(np.array(lengths, dtype=np.uint16), np.array(order, dtype=np.int32), budget)
    assert [rows.tolist() for rows in groups] == expected


def test_the_plan_of_a_known_corpus_seed_and_epoch_never_changes(store: ParallelStore) -> None:
    """Runs that were begun with an earlier version go on with the same batches."""
    batches = Batches(store, 200, seed=3)
    plans = [b"|".join(rows.astype("<i8").tobytes() for rows in batches.plan(epoch)) for epoch in (0, 1, 5)]
    assert [zlib.crc32(plan) for plan in plans] == [2097476194, 3081277423, 1795259790]


def test_a_plan_asked_for_again_is_not_made_again(store: ParallelStore) -> None:
    batches = Batches(store, 200, seed=3)
    first = batches.plan(1)
    assert batches.plan(1) is first
    assert batches.plan(2) is not first
    assert [rows.tolist() for rows in batches.plan(1)] == [rows.tolist() for rows in first]


def test_batches_of_rows_in_any_order_and_of_no_plan_are_made_all_the_same(store: ParallelStore) -> None:
    batches, fresh = Batches(store, 200, seed=3), Batches(store, 200, seed=3)
    plan = batches.plan(0)
    for rows in (plan[3], plan[1], plan[1], plan[-1], plan[0].copy(), np.array([7, 2, 299])):
        expected = make_batch([store.source[row] for row in rows], [store.target[row] for row in rows])
        for made in (batches.batch(0, rows), fresh.batch(0, rows)):
            assert all(torch.equal(one, other) for one, other in zip(made, expected, strict=True))


def test_every_epoch_holds_every_pair_once(store: ParallelStore) -> None:
    batches = Batches(store, budget=200, seed=3)
    for epoch in range(3):
        assert sorted(np.concatenate(batches.plan(epoch)).tolist()) == list(range(300))


def test_no_batch_exceeds_the_budget_padding_included(store: ParallelStore) -> None:
    for batch in Batches(store, budget=200, seed=3).epoch(0):
        rows, source = batch.source.shape
        assert rows * max(source, batch.target_input.size(1)) <= 200


def test_the_order_is_that_of_seed_and_epoch_and_differs_between_them(store: ParallelStore) -> None:
    def flat(seed: int, epoch: int) -> list[int]:
        return np.concatenate(Batches(store, 200, seed).plan(epoch)).tolist()

    assert flat(3, 1) == flat(3, 1)
    assert len({tuple(flat(*which)) for which in ((3, 0), (3, 1), (4, 0))}) == 3


def test_an_epoch_can_be_taken_up_anywhere(store: ParallelStore) -> None:
    whole = [batch.source.tolist() for batch in Batches(store, 200, seed=3).epoch(2)]
    later = Batches(store, 200, seed=3)
    assert [later.batch(2, rows).source.tolist() for rows in later.plan(2)[5:]] == whole[5:]


def test_the_rows_handed_out_are_those_of_each_batch(store: ParallelStore) -> None:
    batches = Batches(store, 200, seed=3)
    rows = batches.plan(2)[0]
    first = batches.batch(2, rows)
    assert [[*store.source[row].tolist(), EOS] for row in rows] == [
        [token for token in line if token != PAD] for line in first.source.tolist()
    ]


def test_a_batch_goes_to_a_device_as_a_whole() -> None:
    batch = make_batch([[5, 6]], [[8]]).to(torch.device("meta"))
    assert [tensor.device.type for tensor in batch] == ["meta"] * 3
    assert [tuple(tensor.shape) for tensor in batch] == [(1, 3), (1, 2), (1, 2)]


def test_nothing_is_cut_into_no_groups() -> None:
    assert group(np.zeros(0, dtype=np.int64), np.arange(0), 16) == []


def test_like_lengths_stand_together(store: ParallelStore) -> None:
    batches = Batches(store, budget=200, seed=3)
    shuffled = group(np.maximum(batches.source_lengths, batches.target_lengths), np.arange(300), 200)
    padded = sum(len(g) * int(batches.source_lengths[g].max() + batches.target_lengths[g].max()) for g in shuffled)
    unsorted_share = 1 - int(batches.source_lengths.sum() + batches.target_lengths.sum()) / padded
    assert batches.padding_share() < unsorted_share / 2


def test_the_padding_share_is_counted_over_both_sides() -> None:
    store = ParallelStore(TokenStore.of([[5], [5, 5, 5]]), TokenStore.of([[5, 5], [5, 5]]))
    batches = Batches(store, budget=100)
    # Sources 2 and 4 long of 2 x 4, targets 3 and 3 of 2 x 3: 2 of 14 positions are padding.
    assert batches.padding_share() == pytest.approx(2 / 14)


def test_without_a_seed_the_order_never_changes(store: ParallelStore) -> None:
    batches = Batches(store, budget=200)
    assert [g.tolist() for g in batches.plan(0)] == [g.tolist() for g in batches.plan(9)]
