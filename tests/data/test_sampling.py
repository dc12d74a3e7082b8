"""Subword regularisation: another segmentation in each epoch, the same text, and the same draw when asked again."""

import pytest

from seq2seq.config.schema import Tokenizer
from seq2seq.data.batching import Batches
from seq2seq.data.corpus import Pair
from seq2seq.data.sampling import SubwordSampler
from seq2seq.data.store import ParallelStore, TokenStore
from seq2seq.data.tokenizer import TextTokenizer, train_tokenizer

TEXTS = ["the lowest of the low", "newer and newest", "wider than the widest river", "slower flowers grow lower"] * 5


@pytest.fixture(params=["unigram", "bpe"])
def tokenizer(request: pytest.FixtureRequest) -> TextTokenizer:
    return train_tokenizer(TEXTS, Tokenizer(kind=request.param, vocabulary_size=60), "en", "target")


def sampler(tokenizer: TextTokenizer, source_alpha: float = 0.3, target_alpha: float = 0.3, seed: int = 1):
    pairs = [Pair(text, text) for text in TEXTS]
    return SubwordSampler(pairs, tokenizer, tokenizer, source_alpha, target_alpha, seed)


def test_segmentations_vary_with_seed_epoch_pair_and_side_but_not_the_text(tokenizer: TextTokenizer) -> None:
    draws = [sampler(tokenizer, seed=seed).sample(epoch, row) for seed in (1, 2) for epoch in (0, 1) for row in (0, 4)]
    assert {tokenizer.decode(ids) for draw in draws for ids in draw} == {TEXTS[0]}
    assert len({tuple(ids) for draw in draws for ids in draw}) > 4
    assert any(source != target for source, target in draws)


def test_a_draw_asked_for_again_is_the_same(tokenizer: TextTokenizer) -> None:
    one = sampler(tokenizer)
    first = one.sample(3, 2)
    one.sample(0, 0)
    assert one.sample(3, 2) == sampler(tokenizer).sample(3, 2) == first


def test_a_side_without_alpha_keeps_its_best_segmentation(tokenizer: TextTokenizer) -> None:
    draws = [sampler(tokenizer, source_alpha=0.0).sample(epoch, 0) for epoch in range(8)]
    assert all(source == tokenizer.encode(TEXTS[0]) for source, _ in draws)
    assert any(target != tokenizer.encode(TEXTS[0]) for _, target in draws)


def test_batches_are_made_of_the_draws_of_their_epoch(tokenizer: TextTokenizer) -> None:
    ids = TokenStore.of(tokenizer.encode_batch(TEXTS))
    batches = Batches(ParallelStore(ids, ids), 100, seed=1, sampler=sampler(tokenizer))
    rows = batches.plan(0)[0]
    for epoch in (0, 1):
        batch = batches.batch(epoch, rows)
        for row, found in zip(rows, batch.source.tolist(), strict=True):
            expected = sampler(tokenizer).sample(epoch, int(row))[0]
            assert found[: len(expected) + 1] == [*expected, 3]
