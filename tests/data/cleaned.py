"""Cleaning as tests want it: all pairs at once, with their text."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from seq2seq.config.schema import Cleaning
from seq2seq.data.cleaning import CleaningReport
from seq2seq.data.cleaning import clean as clean_lines
from seq2seq.data.corpus import Pair
from seq2seq.data.pair_file import parse
from seq2seq.data.splitting import side_keys


class Cleaned(NamedTuple):
    """The pairs that stay, and where they stood."""

    pairs: list[Pair]
    rows: list[int]
    report: CleaningReport


def clean(pairs: Iterable[Pair], rules: Cleaning) -> Cleaned:
    lines: list[bytes] = []
    cleaned = clean_lines(pairs, rules, lambda piece: lines.extend(piece.splitlines()))
    kept = [parse(lines[number]) for number in cleaned.kept]
    assert np.array_equal(cleaned.keys, side_keys(kept))
    return Cleaned(kept, cleaned.rows.tolist(), cleaned.report)
