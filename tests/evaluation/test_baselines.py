"""The copy baseline finds the nearest training source."""

import math
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from seq2seq.data.corpus import Pair, read_pairs
from seq2seq.evaluation import baselines, score
from seq2seq.evaluation.baselines import copy_baseline

TRAIN = [Pair("我有猫", "cat"), Pair("我有狗", "dog"), Pair("我有猫", "second cat"), Pair("天气很好", "weather")]


def by_hand(train: list[Pair], source: str) -> str:
    """The definition: cosine of smoothed tf-idf vectors of character uni- and bigrams."""

    def grams(text: str) -> Counter[str]:
        return Counter([*text, *map("".join, pairwise(text))])

    known = [grams(pair.source) for pair in train]

    def vector(text: str) -> dict[str, float]:
        return {
            gram: count * (1 + math.log((1 + len(train)) / (1 + frequency)))
            for gram, count in grams(text).items()
            if (frequency := sum(gram in each for each in known))
        }

    def cosine(a: dict[str, float], b: dict[str, float]) -> float:
        norms = math.hypot(*a.values()) * math.hypot(*b.values())
        return sum(value * b.get(gram, 0.0) for gram, value in a.items()) / norms if norms else 0.0

    asked = vector(source)
    return max(train, key=lambda pair: cosine(asked, vector(pair.source))).target


def test_it_agrees_with_the_definition_and_equally_near_pairs_give_the_first() -> None:
    sources = ["我有猫", "我有一只狗", "天气", "好猫", "有有有"]
    assert copy_baseline(TRAIN, sources) == [by_hand(TRAIN, source) for source in sources]
    assert copy_baseline(TRAIN, ["我有猫"]) == ["cat"]


def test_a_source_like_no_other_gets_the_first_pair() -> None:
    assert copy_baseline(TRAIN, ["xyz", ""]) == ["cat", "cat"]


def test_the_size_of_the_blocks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = [pair.source[:2] for pair in TRAIN] * 3
    whole = copy_baseline(TRAIN, sources)
    for cells in (1, 2 * len(TRAIN), 5 * len(TRAIN)):
        monkeypatch.setattr(baselines, "_BLOCK", cells)
        assert copy_baseline(TRAIN, sources) == whole


def test_no_source_gives_no_translation_and_no_training_pair_is_an_error() -> None:
    assert copy_baseline(TRAIN, []) == []
    with pytest.raises(ValueError, match="training pairs"):
        copy_baseline([], ["我"])


def test_it_scores_on_tatoeba_what_the_corpus_documents(tatoeba: Path) -> None:
    train, test = (list(read_pairs(str(tatoeba / f"{part}.tsv"), "zh", "en")) for part in ("train", "test"))
    copied = copy_baseline(train, [pair.source for pair in test])
    scores = score(copied, [pair.target for pair in test], "en")
    assert scores.bleu == pytest.approx(13.1, abs=0.5)
    assert scores.chrf == pytest.approx(32.2, abs=0.5)
