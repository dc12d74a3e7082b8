"""Where each pair of a store came from: which corpus, and which line of it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seq2seq.data.corpus import Label
from seq2seq.data.files import write_text
from seq2seq.data.mapped import map_array, write_array

MOST_NUMBERS = 10
"""Line numbers in a description."""


class Origins:
    """The lines that a store was made of.

    Args:
        corpora: how the corpora are named.
        places: (N 2) int64, for each pair the index of its corpus and its number there, from 1.
    """

    def __init__(self, corpora: Sequence[Label], places: NDArray[np.int64]) -> None:
        self.corpora, self.places = list(corpora), places

    def __len__(self) -> int:
        return len(self.places)

    @classmethod
    def of(cls, sizes: Sequence[tuple[Label, int]], rows: ArrayLike | None = None) -> Self:
        """Lines of corpora of these sizes, one after the other: those of the given rows, from 0, or all."""
        labels, counts = [label for label, _ in sizes], np.array([size for _, size in sizes], dtype=np.int64)
        ends = np.cumsum(counts)
        chosen = np.arange(counts.sum()) if rows is None else np.asarray(rows, dtype=np.int64)
        indices = np.searchsorted(ends, chosen, side="right")
        return cls(labels, np.stack([indices, chosen - (ends - counts)[indices] + 1], axis=1))

    def take(self, rows: ArrayLike) -> Self:
        """Those of the given rows, in that order."""
        return type(self)(self.corpora, self.places[np.asarray(rows, dtype=np.int64)])

    def describe(self, rows: ArrayLike) -> str:
        """One line for people: "mine.tsv, lines 12, 77 and 20 more; hsk, entry 5", by corpus and number.

        It holds at most `MOST_NUMBERS` numbers, at least one of each corpus unless there are more corpora than that.
        """
        places = np.unique(self.take(rows).places, axis=0)
        indices = np.unique(places[:, 0])
        shown, room = [], MOST_NUMBERS
        for corpora_left, index in zip(range(len(indices), 0, -1), indices[:MOST_NUMBERS], strict=False):
            numbers = places[places[:, 0] == index, 1].tolist()
            count = min(len(numbers), max(1, room - corpora_left + 1))
            room -= count
            shown.append(_lines(self.corpora[index], numbers[:count], len(numbers) - count))
        hidden = indices[MOST_NUMBERS:]
        if len(hidden):
            shown.append(f"{np.isin(places[:, 0], hidden).sum()} more in {len(hidden)} other corpora")
        return "; ".join(shown)

    def write(self, directory: Path, name: str) -> None:
        """Write them so that `open` finds them."""
        write_array(directory / f"{name}.origins.npy", self.places)
        write_text(directory / f"{name}.origins.json", json.dumps(self.corpora, ensure_ascii=False) + "\n")

    @classmethod
    def open(cls, directory: Path, name: str) -> Self:
        """Those on disk, mapped and not read."""
        corpora = json.loads((directory / f"{name}.origins.json").read_text(encoding="utf-8"))
        return cls([Label(*each) for each in corpora], map_array(directory / f"{name}.origins.npy"))


def _lines(label: Label, numbers: list[int], more: int) -> str:
    one, several = ("entry", "entries") if label.is_named else ("line", "lines")
    rest = f" and {more} more" if more else ""
    return f"{label.name}, {one if len(numbers) + more == 1 else several} {', '.join(map(str, numbers))}{rest}"
