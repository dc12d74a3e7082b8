"""What all line charts share: one size, a colour and a dash for each line, small files that come out the same again."""

import io
from itertools import islice, product
from pathlib import Path
from typing import IO, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from seq2seq.data.files import atomic_write
from seq2seq.errors import UserError
from seq2seq.plotting.fonts import families_for, without_font_warnings

_COLOURS = 128


class Stroke(NamedTuple):
    """How a line is drawn."""

    color: str
    linestyle: str


def strokes(count: int) -> list[Stroke]:
    """As many strokes, told apart by colour first and by dash then; they begin anew after forty."""
    distinct = [Stroke(color, dash) for dash, color in product(("-", "--", ":", "-."), (f"C{n}" for n in range(10)))]
    return list(islice(distinct * (count // len(distinct) + 1), count))


def line_chart(title: str, x_label: str, y_label: str) -> tuple[Figure, Axes]:
    """An empty chart."""
    figure = Figure(figsize=(8, 4.5), dpi=100, layout="constrained")
    axes = figure.subplots()
    axes.set(title=title, xlabel=x_label, ylabel=y_label)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def save(figure: Figure, path: Path) -> None:
    """Write the figure, with a legend at its right, as .png or .svg by the suffix of the path.

    Raises:
        UserError: the file cannot be written.
    """
    font = {"family": _families(figure), "size": "small"}
    figure.legend(loc="outside right upper", frameon=False, prop=font)
    with atomic_write(path) as file, without_font_warnings():
        if path.suffix == ".png":
            _save_png(figure, file)
        else:
            # Text stays text, and neither ids nor a date differ from one time to the next.
            with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "seq2seq"}):
                file.write(svg(figure).encode())


def svg(figure: Figure) -> str:
    """The figure as SVG, without a date and without the blanks that matplotlib leaves at the ends of lines."""
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata={"Date": None})
    return "".join(f"{line.rstrip()}\n" for line in written.getvalue().splitlines())


def _families(figure: Figure) -> list[str]:
    """Fonts that have the characters of the legend: a variant may be named in any script."""
    names = "".join(name for axes in figure.axes for name in axes.get_legend_handles_labels()[1])
    try:
        return families_for(names)
    except UserError:  # a box for what no font here has
        return ["sans-serif"]


def _save_png(figure: Figure, file: IO[bytes]) -> None:
    """With a palette: a third of the size."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[:, :, :3]
    Image.fromarray(pixels).quantize(_COLOURS).save(file, format="png", optimize=True)
