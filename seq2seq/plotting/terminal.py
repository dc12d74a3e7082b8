"""Attention weights as lines of text: shades that can be read without colour."""

import os
import sys
from collections.abc import Sequence
from typing import TextIO

from seq2seq.plotting.labels import display_width, labels

SHADES = " ░▒▓█"
"""Shade n stands for weights around n quarters."""
CELL = 2
"""Columns of a cell: as wide as a Chinese character, so that one fits above it."""
_RESET = "\x1b[0m"
# Light to dark blue of the 256 colours, for weights from 0 to 1; readable on black and on white.
_COLOURS = (110, 74, 68, 33, 27)


def attention_lines(
    source_tokens: Sequence[str], target_tokens: Sequence[str], weights: Sequence[Sequence[float]], colour: bool = False
) -> list[str]:
    """A heatmap: rows are target tokens, columns source tokens, whose names stand above, written downwards.

    At the end of a row stands the source token with most weight, and that weight.

    Args:
        source_tokens, target_tokens: as a tokenizer shows them.
        weights: one row for each target token, one weight from 0 to 1 for each source token.
        colour: tint the shades with ANSI escapes; they say nothing that the shades do not.

    Raises:
        ValueError: the weights do not fit the tokens.
    """
    sources, names = labels(source_tokens), labels(target_tokens)
    columns = [_characters(label) for label in sources]
    margin = max(map(display_width, names), default=0)
    height = max(map(len, columns), default=0)
    header = [[""] * (height - len(column)) + column for column in columns]
    lines = [" " * (margin + 1) + "".join(map(_padded, characters)) for characters in zip(*header, strict=True)]
    for name, row in zip(names, weights, strict=True):
        weight, source = max(zip(row, sources, strict=True), key=lambda each: each[0])
        cells = "".join(_cell(each, colour) for each in row)
        lines.append(" " * (margin - display_width(name)) + f"{name} {cells} {source} {weight:.2f}")
    return [line.rstrip(" ") for line in lines]


def takes_colour(stream: TextIO) -> bool:
    """Whether a stream is a terminal that shows ANSI colours, and NO_COLOR (https://no-color.org) is not set."""
    shows = os.environ.get("TERM") != "dumb" and (sys.platform != "win32" or "WT_SESSION" in os.environ)
    return stream.isatty() and shows and not os.environ.get("NO_COLOR")


def _characters(text: str) -> list[str]:
    """The characters of a text, each with what combines with it."""
    found: list[str] = []
    for character in text:
        if found and not display_width(character):
            found[-1] += character
        else:
            found.append(character)
    return found


def _padded(character: str) -> str:
    return character + " " * (CELL - display_width(character))


def _cell(weight: float, colour: bool) -> str:
    level = min(max(round(weight * (len(SHADES) - 1)), 0), len(SHADES) - 1)
    cell = SHADES[level] * CELL
    return f"\x1b[38;5;{_COLOURS[level]}m{cell}{_RESET}" if colour and level else cell
