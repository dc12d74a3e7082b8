"""Line charts: dev BLEU over the time of training, BLEU by sentence length."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from seq2seq.plotting.style import line_chart, save, strokes


def draw_learning_curves(path: Path, curves: Mapping[str, Sequence[Sequence[tuple[float, float]]]]) -> None:
    """Dev BLEU over minutes of training.

    Args:
        path: .png or .svg.
        curves: variant -> for each of its trainings, (minutes, BLEU) of each validation; drawn alike, named once.

    Raises:
        UserError: the file cannot be written.
    """
    figure, axes = line_chart("BLEU on dev while training", "minutes of training", "BLEU on dev")
    for stroke, (name, trainings) in zip(strokes(len(curves)), curves.items(), strict=True):
        for index, points in enumerate(trainings):
            minutes, bleu = zip(*points, strict=True)
            label = "_" if index else _label(name)
            axes.plot(
                minutes, bleu, label=label, linewidth=1, marker="." if len(points) == 1 else None, **stroke._asdict()
            )
    save(figure, path)


def draw_bleu_by_length(path: Path, buckets: Sequence[str], bleu: Mapping[str, Sequence[float | None]]) -> None:
    """BLEU for each bucket of source lengths.

    Args:
        path: .png or .svg.
        buckets: source lengths of each bucket, such as 5-8, in characters, short to long.
        bleu: variant -> BLEU in each bucket; None leaves a gap.

    Raises:
        UserError: the file cannot be written.
    """
    figure, axes = line_chart("BLEU by length of the source", "characters of the source", "BLEU on test")
    for stroke, (name, values) in zip(strokes(len(bleu)), bleu.items(), strict=True):
        heights = [math.nan if value is None else value for value in values]
        axes.plot(range(len(buckets)), heights, label=_label(name), marker="o", markersize=4, **stroke._asdict())
    axes.set_xticks(range(len(buckets)), buckets)
    save(figure, path)


def _label(name: str) -> str:
    # matplotlib leaves a label that starts with _ out of the legend, and reads what stands between $ as a formula.
    return f" {name}".replace("$", r"\$")
