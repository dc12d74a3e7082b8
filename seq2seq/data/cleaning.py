"""Mend and filter parallel text; every rule has its switch and its count."""

import re
import statistics
import unicodedata
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import compress
from typing import NamedTuple

from seq2seq.config.schema import Cleaning
from seq2seq.data.corpus import Pair

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

    def __str__(self) -> str:
        return (
            f"{self.read:,} pairs read, {self.normalized:,} mended; dropped {self.empty:,} with an empty side,"
            f" {self.too_long:,} too long, {self.duplicates:,} duplicates, {self.wild_ratio:,} of wild length ratio;"
            f" {self.kept:,} kept"
        )


class Cleaned(NamedTuple):
    """What cleaning leaves."""

    pairs: list[Pair]
    rows: "array[int]"
    """Where each pair stood among those that came in, from 0."""
    report: CleaningReport


def clean(pairs: Iterable[Pair], rules: Cleaning) -> Cleaned:
    """Apply the rules: normalise, empty, too long, duplicates, wild length ratio; the pairs stay in order.

    Lengths are in characters. The ratio is (target + 5) / (source + 5); a pair is dropped where its ratio and the
    median ratio of what the other rules left differ by more than the factor `max_ratio`, either way. Pairs with an
    empty side, kept where `drop_empty` is off, have no ratio. Text that is not normalised is still put on `one_line`.
    """
    report = CleaningReport()
    mend = normalize if rules.normalize else one_line
    kept: list[Pair] = []
    rows = array("q")
    seen: set[Pair] = set()
    for raw in pairs:
        report.read += 1
        pair = Pair(mend(raw.source), mend(raw.target))
        report.normalized += rules.normalize and pair != raw
        if rules.drop_empty and not (pair.source.strip() and pair.target.strip()):
            report.empty += 1
        elif rules.max_characters is not None and max(map(len, pair)) > rules.max_characters:
            report.too_long += 1
        elif rules.drop_duplicates and pair in seen:
            report.duplicates += 1
        else:
            if rules.drop_duplicates:
                seen.add(pair)
            kept.append(pair)
            rows.append(report.read - 1)
    if rules.max_ratio is not None:
        tame = _tame(kept, rules.max_ratio)
        report.wild_ratio = len(tame) - sum(tame)
        kept, rows = list(compress(kept, tame)), array("q", compress(rows, tame))
    report.kept = len(kept)
    return Cleaned(kept, rows, report)


def _tame(pairs: list[Pair], max_ratio: float) -> list[bool]:
    """For each pair, whether its lengths are in proportion."""
    ratios = [_ratio(pair) for pair in pairs]
    known = [ratio for ratio in ratios if ratio is not None]
    median = statistics.median(known) if known else 0.0
    return [ratio is None or median / max_ratio <= ratio <= median * max_ratio for ratio in ratios]


def _ratio(pair: Pair) -> float | None:
    if not (pair.source and pair.target):
        return None
    return (len(pair.target) + _RATIO_TOLERANCE) / (len(pair.source) + _RATIO_TOLERANCE)
