"""The plots of docs/attention.md, drawn from the numbers of seq2seq/lesson.py: SVG, text as paths."""

import argparse
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from seq2seq.data.files import write_text
from seq2seq.errors import UserError
from seq2seq.lesson import FORMULAS, example, scores_of
from seq2seq.plotting.style import svg

# The source words in pinyin: no font with Chinese characters is needed.
WORDS = ("tā", "zài", "Běijīng", "gōngzuò", ".")
SIZES = (8, 64, 512)
# The same file from the same numbers: no date, no random ids.
STYLE: dict[Any, Any] = {"svg.fonttype": "path", "svg.hashsalt": "seq2seq", "font.size": 9, "axes.titlesize": 9}


def _heatmap(axes: Axes, weights: Tensor, queries: tuple[str, ...]) -> None:
    axes.imshow(weights.numpy(), cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(WORDS)), WORDS)
    axes.set_yticks(range(len(queries)), queries)
    for row, numbers in enumerate(weights.tolist()):
        for column, number in enumerate(numbers):
            if number > 0:
                colour = "white" if number > 0.6 else "black"
                axes.text(column, row, f"{number:.2f}", ha="center", va="center", color=colour)


def weights_of_the_example() -> Figure:
    """The weights of each formula for both queries of the worked example, on its first sentence."""
    queries, keys = example()
    figure = Figure(figsize=(10.5, 1.8), layout="constrained")
    for axes, (name, formula) in zip(figure.subplots(1, len(FORMULAS), sharey=True), FORMULAS.items(), strict=True):
        scores = torch.cat([scores_of()[name](query.unsqueeze(0), keys[:1])[0] for query in queries])
        _heatmap(axes, scores.softmax(dim=-1), ("a place", "a person"))
        axes.set_title(formula)
    return figure


def scaling() -> Figure:
    """softmax of five typical scores, without and with the division by sqrt(d_k)."""
    typical = torch.tensor([-1.0, -0.5, 0.0, 0.5, 1.0])
    figure = Figure(figsize=(7, 2.2), layout="constrained")
    for axes, divided in zip(figure.subplots(1, 2, sharey=True), (False, True), strict=True):
        for place, d in enumerate(SIZES):
            weights = (typical * (1 if divided else d**0.5)).softmax(dim=-1)
            axes.bar(torch.arange(1, 6).numpy() + 0.27 * (place - 1), weights.numpy(), width=0.25, label=f"d_k = {d}")
        axes.set_title("softmax(Q K^T / sqrt(d_k))" if divided else "softmax(Q K^T)")
        axes.set_xlabel("key")
        axes.legend(frameon=False, loc="upper left")
    return figure


def causal() -> Figure:
    """Causal self-attention over the first sentence: row t sees columns 1 to t."""
    sentence = example()[1][:1]
    hidden = torch.ones(5, 5, dtype=torch.bool).triu(diagonal=1)
    weights = scores_of()["scaled_dot"](sentence, sentence)[0].masked_fill(hidden, -torch.inf).softmax(dim=-1)
    figure = Figure(figsize=(4.4, 2.5), layout="constrained")
    axes = figure.subplots()
    _heatmap(axes, weights, WORDS)
    axes.set_xlabel("key")
    axes.set_ylabel("query")
    return figure


PLOTS = {"weights": weights_of_the_example, "scaling": scaling, "causal": causal}


def main() -> int:
    """The command; gives the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = Path(__file__).resolve().parent.parent / "docs" / "attention"
    parser.add_argument("folder", nargs="?", type=Path, default=default, help="write here; default: docs/attention")
    folder: Path = parser.parse_args().folder
    try:
        for name, plot in PLOTS.items():
            with mpl.rc_context(STYLE):
                write_text(folder / f"{name}.svg", svg(plot()))
    except UserError as error:
        print(f"plot_lesson: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
