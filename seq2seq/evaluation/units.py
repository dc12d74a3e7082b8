"""From a model's tokens to the units that people align: words between blanks, or characters."""

import unicodedata
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seq2seq.data.cleaning import normalize
from seq2seq.data.languages import writes_blanks
from seq2seq.data.tokenizer.protocol import BLANK, SPECIALS, UNK
from seq2seq.inference.translator import Translation

Link = tuple[int, int]
"""Source unit, target unit; both from 0."""
UnitKind = Literal["words", "characters"]


class Side(NamedTuple):
    """One side of a parallel text."""

    kind: UnitKind
    units: list[list[str]]
    """Of each sentence."""
    texts: list[str]
    """Each sentence as the model is to read it."""


def split_side(texts: Sequence[str], language: str) -> Side:
    """Words as separated by blanks; characters where a language writes no blanks and most texts have none.

    Blanks that were put between the words of such a language are not for the model, which never saw any: its texts
    come without them, but for those between two Latin words or numbers.
    """
    kept = list(texts)
    if writes_blanks(language):
        return Side("words", [text.split() for text in kept], kept)
    split = [text.split() for text in kept]
    if 2 * sum(len(words) > 1 for words in split) < sum(len(words) > 0 for words in split):
        return Side("characters", [list("".join(words)) for words in split], kept)
    return Side("words", split, [_joined(words) for words in split])


def unit_links(translation: Translation, source: Sequence[str], target: Sequence[str]) -> set[Link]:
    """Link each target unit to the source unit on which most of its tokens' attention lies; </s> is left out.

    Args:
        translation: with its attention, ended by </s>.
        source, target: the units of both texts.
    """
    weights = np.array(translation.attention)[:-1, :-1]
    of_source = token_shares(translation.source_tokens[:-1], source)
    of_target = token_shares(translation.target_tokens[:-1], target)
    masses = of_target.T @ weights @ of_source
    return {(int(mass.argmax()), unit) for unit, mass in enumerate(masses) if mass.any()}


def token_shares(tokens: Sequence[str], units: Sequence[str]) -> NDArray[np.float64]:
    """Which share of each token's characters belongs to each unit: (tokens, units).

    Both are read from left to right, compatibility forms as one (NFKC). A token that is only a blank belongs to the
    unit after it. <unk> stands for the characters up to the next token that is known; several in a row share them.
    """
    folded = [_fold(normalize(unit)) for unit in units]
    owners = [number for number, unit in enumerate(folded) for _ in unit]
    shares = np.zeros((len(tokens), len(units)))
    for row, (start, end) in zip(shares, _spans(tokens, "".join(folded)), strict=True):
        for unit in owners[start:end]:
            row[unit] += 1 / len(owners[start:end])
    return shares


def _spans(tokens: Sequence[str], text: str) -> list[tuple[int, int]]:
    """Start and end of each token in a text without blanks."""
    spans: list[tuple[int, int]] = []
    position = unknown = 0
    for token in tokens:
        surface = _fold(token)
        start = -1 if token == SPECIALS[UNK] else text.find(surface, position + unknown)
        if start < 0:
            unknown += 1
            continue
        spans += _divide(position, start, unknown)
        position, unknown = start + len(surface), 0
        # A blank counts as the character after it.
        spans.append((start, max(position, start + 1)))
    return [*spans, *_divide(position, len(text), unknown)]


def _divide(start: int, end: int, parts: int) -> list[tuple[int, int]]:
    """A stretch of text in parts of whole characters, as equal as can be."""
    size = end - start
    return [(start + size * part // parts, start + size * (part + 1) // parts) for part in range(parts)]


def _fold(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", text.replace(BLANK, "")).split())


def _joined(words: Sequence[str]) -> str:
    text = ""
    for word in words:
        latin = (text[-1:] + word[:1]).isascii() and text[-1:].isalnum() and word[:1].isalnum()
        text += f" {word}" if latin else word
    return text
