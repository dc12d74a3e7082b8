"""Attention weights as a heatmap in a file: PNG, SVG or HTML, by its suffix."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from seq2seq.data.files import atomic_write, check_writable, write_text
from seq2seq.errors import UserError
from seq2seq.plotting.fonts import drawable, families_for, without_font_warnings
from seq2seq.plotting.html import attention_page
from seq2seq.plotting.labels import display_width, labels

SUFFIXES = (".png", ".svg", ".html")

# In inches; a long sentence has smaller cells, so that a picture stays below 6,000 dots.
_CELL, _LONGEST = 0.35, 40.0
_DPI = 150
_FONT_SIZE = 10.0
# Columns of a label that still fits above its cell without being turned.
_LEVEL_LABEL = 4
# Characters of a title in an inch: as many Chinese ones as fit.
_TITLE = 7
# A smaller weight has no visible colour; a file without its square is smaller.
_SEEN = 0.01
_GREY = "#b0b0b0"
_SETTINGS: dict[Any, Any] = {
    # Outlines, so that a picture shows right where its fonts are not installed.
    "svg.fonttype": "path",
    # The same picture gives the same bytes.
    "svg.hashsalt": "seq2seq",
    "text.usetex": False,
}


def check_picture_path(path: Path) -> None:
    """See to it that a picture can be written there, before anything costly is done for it.

    Raises:
        UserError: another suffix than those of SUFFIXES, a folder, or a place where nothing can be written.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise UserError(f"{path}: a picture of attention ends in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
    check_writable(path)


def draw_attention(
    path: Path,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    weights: Sequence[Sequence[float]],
    title: str = "",
) -> None:
    """Write a heatmap of attention weights, atomically: rows are target tokens, columns source tokens.

    Args:
        path: ends in .png, .svg or .html.
        source_tokens, target_tokens: as a tokenizer shows them, at least one each.
        weights: one row for each target token, one weight from 0 to 1 for each source token.
        title: what stands above it.

    Raises:
        UserError: see `check_picture_path`; or, but for .html, no font of this machine has some character.
        ValueError: the weights do not fit the tokens.
    """
    check_picture_path(path)
    if len(weights) != len(target_tokens) or {len(row) for row in weights} != {len(source_tokens)}:
        raise ValueError(f"weights do not fit {len(target_tokens)} target and {len(source_tokens)} source tokens")
    if path.suffix.lower() == ".html":
        write_text(path, attention_page(source_tokens, target_tokens, weights, title))
        return
    with atomic_write(path) as file:
        _draw(file, path.suffix[1:].lower(), source_tokens, target_tokens, weights, title)


def _draw(
    file: IO[bytes],
    kind: str,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    weights: Sequence[Sequence[float]],
    title: str,
) -> None:
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.collections import PolyCollection
    from matplotlib.figure import Figure

    sources, targets = ([drawable(label) for label in labels(tokens)] for tokens in (source_tokens, target_tokens))
    title = drawable(title)
    cell = min(_CELL, _LONGEST / max(len(sources), len(targets)))
    width, height = cell * len(sources), cell * len(targets)
    size = _FONT_SIZE * cell / _CELL
    turned = max(map(display_width, sources)) > _LEVEL_LABEL
    with without_font_warnings(), matplotlib.rc_context(_SETTINGS):
        families = families_for("".join([*sources, *targets, title, "01"]))
        # With parse_math a token with two dollars would be read as a formula.
        text: dict[str, Any] = {"fontfamily": families, "fontsize": size, "parse_math": False}
        figure = Figure(figsize=(width, height), dpi=_DPI)
        FigureCanvasAgg(figure)
        # The axes fill the figure; what stands around them is added when it is saved with a tight bounding box.
        axes = figure.add_axes((0, 0, 1, 1))
        seen = [(x, y, weight) for y, row in enumerate(weights) for x, weight in enumerate(row) if weight >= _SEEN]
        squares = [((x, y), (x + 1, y), (x + 1, y + 1), (x, y + 1)) for x, y, _ in seen]
        cells = PolyCollection(squares, array=[weight for *_, weight in seen], cmap="Blues", clim=(0, 1), linewidth=0)
        axes.add_collection(cells, autolim=False)
        axes.set(xlim=(0, len(sources)), ylim=(len(targets), 0), facecolor=cells.cmap(0.0))
        axes.hlines(range(1, len(targets)), 0, len(sources), colors=_GREY, linewidth=0.4)
        axes.vlines(range(1, len(sources)), 0, len(targets), colors=_GREY, linewidth=0.4)
        axes.xaxis.tick_top()
        slant: dict[str, Any] = {"rotation": 45, "rotation_mode": "anchor", "ha": "left"} if turned else {}
        axes.set_xticks([column + 0.5 for column in range(len(sources))], sources, **text, **slant)
        axes.set_yticks([row + 0.5 for row in range(len(targets))], targets, **text)
        axes.tick_params(length=0)
        if title:
            axes.set_title(textwrap.fill(title, max(20, int(width * _TITLE))), **text, loc="left", pad=8)
        scale = figure.add_axes((1 + 0.15 / width, 0, 0.1 / width, 1))
        bar = figure.colorbar(cells, cax=scale)
        bar.set_ticks([0, 1], labels=["0", "1"], **text)
        bar.ax.tick_params(length=0)
        for part in (axes.spines, bar.outline.axes.spines):
            part[:].set_color(_GREY)
        metadata = {"Date": None, "Title": title} if kind == "svg" else {"Title": title}
        figure.savefig(file, format=kind, bbox_inches="tight", pad_inches=0.1, metadata=metadata)
