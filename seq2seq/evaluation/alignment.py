"""Alignment error rate: how well attention finds the links that people drew between the words of a pair."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from seq2seq.checkpoint import RunDirectory
from seq2seq.data.corpus import read_pairs
from seq2seq.data.files import read_lines
from seq2seq.errors import UserError
from seq2seq.evaluation.units import Link, UnitKind, split_side, unit_links
from seq2seq.inference.translator import Translator, check_attention

_LINK = re.compile(r"(\d{1,9})([-?p])(\d{1,9})", re.ASCII)
# Characters of a wrong word in a message.
_SHOWN = 30


class GoldLinks(NamedTuple):
    """The links of one sentence pair as people drew them."""

    sure: frozenset[Link]
    possible: frozenset[Link]
    """The sure ones among them."""


@dataclass(frozen=True)
class AlignmentScores:
    """Figures of links, in percent, counted over all sentence pairs (Och & Ney 2003, section 5)."""

    error_rate: float
    """AER = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|); lower is better."""
    precision: float
    """|A ∩ P| / |A|; 0 where nothing was linked."""
    recall: float
    """|A ∩ S| / |S|"""
    links: int
    """|A|"""
    sure: int
    """|S|"""
    possible: int
    """|P|, the sure ones among them."""


@dataclass(frozen=True)
class AlignmentReport:
    """How well a run's attention aligns given pairs."""

    data: str
    """Which text."""
    sentences: int
    source_units: UnitKind
    target_units: UnitKind
    scores: AlignmentScores

    def to_text(self) -> str:
        """Two lines for a terminal."""
        scores = self.scores
        more = _counted(scores.possible - scores.sure, "more possible link")
        return (
            f"alignment of {self.source_units} with {self.target_units}: AER {scores.error_rate:.1f},"
            f" precision {scores.precision:.1f}, recall {scores.recall:.1f}\n"
            f"{_counted(scores.links, 'link')} of attention; gold: {scores.sure:,} sure and {more}"
            f" in {_counted(self.sentences, 'sentence')}"
        )


def score_links(links: Sequence[set[Link]], gold: Sequence[GoldLinks]) -> AlignmentScores:
    """Compare the links A of each sentence pair with the sure ones S and the possible ones P.

    Raises:
        ValueError: the two differ in length, or there is no sure link.
    """
    pairs = list(zip(links, gold, strict=True))
    found, sure, possible = (
        sum(map(len, each)) for each in (links, [g.sure for g in gold], [g.possible for g in gold])
    )
    if not sure:
        raise ValueError("no sure link to find")
    sure_found = sum(len(a & g.sure) for a, g in pairs)
    possible_found = sum(len(a & g.possible) for a, g in pairs)
    return AlignmentScores(
        error_rate=100 * (1 - (sure_found + possible_found) / (found + sure)),
        precision=100 * possible_found / found if found else 0.0,
        recall=100 * sure_found / sure,
        links=found,
        sure=sure,
        possible=possible,
    )


def read_gold(path: Path, sizes: Sequence[tuple[int, int]], base: int = 0) -> list[GoldLinks]:
    """Read one line of links for each sentence pair: i-j is sure, i?j and ipj are possible (Pharaoh's form).

    Args:
        path: the file; a line without links is an empty one.
        sizes: source and target units of each sentence pair.
        base: what the first unit is counted as in the file, 0 or 1.

    Raises:
        UserError: another number of lines, a word that is no link, an index without a unit, or no sure link at all.
    """
    lines = list(read_lines(path))
    if len(lines) != len(sizes):
        raise UserError(
            f"{path}: {_counted(len(lines), 'line')} for {_counted(len(sizes), 'sentence pair')};"
            " write a line of links for each"
        )
    gold = [_gold_links(f"{path}, line {n}", line, size, base) for (n, line), size in zip(lines, sizes, strict=True)]
    if not any(each.sure for each in gold):
        raise UserError(f"{path}: holds no sure link (i-j), so there is nothing to find")
    return gold


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _gold_links(where: str, line: str, sizes: tuple[int, int], base: int) -> GoldLinks:
    sure, possible = set(), set()
    for word in line.split():
        match = _LINK.fullmatch(word)
        if match is None:
            shown = word if len(word) <= _SHOWN else f"{word[:_SHOWN]}…"
            raise UserError(f"{where}: {shown!r} is no link; write i-j for a sure one, i?j for a possible one")
        link = int(match[1]) - base, int(match[3]) - base
        for index, size, side in zip(link, sizes, ("source", "target"), strict=True):
            if not 0 <= index < size:
                advice = "; if the file counts from 1, add --gold-base 1" if base == 0 and index == size else ""
                raise UserError(
                    f"{where}: {word} has no {side} unit {index + base}: the sentence has {size}, counted from"
                    f" {base}{advice}"
                )
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return GoldLinks(frozenset(sure), frozenset(possible))


def evaluate_alignment(
    run: RunDirectory, data: str, gold: Path, device: torch.device, base: int = 0
) -> AlignmentReport:
    """Compare the attention of a run's best model, which reads the given translations, with gold links.

    Args:
        run: a run that has saved a model.
        data: `dev` or `test` (as the run holds them out), or a path or named corpus.
        gold: see `read_gold`; its indices count the units of the text as it stands there, see `split_side`.
        device: where to compute.
        base: what the gold file counts from.

    Raises:
        UserError: the run, the text or the gold file cannot be read, they do not match, or the run has
            attention.kind: none.
    """
    config = run.config()
    check_attention(config, run.path, "--gold")
    languages = config.data.source_language, config.data.target_language
    pairs = run.pairs(data) if data in ("dev", "test") else list(read_pairs(data, *languages))
    source, target = (split_side([pair[side] for pair in pairs], languages[side]) for side in (0, 1))
    units = list(zip(source.units, target.units, strict=True))
    known = read_gold(gold, [(len(of_source), len(of_target)) for of_source, of_target in units], base)
    forced = Translator.load(run.path, device).force_decode(source.texts, target.texts)
    links = [unit_links(translation, *each) for translation, each in zip(forced, units, strict=True)]
    return AlignmentReport(data, len(pairs), source.kind, target.kind, score_links(links, known))
