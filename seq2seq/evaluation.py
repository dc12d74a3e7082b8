"""How good translations are: BLEU, chrF and TER by sacreBLEU, and a report beside two baselines."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from seq2seq.data.languages import base_language

# Languages without blanks need other tokens than sacreBLEU's default. For Japanese and Korean it recommends MeCab,
# which needs native packages and dictionaries; characters come close and need nothing.
_BLEU_TOKENIZERS = {"zh": "zh", "ja": "char", "ko": "char"}
# TER counts words; this option makes each Chinese character or kana a word.
_TER_BY_CHARACTER = {"zh", "ja"}

_NOTHING_LEARNED = (
    "This model does not beat the copy baseline: it has learned nothing worth having yet; "
    "train longer or use more data."
)


@dataclass(frozen=True)
class Scores:
    """Figures of a set of translations."""

    bleu: float
    """Papineni et al. 2002, 0 to 100."""
    chrf: float
    """chrF2, Popović 2015, 0 to 100."""
    ter: float
    """Snover et al. 2006, in percent; lower is better."""
    length_ratio: float
    """Tokens of the translations / tokens of the references, as BLEU counts them; below 1 BLEU is cut for brevity."""
    signatures: dict[str, str]
    """sacreBLEU's signature by metric: everything that makes a figure comparable."""


def score(hypotheses: Sequence[str], references: Sequence[str], target_language: str) -> Scores:
    """BLEU, chrF and TER of translations against one reference each.

    Raises:
        ValueError: the two differ in length, or are empty.
    """
    _check(hypotheses, references)
    by_character = base_language(target_language) in _TER_BY_CHARACTER
    bleu, chrf, ter = _bleu(target_language), CHRF(), TER(normalized=by_character, asian_support=by_character)
    bleu_score, chrf_score, ter_score = (
        metric.corpus_score(list(hypotheses), [list(references)]) for metric in (bleu, chrf, ter)
    )
    return Scores(
        bleu=bleu_score.score,
        chrf=chrf_score.score,
        ter=ter_score.score,
        length_ratio=bleu_score.ratio,
        signatures={
            "BLEU": str(bleu.get_signature()),
            "chrF": str(chrf.get_signature()),
            "TER": str(ter.get_signature()),
        },
    )


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str], target_language: str) -> float:
    """BLEU alone, as in `score`; quick enough for validation.

    Raises:
        ValueError: the two differ in length, or are empty.
    """
    _check(hypotheses, references)
    return _bleu(target_language).corpus_score(list(hypotheses), [list(references)]).score


def _check(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} translations but {len(references)} references")
    if not references:
        raise ValueError("no translation to score")


def _bleu(target_language: str) -> BLEU:
    return BLEU(tokenize=_BLEU_TOKENIZERS.get(base_language(target_language), BLEU.TOKENIZER_DEFAULT))


@dataclass(frozen=True)
class Sample:
    """One sentence to look at."""

    source: str
    reference: str
    translation: str


@dataclass(frozen=True)
class Report:
    """A model's figures on held-out text, beside two baselines."""

    data: str
    """Which text."""
    sentences: int
    beam: int
    perplexity: float
    """Of the references, for each target token."""
    model: Scores
    copy: Scores
    """Each source given the target of the training pair with the nearest source."""
    source_copied: Scores
    """Each source as its own translation."""
    samples: Sequence[Sample]

    @property
    def beats_copy(self) -> bool:
        """Whether the model's BLEU is above the copy baseline's."""
        return self.model.bleu > self.copy.bleu

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {**dataclasses.asdict(self), "beats_copy": self.beats_copy}

    def to_text(self) -> str:
        """The report for a terminal; nothing is aligned after text, whose width is not known."""
        systems = {f"model (beam {self.beam})": self.model, "copy": self.copy, "source copied": self.source_copied}
        lines = [
            f"{self.data}: {self.sentences:,} sentences, perplexity {self.perplexity:.2f}",
            "",
            f"{'system':<17}{'BLEU':>7}{'chrF':>7}{'TER':>7}{'length':>8}",
            *(
                f"{name:<17}{each.bleu:>7.1f}{each.chrf:>7.1f}{each.ter:>7.1f}{each.length_ratio:>8.2f}"
                for name, each in systems.items()
            ),
            "",
            *(f"{metric:<6}{signature}" for metric, signature in self.model.signatures.items()),
        ]
        for sample in self.samples:
            lines += ["", f"source       {sample.source}", f"reference    {sample.reference}"]
            lines += [f"translation  {sample.translation}".rstrip()]
        if not self.beats_copy:
            lines += ["", _NOTHING_LEARNED]
        return "\n".join(lines)
