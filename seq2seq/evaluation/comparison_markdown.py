"""A comparison as a Markdown page: tables, figures, how it was measured, and what to read with care."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from seq2seq.evaluation.comparison import Bucket, ComparisonReport, Outcome, Variant
from seq2seq.evaluation.significance import Estimate
from seq2seq.training.loss import shown

LEVEL = 0.05
"""Of significance."""
HEADER = (
    "variant", "BLEU", "95% interval", "p", "chrF", "95% interval", "p", "perplexity", "parameters", "tokens/s",
    "updates", "epoch", "minutes",
)  # fmt: skip


@dataclass(frozen=True)
class AttentionSample:
    """One sentence as the first training of each variant translates it."""

    source: str
    reference: str | None
    """None for a sentence that is not of the test set."""
    translations: dict[str, str]
    """By variant."""
    maps: dict[str, str]
    """Variant -> file of the attention map, relative to the report."""
    left_out: str | None
    """Why there are no maps."""


def to_markdown(report: ComparisonReport, sample: AttentionSample) -> str:
    """The page; it lies beside learning_curves.png and bleu_by_length.png."""
    sections = [
        f"# Comparison: {report.name}",
        results_table(report),
        _legend(report),
        "## BLEU by length of the source",
        "![BLEU by length of the source](bleu_by_length.png)",
        _length_table(report),
        "## Learning curves",
        "![BLEU on dev while training](learning_curves.png)",
        "## One sentence",
        _sample(sample),
        "## Settings that differ",
        _settings(report),
        "## How it was measured",
        _bullets(_facts(report)),
        "## Read with care",
        _bullets(caveats(report)),
    ]
    return "\n\n".join(sections) + "\n"


def results_table(report: ComparisonReport) -> str:
    """The main table, one row for each variant and one for the copy baseline."""
    rows = [_row(variant) for variant in report.variants]
    if report.copy is not None:
        baseline = [[getattr(each, metric) for each in report.copy] for metric in ("bleu", "chrf")]
        cells = ["(copy)", *(cell for estimates in baseline for cell in _estimates(estimates))]
        rows.append([*cells, *[""] * (len(HEADER) - len(cells))])
    return _table(HEADER, rows)


def bucket_label(bucket: Bucket) -> str:
    """Its lengths, such as 5-8."""
    return str(bucket.longest) if bucket.shortest == bucket.longest else f"{bucket.shortest}-{bucket.longest}"


def mean_by_length(variant: Variant) -> list[float | None]:
    """BLEU in each bucket, the mean over the trainings that have sentences there."""
    columns = zip(*(outcome.bleu_by_length for outcome in variant.outcomes), strict=True)
    known = [[value for value in column if value is not None] for column in columns]
    return [fmean(values) if values else None for values in known]


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
            f"each seed; how far trainings of a variant differ is seen in the ranges, and {trainings} are few."
        )
    if not report.one_test_set:
        yield "The test set is split off anew for each seed, so the ranges hold the choice of test sentences, too."
    if len(others) > 1:
        yield (
            f"{len(others)} variants are tested against the first: by chance alone, some p below {LEVEL} comes about "
            f"more often than one time in {1 / LEVEL:.0f}. Corrected for that (Bonferroni), a difference is "
            f"significant where p is below {LEVEL / len(others):.4f}."
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
    if report.copy is not None:
        copied = fmean(each.bleu.score for each in report.copy)
        beaten = [v.name for v in report.variants if _mean(v, lambda outcome: outcome.bleu.score) <= copied]
        if beaten:
            yield f"Not above the copy baseline, so not worth comparing yet: {', '.join(beaten)}."


def _legend(report: ComparisonReport) -> str:
    several = len(report.variants[0].outcomes) > 1
    lines = [
        f"p: chance of so large a difference from {_escape(report.variants[0].name)} if the two were equally good "
        f"(paired bootstrap, two-sided). Interval: 95%, over the choice of test sentences. tokens/s: target tokens in "
        f"training. minutes: of training, validation included. (copy): each source given the target of the training "
        f"pair with the nearest source."
    ]
    if several:
        lines.append(
            "A figure is the mean over the seeds, with their range. Tests are done for each seed on its own: joined "
            "into one test set, each sentence would count several times as if it were independent, and p would be "
            "too small. p is the largest of the seeds'; the interval reaches from the least lower end to the "
            "greatest upper one."
        )
    if report.copy is None:
        lines.append("No copy baseline: the training text is not here any more.")
    return "\n\n".join(lines)


def _row(variant: Variant) -> list[str]:
    def spread(figure: Callable[[Outcome], float], show: Callable[[float], str]) -> str:
        return _spread([figure(outcome) for outcome in variant.outcomes], show)

    return [
        _escape(variant.name),
        *_estimates([outcome.bleu for outcome in variant.outcomes]),
        *_estimates([outcome.chrf for outcome in variant.outcomes]),
        spread(lambda outcome: outcome.perplexity, shown),
        spread(lambda outcome: outcome.parameters, "{:,.0f}".format),
        spread(lambda outcome: outcome.tokens_per_second, "{:,.0f}".format),
        spread(lambda outcome: outcome.updates, "{:,.0f}".format),
        spread(lambda outcome: outcome.epoch, "{:,.0f}".format),
        spread(lambda outcome: outcome.minutes, "{:.1f}".format),
    ]


def _estimates(estimates: Sequence[Estimate]) -> list[str]:
    """Score, interval and p of one metric."""
    lower, upper = min(each.lower for each in estimates), max(each.upper for each in estimates)
    p_values = [each.p_value for each in estimates if each.p_value is not None]
    p = f"{max(p_values):.3f}" if p_values else ""
    return [_spread([each.score for each in estimates], "{:.1f}".format), f"{max(lower, 0):.1f} to {upper:.1f}", p]


def _spread(values: Sequence[float], show: Callable[[float], str]) -> str:
    """The mean, with the range where the values differ."""
    least, greatest = show(min(values)), show(max(values))
    return show(fmean(values)) + ("" if least == greatest else f" ({least} to {greatest})")


def _mean(variant: Variant, figure: Callable[[Outcome], float]) -> float:
    return fmean(figure(outcome) for outcome in variant.outcomes)


def _length_table(report: ComparisonReport) -> str:
    header = ["variant", *map(bucket_label, report.buckets)]
    rows = [
        [_escape(variant.name), *("" if value is None else f"{value:.1f}" for value in mean_by_length(variant))]
        for variant in report.variants
    ]
    return _table(header, [*rows, ["(sentences)", *(f"{bucket.sentences:,}" for bucket in report.buckets)]])


def _sample(sample: AttentionSample) -> str:
    rows = [["(source)", _escape(sample.source)]]
    if sample.reference is not None:
        rows.append(["(reference)", _escape(sample.reference)])
    rows += [[_escape(name), _escape(text)] for name, text in sample.translations.items()]
    maps = [f"![attention of {_escape(name)}](<{file}>)" for name, file in sample.maps.items()]
    if sample.left_out:
        maps.append(f"The attention maps were left out: {sample.left_out}")
    return "\n\n".join([_table(["", ""], rows, numbers=False), *maps])


def _settings(report: ComparisonReport) -> str:
    """All that differ, for the first variant; where the others differ from it."""
    first = report.variants[0]
    rows = []
    for variant in report.variants:
        shown_here = {
            key: value
            for key, value in variant.settings.items()
            if variant is first or key not in first.settings or value != first.settings[key]
        }
        lines = (f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in shown_here.items())
        rows.append([_escape(variant.name), "<br>".join(map(_escape, lines))])
    return _table(["variant", "settings"], rows, numbers=False)


def _facts(report: ComparisonReport) -> Iterator[str]:
    seeds = sorted({outcome.seed for variant in report.variants for outcome in variant.outcomes})
    yield f"test sentences: {report.sentences:,}"
    yield f"seeds: {', '.join(map(str, seeds))}"
    yield f"beam: {', '.join(map(str, report.beams))}"
    for metric, signature in report.signatures.items():
        yield f"{metric}: `{signature}`"
    threads = ("one for each core" if each is None else str(each) for each in report.threads)
    yield f"CPU threads in training: {', '.join(threads)}"
    yield f"PyTorch: {report.torch}"


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], numbers: bool = True) -> str:
    rule = ["---", *["---:" if numbers else "---"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *rows))


def _escape(text: str) -> str:
    return text.replace("|", r"\|")
