"""A model's figures on held-out text, beside two baselines."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from seq2seq.evaluation.scores import Scores
from seq2seq.training.loss import shown

_NOTHING_LEARNED = (
    "This model does not beat the copy baseline: it has learned nothing worth having yet; "
    "train longer or use more data."
)


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
    copy: Scores | None
    """Each source given the target of the training pair with the nearest source; None without the training text."""
    source_copied: Scores
    """Each source as its own translation."""
    samples: Sequence[Sample]

    @property
    def beats_copy(self) -> bool | None:
        """Whether the model's BLEU is above the copy baseline's; None where that is not known."""
        return None if self.copy is None else self.model.bleu > self.copy.bleu

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {**dataclasses.asdict(self), "beats_copy": self.beats_copy}

    def to_text(self) -> str:
        """The report for a terminal; nothing is aligned after text, whose width is not known."""
        systems = {f"model (beam {self.beam})": self.model, "copy": self.copy, "source copied": self.source_copied}
        lines = [
            f"{self.data}: {self.sentences:,} sentences, perplexity {shown(self.perplexity)}",
            "",
            f"{'system':<17}{'BLEU':>7}{'chrF':>7}{'TER':>7}{'length':>8}",
            *(
                f"{name:<17}{each.bleu:>7.1f}{each.chrf:>7.1f}{each.ter:>7.1f}{each.length_ratio:>8.2f}"
                for name, each in systems.items()
                if each is not None
            ),
            "",
            *(f"{metric:<6}{signature}" for metric, signature in self.model.signatures.items()),
        ]
        for sample in self.samples:
            lines += ["", f"source       {sample.source}", f"reference    {sample.reference}"]
            lines += [f"translation  {sample.translation}".rstrip()]
        if self.copy is None:
            lines += ["", "no copy baseline: the training text the run was prepared from is not here"]
        if self.beats_copy is False:
            lines += ["", _NOTHING_LEARNED]
        return "\n".join(lines)
