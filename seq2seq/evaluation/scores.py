"""How good translations are: BLEU, chrF and TER by sacreBLEU."""

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from seq2seq.data.languages import base_language

# Languages without blanks need other tokens than sacreBLEU's default. For Japanese and Korean it recommends MeCab,
# which needs native packages and dictionaries; characters come close and need nothing.
_BLEU_TOKENIZERS = {"zh": "zh", "ja": "char", "ko": "char"}
# TER counts words; this option makes each Chinese character or kana a word.
_TER_BY_CHARACTER = {"zh", "ja"}


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
    bleu, chrf, ter = bleu_metric(target_language), CHRF(), TER(normalized=by_character, asian_support=by_character)
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
    return bleu_metric(target_language).corpus_score(list(hypotheses), [list(references)]).score


def _check(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} translations but {len(references)} references")
    if not references:
        raise ValueError("no translation to score")


def bleu_metric(target_language: str) -> BLEU:
    """sacreBLEU's BLEU with the tokenizer that the target language needs."""
    return BLEU(tokenize=_BLEU_TOKENIZERS.get(base_language(target_language), BLEU.TOKENIZER_DEFAULT))
