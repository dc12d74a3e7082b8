"""Intervals and p-values are those of sacreBLEU, with a seed of their own."""

import os
from collections.abc import Sequence

import numpy as np
import pytest
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from seq2seq.comparison.significance import SEED, paired_bootstrap

WORDS = ["the", "cat", "dog", "sat", "ran", "on", "under", "a", "mat", "tree", "today", "and", "we", "saw", "it"]


def sentences(count: int, spoilt: float, seed: int = 0) -> list[str]:
    """The same sentences for the same seed, with a share of their words replaced."""
    random, noise = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    lines = [random.choice(WORDS, size=random.integers(5, 12)) for _ in range(count)]
    return [" ".join("x" if noise.random() < spoilt else word for word in line) for line in lines]


REFERENCES = sentences(60, 0.0)
SYSTEMS = [sentences(60, 0.3), sentences(60, 0.28, seed=0)[::-1], sentences(60, 0.1)]


@pytest.mark.parametrize("environment", ["7", None])
def test_it_agrees_with_sacrebleu_whatever_seed_the_environment_sets(
    environment: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", str(SEED))
    named: list[tuple[str, Sequence[str]]] = [(str(index), system) for index, system in enumerate(SYSTEMS)]
    metrics: dict[str, Metric] = {"BLEU": BLEU(), "chrF": CHRF()}
    signatures, expected = PairedTest(named, metrics, [REFERENCES], test_type="bs", n_samples=200)()
    if environment is None:
        monkeypatch.delenv("SACREBLEU_SEED")
    else:
        monkeypatch.setenv("SACREBLEU_SEED", environment)
    found = paired_bootstrap(SYSTEMS, REFERENCES, "en", resamples=200)
    assert os.environ.get("SACREBLEU_SEED") == environment
    for estimates, name in ((found.bleu, "BLEU"), (found.chrf, "chrF2")):
        for estimate, result in zip(estimates, expected[name], strict=True):
            assert estimate.score == result.score
            assert estimate.p_value == result.p_value
            assert (estimate.upper + estimate.lower) / 2 == pytest.approx(result.mean)
            assert (estimate.upper - estimate.lower) / 2 == pytest.approx(result.ci)
    assert found.signatures == {name: str(signature) for name, signature in signatures.items()}
    assert f"seed:{SEED}" in found.signatures["BLEU"] and "bs:200" in found.signatures["BLEU"]


def test_a_clear_difference_is_significant_and_the_first_has_no_p_value() -> None:
    found = paired_bootstrap([SYSTEMS[0], SYSTEMS[2]], REFERENCES, "en")
    assert found.bleu[0].p_value is None
    assert found.bleu[1].p_value is not None and found.bleu[1].p_value < 0.01
    assert found.bleu[1].lower < found.bleu[1].score < found.bleu[1].upper


def test_equal_translations_are_no_significant_difference() -> None:
    found = paired_bootstrap([SYSTEMS[0], SYSTEMS[0]], REFERENCES, "en", resamples=50)
    assert [each.p_value for each in (*found.bleu, *found.chrf)] == [None, 1.0, None, 1.0]


def test_the_target_language_chooses_the_tokenizer() -> None:
    assert "|tok:zh|" in paired_bootstrap([["我有猫"]], ["我有狗"], "zh", resamples=10).signatures["BLEU"]


@pytest.mark.parametrize(("systems", "references"), [([], ["a"]), ([["a"]], []), ([["a"], ["a", "b"]], ["a"])])
def test_nothing_to_test_or_unequal_lengths_are_refused(systems: list[list[str]], references: list[str]) -> None:
    with pytest.raises(ValueError, match=r"nothing to test|2 translations but 1 references"):
        paired_bootstrap(systems, references, "en")
