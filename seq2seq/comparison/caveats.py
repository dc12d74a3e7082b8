"""What to read with care in a comparison, as plain text."""

from collections.abc import Iterator
from statistics import fmean

from seq2seq.comparison.results import ComparisonReport

LEVEL = 0.05
"""Of significance."""


def caveats(report: ComparisonReport) -> Iterator[str]:
    """What these very figures do not show."""
    first, others = report.variants[0], report.variants[1:]
    trainings = len(first.outcomes)
    if trainings == 1:
        yield (
            "Each variant was trained once. The intervals and p-values cover the choice of test sentences only; how "
            "far another training of the same variant would differ is not in them."
        )
    else:
        yield (
            f"Each variant was trained {trainings} times. The p-value is the largest of the {trainings} tests, one for "
            f"each seed (1 where they do not agree on which is better); "
            f"how far trainings of a variant differ is seen in the ranges, and {trainings} are few."
        )
    if not report.one_test_set:
        yield "The test set is split off anew for each seed, so the ranges hold the choice of test sentences, too."
    if len(others) > 1:
        yield (
            f"{len(others)} variants are tested against the first: by chance alone, some p below {LEVEL} comes about "
            f"more often than one time in {1 / LEVEL:.0f}. Corrected for that (Bonferroni), a difference is "
            f"significant where p is below {LEVEL / len(others):.4f}, of one metric chosen beforehand."
        )
    keys = {key for variant in report.variants for key in variant.settings}
    if not report.one_training_text and not any(key.startswith(("tokenizer.", "data.", "seed")) for key in keys):
        yield "The training text was changed between one training and another: they did not learn from the same."
    if any(key.startswith("data.") for key in keys):
        yield "Settings of data.* differ: the variants need not have learned from the same text."
    if any(key.startswith(("training.max_", "training.patience")) for key in keys):
        yield "The budgets differ: more training alone may explain a difference."
    if any(key.startswith(("tokenizer.", "data.")) for key in keys):
        yield "The vocabularies may differ: perplexities, which count each token, are then not comparable; BLEU is."
    fewest, most = (f([o.updates for v in report.variants for o in v.outcomes]) for f in (min, max))
    if fewest < 0.9 * most:
        yield (
            f"The variants made from {fewest:,} to {most:,} updates: under a budget of time a faster variant makes "
            f"more of them, and what else the machine does at the time counts."
        )
    if beaten := below_copy(report):
        yield beaten


def below_copy(report: ComparisonReport) -> str | None:
    """Which variants are no better than the copy baseline; None where all are, or there is none."""
    if report.copy is None:
        return None
    copied = fmean(each.bleu.score for each in report.copy)
    beaten = [v.name for v in report.variants if fmean(outcome.bleu.score for outcome in v.outcomes) <= copied]
    return f"Not above the copy baseline, so not worth comparing yet: {', '.join(beaten)}." if beaten else None
