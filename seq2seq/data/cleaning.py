"""Mend and filter parallel text; every rule has its switch and its count."""

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seq2seq.config.schema import Cleaning
from seq2seq.data.corpus import Pair
from seq2seq.data.pair_file import format_pairs
from seq2seq.data.splitting import side_keys
from seq2seq.data.workers import Workers, in_pieces

# Added to both lengths before their ratio is taken, so that a few characters more or less do not condemn short pairs.
_RATIO_TOLERANCE = 5

# Control characters that are not blanks, soft hyphen, zero-width blanks and joins, directional marks, invisible
# operators, BOM and its mirror image, interlinear marks, language tag, surrogates.
_REMOVED = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0001\ud800-\udfff]"
)
_JOINERS = re.compile("([\u200c\u200d])[\u200c\u200d]+")
# Scripts whose letters change with ZWNJ and ZWJ: Arabic, Syriac, N'Ko and kin; the Indic ones; Tibetan, Myanmar;
# Khmer, Mongolian; further Brahmic ones; Arabic presentation forms; Brahmic and Adlam outside the BMP.
_SHAPED = (
    "\u0600-\u08ff\u0900-\u0dff\u0f00-\u109f\u1700-\u18af\u1900-\u1cff\ua800-\ua8ff\ua900-\uaaff\uabc0-\uabff"
    "\ufb50-\ufdff\ufe70-\ufefc\U00010a00-\U00010a5f\U00011000-\U00011fff\U0001e900-\U0001e95f"
)
_PICTURE = "\u00a9\u00ae\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2900-\u297f\u2b00-\u2bff\U0001f000-\U0001faff"
# A picture may carry a variation selector or end a tag sequence; skin tones are within its range.
_USELESS_JOINER = re.compile(
    f"(?<![{_SHAPED}{_PICTURE}\ufe0f\U000e007f])[\u200c\u200d]"
    f"|(?<=[{_PICTURE}\ufe0f\U000e007f])(?:\u200c|\u200d(?![{_PICTURE}]))"
    f"|(?<=[{_SHAPED}])\u200c(?![{_SHAPED}])"
)
# Tag characters count only in flags such as Scotland's: a black flag, tags, the closing tag.
_TAGS = re.compile("(\U0001f3f4[\U000e0020-\U000e007e]+\U000e007f)|[\U000e0020-\U000e007f]+")


def normalize(text: str) -> str:
    r"""NFC text in one line, without what cannot be seen; idempotent.

    Removed: control characters, BOMs, zero-width and directional characters, surrogates; ZWJ and ZWNJ where they join
    neither pictures nor letters of a script that is shaped by them (Arabic, Indic and kin). Every run of blanks,
    line ends of any kind (\r, U+0085, U+2028, U+2029) and tabs becomes one space; none is left at the ends.
    """
    # Removing a joiner may bring characters together that NFC then reorders, hence once more until nothing changes.
    while (mended := _mend(text)) != text:
        text = mended
    return text


_COLUMN_AND_LINE_ENDS = str.maketrans("\t\n\r", "   ")


def one_line(text: str) -> str:
    r"""The text as a column of a TSV file can hold it: \t, \n and \r become blanks, BOMs at the start go."""
    return text.translate(_COLUMN_AND_LINE_ENDS).lstrip("\ufeff")


def _mend(text: str) -> str:
    text = " ".join(_REMOVED.sub("", text).split())
    if not text.isascii():
        text = _TAGS.sub(r"\1", text)
        text = unicodedata.normalize("NFC", _JOINERS.sub(r"\1", text))
        text = unicodedata.normalize("NFC", _USELESS_JOINER.sub("", text))
    return text


@dataclass
class CleaningReport:
    """How many pairs each rule touched; a pair is counted by the first rule that drops it."""

    read: int = 0
    """Pairs that came in."""
    normalized: int = 0
    """Pairs whose text was mended."""
    empty: int = 0
    """Dropped: an empty side."""
    too_long: int = 0
    """Dropped: a side over max_characters."""
    duplicates: int = 0
    """Dropped: the pair stood before."""
    wild_ratio: int = 0
    """Dropped: lengths too far off the median ratio."""
    kept: int = 0
    """Pairs left."""

    def count(self, piece: "CleaningReport") -> None:
        """Add the counts of a further piece of the corpus."""
        for name, value in vars(piece).items():
            setattr(self, name, getattr(self, name) + value)

    def __str__(self) -> str:
        return (
            f"{self.read:,} pairs read, {self.normalized:,} mended; dropped {self.empty:,} with an empty side,"
            f" {self.too_long:,} too long, {self.duplicates:,} duplicates, {self.wild_ratio:,} of wild length ratio;"
            f" {self.kept:,} kept"
        )


