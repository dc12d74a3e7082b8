"""A comparison for the terminal: the main figures, and what must not be overlooked."""

import textwrap
from statistics import fmean

from seq2seq.comparison.caveats import below_copy
from seq2seq.comparison.markdown import estimate_cells
from seq2seq.comparison.results import ComparisonReport
from seq2seq.plotting.labels import display_width

WIDTH = 100
"""Columns at most."""
HEADER = ("variant", "BLEU", "95% interval", "p", "chrF", "minutes")
_GAP = "  "
_SHORTEST_NAME = 8


def to_text(report: ComparisonReport) -> str:
    """Aligned columns; a variant that is no better than the copy baseline is named below them."""
    rows = [list(HEADER)]
    first = report.variants[0].outcomes
    bleus, chrfs = [outcome.bleu for outcome in first], [outcome.chrf for outcome in first]
    for variant in report.variants:
        bleu = estimate_cells([outcome.bleu for outcome in variant.outcomes], bleus)
        chrf, *_ = estimate_cells([outcome.chrf for outcome in variant.outcomes], chrfs)
        rows.append([variant.name, *bleu, chrf, f"{fmean(outcome.minutes for outcome in variant.outcomes):.1f}"])
    if report.copy is not None:
        bleu = estimate_cells([each.bleu for each in report.copy], bleus)
        chrf, *_ = estimate_cells([each.chrf for each in report.copy], chrfs)
        rows.append(["(copy)", *bleu, chrf, ""])
    figures = [max(map(len, column)) for column in list(zip(*rows, strict=True))[1:]]
    left = max(WIDTH - sum(figures) - len(_GAP) * len(figures), _SHORTEST_NAME)
    names = [_cut(row[0], left) for row in rows]
    widest = max(map(display_width, names))
    lines = []
    for name, row in zip(names, rows, strict=True):
        cells = [cell.rjust(width) for cell, width in zip(row[1:], figures, strict=True)]
        lines.append(_GAP.join([name + " " * (widest - display_width(name)), *cells]).rstrip())
    if beaten := below_copy(report):
        lines += ["", *textwrap.wrap(beaten, WIDTH, break_on_hyphens=False)]
    return "\n".join(lines)


def _cut(name: str, width: int) -> str:
    """The end of a longer name, in which paths differ."""
    if display_width(name) <= width:
        return name
    while display_width(name) > width - 1:
        name = name[1:]
    return f"…{name}"
