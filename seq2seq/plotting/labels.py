"""Tokens as a reader wants to see them, and how wide they are on a terminal."""

import unicodedata
from collections.abc import Sequence

from seq2seq.data.tokenizer.protocol import BLANK

OPEN_BOX = "\N{OPEN BOX}"


def labels(tokens: Sequence[str]) -> list[str]:
    """What to write for each token of a sentence.

    The mark of a blank goes where it only begins a word; a token that is nothing but a blank becomes an open box. Where
    words begin with that mark, a piece that goes on with a word has a hyphen before it: ▁Be, ijing are Be, -ijing.
    Control characters become U+FFFD.
    """
    marked = bool(tokens) and tokens[0].startswith(BLANK)
    shown, last = [], ""
    for token in tokens:
        text = "".join(map(_visible, token.removeprefix(BLANK))).replace(BLANK, OPEN_BOX) or OPEN_BOX
        goes_on = marked and token[:1].isalnum() and last[-1:].isalnum()
        shown.append(f"-{text}" if goes_on else text)
        last = token
    return shown


def display_width(text: str) -> int:
    """Columns of a terminal: 2 for wide and full-width characters (UAX #11), 0 for combining and format characters."""
    return sum(map(_character_width, text))


def _character_width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def _visible(character: str) -> str:
    return "\N{REPLACEMENT CHARACTER}" if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") else character