class Cleaned(NamedTuple):
    """What cleaning leaves of a corpus, beside the text that was handed on."""

    kept: NDArray[np.int64]
    """(N) the pairs that stay, by their number among those handed on, from 0; rising."""
    rows: NDArray[np.int64]
    """(N) where each of them stood in the corpus, from 0."""
    keys: NDArray[np.uint64]
    """(N 2) their `side_keys`."""
    report: CleaningReport

    def take(self, rows: NDArray[np.int64]) -> "Cleaned":
        """Some of the pairs, in the given order."""
        return self._replace(kept=self.kept[rows], rows=self.rows[rows], keys=self.keys[rows])


def clean(
    pairs: Iterable[Pair], rules: Cleaning, hand_on: Callable[[bytes], object], workers: Workers | None = None
) -> Cleaned:
    """Apply the rules: normalise, empty, too long, duplicates, wild length ratio; the pairs stay in order.

    Lengths are in characters. The ratio is (target + 5) / (source + 5); a pair is dropped where its ratio and the
    median ratio of what the other rules left differ by more than the factor `max_ratio`, either way. Pairs with an
    empty side, kept where `drop_empty` is off, have no ratio. Text that is not normalised is still put on `one_line`.

    No text is held: what is neither empty nor too long is handed on, as lines source<TAB>target in UTF-8, and
    duplicates are found by digests of 128 bits. That two different ones among N pairs have the same one, and the
    later is lost, has a chance below N^2 / 2^129: 1e-26 for 2.5 million.

    Args:
        workers: do the work on all cores; None: here.
    """
    report = CleaningReport()
    shapes = (("int64", ()), ("int32", (2,)), ("uint64", (2,)), ("uint64", (2,)))
    columns: list[list[NDArray[Any]]] = [[np.zeros((0, *shape), dtype=kind)] for kind, shape in shapes]
    screen, pieces = partial(_screen, rules=rules), in_pieces(pairs)
    for found in map(screen, pieces) if workers is None else workers.map(screen, pieces):
        hand_on(found.lines)
        arrays: list[NDArray[Any]] = [found.rows + report.read, found.lengths, found.digests, found.keys]
        for column, array in zip(columns, arrays, strict=True):
            column.append(array)
        report.count(found.report)
    rows, lengths, digests, keys = (np.concatenate(column) for column in columns)
    kept = np.arange(len(rows))
    if rules.drop_duplicates:
        kept = np.flatnonzero(_are_first(digests))
        report.duplicates = len(rows) - len(kept)
    if rules.max_ratio is not None:
        tame = _are_tame(lengths[kept], rules.max_ratio)
        report.wild_ratio = len(tame) - int(tame.sum())
        kept = kept[tame]
    report.kept = len(kept)
    return Cleaned(kept, rows[kept], keys[kept], report)


class _Screened(NamedTuple):
    """What the rules that look at one pair alone leave of a piece of a corpus."""

    lines: bytes
    rows: NDArray[np.int64]
    """(N) from 0 in the piece."""
    lengths: NDArray[np.int32]
    """(N 2) characters of both sides."""
    digests: NDArray[np.uint64]
    """(N 2) halves of the digest of the pair."""
    keys: NDArray[np.uint64]
    """(N 2)"""
    report: CleaningReport


def _screen(raw: Sequence[Pair], rules: Cleaning) -> _Screened:
    report = CleaningReport(read=len(raw))
    mend = normalize if rules.normalize else one_line
    kept, rows = list[Pair](), list[int]()
    for row, before in enumerate(raw):
        pair = Pair(mend(before.source), mend(before.target))
        report.normalized += rules.normalize and pair != before
        if rules.drop_empty and not (pair.source.strip() and pair.target.strip()):
            report.empty += 1
        elif rules.max_characters is not None and max(map(len, pair)) > rules.max_characters:
            report.too_long += 1
        else:
            kept.append(pair)
            rows.append(row)
    lines = [format_pairs([pair]) for pair in kept]
    digests = b"".join(hashlib.blake2b(line, digest_size=16).digest() for line in lines)
    return _Screened(
        lines=b"".join(lines),
        rows=np.array(rows, dtype=np.int64),
        lengths=np.array([[*map(len, pair)] for pair in kept], dtype=np.int32).reshape(-1, 2),
        digests=np.frombuffer(digests, dtype=np.uint64).reshape(-1, 2),
        keys=side_keys(kept),
        report=report,
    )


def _are_first(digests: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """For each digest, whether it stands for the first time."""
    order = np.lexsort(digests.T)
    repeated = (digests[order[1:]] == digests[order[:-1]]).all(axis=1)
    first = np.ones(len(digests), dtype=np.bool_)
    first[order[1:][repeated]] = False
    return first


def _are_tame(lengths: NDArray[np.int32], max_ratio: float) -> NDArray[np.bool_]:
    """For each pair, whether its lengths are in proportion."""
    known = lengths.all(axis=1)
    source, target = lengths.T + _RATIO_TOLERANCE
    ratios = target / source
    median = np.median(ratios[known]) if known.any() else 0.0
    return ~known | ((median / max_ratio <= ratios) & (ratios <= median * max_ratio))
