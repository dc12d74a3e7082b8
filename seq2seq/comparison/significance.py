"""Confidence intervals and paired significance tests over test sentences, by sacreBLEU."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from seq2seq.evaluation.scores import bleu_metric

SEED = 12345
"""Of the resamples; sacreBLEU's default."""
RESAMPLES = 1000


@dataclass(frozen=True)
class Estimate:
    """A score with what chance in the choice of test sentences does to it."""

    score: float
    """On the whole test set, 0 to 100."""
    lower: float
    """95% interval of the resampled scores ..."""
    upper: float
    """... from lower to upper: their mean, plus or minus half the distance of the outer quantiles."""
    p_value: float | None
    """Chance of so large a difference from the first system if the two were equally good; None for the first."""


@dataclass(frozen=True)
class Significance:
    """Systems tested against the first of them."""

    bleu: list[Estimate]
    """One for each system."""
    chrf: list[Estimate]
    """One for each system."""
    signatures: dict[str, str]
    """sacreBLEU's signature by metric, with seed and number of resamples."""


def paired_bootstrap(
    systems: Sequence[Sequence[str]], references: Sequence[str], target_language: str, resamples: int = RESAMPLES
) -> Significance:
    """Paired bootstrap resampling (Koehn 2004) of BLEU and chrF, each system against the first.

    p is sacreBLEU's: the share of resamples whose difference, less the mean difference, is larger than the observed
    one. Where the difference is clear, all of these lie on its side, so that p is one-sided: double it for two sides.
    The sentences are what is resampled, so intervals and p-values say how far the result depends on the choice of test
    sentences, for these trained models; they do not say how another training would differ. With several seeds, test
    each seed's models on their own: joined into one long test set, the same sentence would count several times as if
    it were independent, and every interval would come out too narrow.

    A system that scores exactly as the first has p = 1, where sacreBLEU's strict comparison would give its least value.

    Raises:
        ValueError: there is no system or no reference, or a system has another number of sentences.
    """
    if not systems or not references:
        raise ValueError("nothing to test")
    for system in systems:
        if len(system) != len(references):
            raise ValueError(f"{len(system)} translations but {len(references)} references")
    named: list[tuple[str, Sequence[str]]] = [(str(index), list(system)) for index, system in enumerate(systems)]
    metrics: dict[str, Metric] = {"BLEU": bleu_metric(target_language), "chrF": CHRF()}
    with _fixed_seed():
        test = PairedTest(named, metrics, [list(references)], test_type="bs", n_samples=resamples)
        signatures, results = test()
    # sacreBLEU names chrF by its order: chrF2.
    bleu, chrf = ([_estimate(each, results[name][0]) for each in results[name]] for name in test.metrics)
    return Significance(bleu, chrf, {name: str(signature) for name, signature in signatures.items()})


def _estimate(result, first) -> Estimate:  # type: ignore[no-untyped-def]  # the name column makes it a union with str
    same = result is not first and result.score == first.score
    lower, upper = result.mean - result.ci, result.mean + result.ci
    return Estimate(float(result.score), float(lower), float(upper), 1.0 if same else result.p_value)


@contextmanager
def _fixed_seed() -> Iterator[None]:
    """sacreBLEU takes the seed from the environment alone."""
    before = os.environ.get("SACREBLEU_SEED")
    os.environ["SACREBLEU_SEED"] = str(SEED)
    try:
        yield
    finally:
        if before is None:
            del os.environ["SACREBLEU_SEED"]
        else:
            os.environ["SACREBLEU_SEED"] = before
