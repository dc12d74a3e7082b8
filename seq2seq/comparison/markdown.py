"""A comparison as a Markdown page: tables, figures, how it was measured, and what to read with care."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import fmean

from seq2seq.comparison.attention_sample import AttentionSample
from seq2seq.comparison.caveats import caveats
from seq2seq.comparison.results import Bucket, ComparisonReport, Outcome, Variant
from seq2seq.comparison.significance import Estimate
from seq2seq.training.loss import shown

HEADER = (
    "variant", "BLEU", "95% interval", "p", "chrF", "95% interval", "p", "perplexity", "parameters", "tokens/s",
    "updates", "epoch", "minutes",
)  # fmt: skip


def to_markdown(report: ComparisonReport, sample: AttentionSample) -> str:
    """The page; it lies beside learning_curves.png and bleu_by_length.png."""
    sections = [
        f"# Comparison: {_escape(report.name)}",
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
        _bullets(map(_escape, caveats(report))),
    ]
    return "\n\n".join(sections) + "\n"


def results_table(report: ComparisonReport) -> str:
    """The main table, one row for each variant and one for the copy baseline."""
    rows = [_row(variant, report.variants[0]) for variant in report.variants]
    if report.copy is not None:
        baseline = [[getattr(each, metric) for each in report.copy] for metric in ("bleu", "chrf")]
        firsts = [[getattr(o, metric) for o in report.variants[0].outcomes] for metric in ("bleu", "chrf")]
        cells = ["(copy)"]
        for estimates, first in zip(baseline, firsts, strict=True):
            cells += estimate_cells(estimates, first)
        rows.append([*cells, *[""] * (len(HEADER) - len(cells))])
    return _table(HEADER, rows)


def estimate_cells(estimates: Sequence[Estimate], first: Sequence[Estimate]) -> list[str]:
    """Score, interval and p of one metric, over all seeds; `first`: the estimates of the first variant."""
    lower, upper = min(each.lower for each in estimates), max(each.upper for each in estimates)
    p_values = [each.p_value for each in estimates if each.p_value is not None]
    better = {each.score > other.score for each, other in zip(estimates, first, strict=True)}
    p = f"{1.0 if len(better) > 1 else max(p_values):.3f}" if p_values else ""
    return [_spread([each.score for each in estimates], "{:.1f}".format), f"{max(lower, 0):.1f} to {upper:.1f}", p]


def bucket_label(bucket: Bucket) -> str:
    """Its lengths, such as 5-8."""
    return str(bucket.longest) if bucket.shortest == bucket.longest else f"{bucket.shortest}-{bucket.longest}"


def mean_by_length(variant: Variant) -> list[float | None]:
    """BLEU in each bucket, the mean over the trainings that have sentences there."""
    columns = zip(*(outcome.bleu_by_length for outcome in variant.outcomes), strict=True)
    known = [[value for value in column if value is not None] for column in columns]
    return [fmean(values) if values else None for values in known]


def _legend(report: ComparisonReport) -> str:
    several = len(report.variants[0].outcomes) > 1
    lines = [
        f"p: chance of so large a difference from {_escape(report.variants[0].name)} if the two were equally good "
        f"(sacreBLEU's paired bootstrap; where the difference is clear it is one-sided, so double it for two sides). "
        f"Interval: 95%, over the choice of test sentences. tokens/s: target tokens in "
        f"training. minutes: of training, validation included. (copy): each source given the target of the training "
        f"pair with the nearest source."
    ]
    if several:
        lines.append(
            "A figure is the mean over the seeds, with their range. Tests are done for each seed on its own: joined "
            "into one test set, each sentence would count several times as if it were independent, and p would be "
            "too small. p is the largest of the seeds' (1 where they do not agree on which is better); "
            "the interval reaches from the least lower end to the "
            "greatest upper one."
        )
    if report.copy is None:
        lines.append("No copy baseline: the training text is not here any more.")
    return "\n\n".join(lines)


def _row(variant: Variant, first: Variant) -> list[str]:
    def spread(figure: Callable[[Outcome], float], show: Callable[[float], str]) -> str:
        return _spread([figure(outcome) for outcome in variant.outcomes], show)

    return [
        _escape(variant.name),
        *estimate_cells([o.bleu for o in variant.outcomes], [o.bleu for o in first.outcomes]),
        *estimate_cells([o.chrf for o in variant.outcomes], [o.chrf for o in first.outcomes]),
        spread(lambda outcome: outcome.perplexity, shown),
        spread(lambda outcome: outcome.parameters, "{:,.0f}".format),
        spread(lambda outcome: outcome.tokens_per_second, "{:,.0f}".format),
        spread(lambda outcome: outcome.updates, "{:,.0f}".format),
        spread(lambda outcome: outcome.epoch, "{:,.0f}".format),
        spread(lambda outcome: outcome.minutes, "{:.1f}".format),
    ]


def _spread(values: Sequence[float], show: Callable[[float], str]) -> str:
    """The mean, with the range where the values differ."""
    least, greatest = show(min(values)), show(max(values))
    return show(fmean(values)) + ("" if least == greatest else f" ({least} to {greatest})")


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
    maps = [_map(name, sample) for name in sample.translations if name in sample.alike or name in sample.maps]
    if sample.left_out:
        maps.append(f"The attention maps were left out: {_escape(sample.left_out)}")
    return "\n\n".join([_table(["", ""], rows, numbers=False), *maps])


def _map(variant: str, sample: AttentionSample) -> str:
    name = _escape(variant)
    if variant in sample.alike:
        return f"No attention map of {name}: it looks at all positions alike."
    return f"![attention of {name}](<{sample.maps[variant]}>)"


def _settings(report: ComparisonReport) -> str:
    """A row for each key, a column for each variant; empty where a variant has no such key."""
    keys = dict.fromkeys(key for variant in report.variants for key in variant.settings)
    rows = [
        [
            _escape(key),
            *(
                _escape(json.dumps(variant.settings[key], ensure_ascii=False)) if key in variant.settings else ""
                for variant in report.variants
            ),
        ]
        for key in keys
    ]
    return _table(["setting", *(_escape(variant.name) for variant in report.variants)], rows, numbers=False)


def _facts(report: ComparisonReport) -> Iterator[str]:
    seeds = sorted({outcome.seed for variant in report.variants for outcome in variant.outcomes})
    yield f"test sentences: {report.sentences:,}"
    yield f"seeds: {', '.join(map(str, seeds))}"
    yield f"beam: {', '.join(map(str, report.beams))}"
    for metric, signature in report.signatures.items():
        yield f"{metric}: `{signature}`"
    threads = ("one for each core" if each is None else str(each) for each in report.threads)
    yield f"CPU threads in training: {', '.join(threads)}"
    yield f"device in training: {', '.join(report.devices)}"
    yield f"device of this report: {_escape(report.device)}"
    yield f"processor of this report: {_escape(report.processor)}"
    yield f"PyTorch of this report: {report.torch}"


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], numbers: bool = True) -> str:
    rule = ["---", *["---:" if numbers else "---"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *rows))


def _escape(text: str) -> str:
    """Text that shows as it is in a line or a cell, without a meaning to Markdown, to HTML or to GitHub's formulas."""
    return re.sub(r"[\\`*_<\[\]|&~$]", r"\\\g<0>", " ".join(text.split()))
