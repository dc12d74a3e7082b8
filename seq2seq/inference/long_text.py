"""Text that is too long for one search: cut into pieces where sentences end, and the attention of the pieces joined."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import overload

from seq2seq.data.tokenizer import TextTokenizer

# Quotation marks and brackets that close the sentence before them.
_CLOSERS = "”’\"'»›)\\]}）】》」』〉〕］｝＂＇"
_CJK = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
_END = re.compile(f"([。！？；｡؟۔।॥!?;.…]+)[{_CLOSERS}]*")
# These end a sentence whatever follows; the other marks also stand within numbers, addresses and abbreviations.
_CERTAIN = frozenset("。！？；｡؟۔।॥")
# Before a full stop: titles, e.g., U.S., initials (but I is a word); before a semicolon: an HTML entity.
_ABBREVIATION = re.compile(
    r"(?<![^\W\d_])(?:(?:Mr|Mrs|Ms|Dr|Prof|St|Mt|Gen|Gov|Sen|Rep|Capt|Col|Lt|Sgt|Rev|Hon|vs|cf|Fig|approx)"
    r"|(?:[A-Za-z]\.)+[A-Za-z]|(?!I)[A-Za-z])$"
)
_NUMBERED = re.compile(r"(?<![^\W\d_])(?:No|Nos|Vol|pp?)$")
_ENTITY = re.compile(r"&(?:[A-Za-z]+|#\w+)$")
# The longest of what stands before a mark and is looked at.
_BEFORE = 20
_NEXT = re.compile(f"[ {_CJK}]")
# Where a sentence that is too long is cut: after clauses, else after blanks.
_CUTS = (re.compile(f"[，、：—–]+|[,:]+(?=[ {_CJK}])"), re.compile(" "))


def sentences(text: str) -> list[str]:
    """The sentences of a text, each with the marks, quotation marks and brackets that close it.

    Ends are 。！？；… and their like, and . ! ? ; … before a blank or a Chinese character; not within 3.14 or e.g., not
    after Mr. and, but for the semicolon, not where the text goes on in lower case ("etc. and", "Go!" he said).

    Args:
        text: normalised, so that every blank is one space.
    """
    return [sentence for part in _split_after(_sentence_ends(text), text) if (sentence := part.strip())]


def cut(text: str, ids: list[int], tokenizer: TextTokenizer, limit: int) -> list[list[int]]:
    """Ids of a text in pieces of at most `limit` tokens; no piece is empty.

    A text within the limit is one piece. Of a longer one each sentence is a piece, since a model learns from single
    sentences. A longer sentence is cut at commas and their like, what is still too long at blanks, each into as few
    pieces as fit, and a word that is too long anywhere.

    Args:
        text: normalised.
        ids: what `tokenizer` makes of it.
        tokenizer: of the source side.
        limit: tokens in a piece at most, without </s>.
    """
    if len(ids) <= limit:
        return [ids] if ids else []
    parts = sentences(text)
    if len(parts) == 1:
        return _fitted(text, ids, tokenizer, limit, _CUTS)
    return [
        piece
        for part, part_ids in zip(parts, tokenizer.encode_batch(parts), strict=True)
        for piece in _fitted(part, part_ids, tokenizer, limit, _CUTS)
    ]


class BlockDiagonal(Sequence[Sequence[float]]):
    """The weights of several pieces as one matrix, zero outside of their blocks; each row is made when asked for.

    Args:
        blocks: rows of each piece, all of them of one length.
        widths: columns of each piece.
    """

    def __init__(self, blocks: Sequence[Sequence[Sequence[float]]], widths: Sequence[int]) -> None:
        self._width = sum(widths)
        ends = accumulate(widths)
        self._rows = [
            (end - width, row) for end, width, block in zip(ends, widths, blocks, strict=True) for row in block
        ]

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Sequence[float]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Sequence[float]]: ...
    def __getitem__(self, index: int | slice) -> Sequence[float] | Sequence[Sequence[float]]:
        if isinstance(index, slice):
            return [self[row] for row in range(len(self))[index]]
        start, row = self._rows[index]
        return [0.0] * start + list(row) + [0.0] * (self._width - start - len(row))


def _sentence_ends(text: str) -> Iterator[int]:
    for match in _END.finditer(text):
        before = text[max(0, match.start() - _BEFORE) : match.start()]
        if _ends_sentence(match[1], before, text[match.end() : match.end() + 2]):
            yield match.end()


def _ends_sentence(marks: str, before: str, after: str) -> bool:
    if not _CERTAIN.isdisjoint(marks):
        return True
    if after and not _NEXT.match(after):
        return False
    following = after[1:]
    if marks == ";":
        return not _ENTITY.search(before)
    if marks == "." and (_ABBREVIATION.search(before) or (following.isdigit() and _NUMBERED.search(before))):
        return False
    return not following.islower()


def _split_after(ends: Iterable[int], text: str) -> list[str]:
    return [text[start:end] for start, end in pairwise(sorted({0, *ends, len(text)}))]


def _fitted(
    text: str, ids: list[int], tokenizer: TextTokenizer, limit: int, marks: tuple[re.Pattern[str], ...]
) -> list[list[int]]:
    if len(ids) <= limit:
        return [ids] if ids else []
    if not marks:
        return [ids[start : start + limit] for start in range(0, len(ids), limit)]
    parts = _split_after((match.end() for match in marks[0].finditer(text)), text)
    if len(parts) == 1:
        return _fitted(text, ids, tokenizer, limit, marks[1:])
    found: list[list[int]] = []
    for run, run_ids in _packed(parts, tokenizer, limit):
        found += _fitted(run, run_ids, tokenizer, limit, marks[1:])
    return found


def _packed(parts: Sequence[str], tokenizer: TextTokenizer, limit: int) -> Iterator[tuple[str, list[int]]]:
    """Neighbours joined, with their ids, as long as they fit the limit."""
    counts = [len(ids) for ids in tokenizer.encode_batch(parts)]
    start = 0
    while start < len(parts):
        end, total = start + 1, counts[start]
        while end < len(parts) and total + counts[end] <= limit:
            total += counts[end]
            end += 1
        run = "".join(parts[start:end])
        ids = tokenizer.encode(run)
        # Together they may have more tokens than apart: the blanks between them.
        while len(ids) > limit and end > start + 1:
            end -= 1
            run = "".join(parts[start:end])
            ids = tokenizer.encode(run)
        yield run, ids
        start = end
