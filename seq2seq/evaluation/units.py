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
    text = "".join(folded)
    owned: list[list[int]] = []
    position, unknown = 0, 0
    for token in tokens:
        surface = _fold(token)
        found = -1 if token == SPECIALS[UNK] else text.find(surface, position + unknown)
        if found < 0:
            unknown += 1
            owned.append([])
            continue
        _divide(owned, unknown, owners[position:found])
        position, unknown = found + len(surface), 0
        owned.append(owners[found:position] or owners[found : found + 1])
    _divide(owned, unknown, owners[position:])
    shares = np.zeros((len(tokens), len(units)))
    for row, its in zip(shares, owned, strict=True):
        for unit in its:
            row[unit] += 1 / len(its)
    return shares


def _divide(owned: list[list[int]], unknown: int, characters: list[int]) -> None:
    """Share characters among the last tokens, which are unknown ones."""
    for back in range(unknown):
        start, end = (len(characters) * (unknown - back - 1) // unknown, len(characters) * (unknown - back) // unknown)
        owned[-1 - back] = characters[start:end]


def _fold(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", text.replace(BLANK, "")).split())


def _joined(words: Sequence[str]) -> str:
    text = ""
    for word in words:
        latin = (text[-1:] + word[:1]).isascii() and text[-1:].isalnum() and word[:1].isalnum()
        text += f" {word}" if latin else word
    return text
