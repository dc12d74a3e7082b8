"""Scores of translations, baselines, and the report on a run."""

from seq2seq.evaluation.baselines import copy_baseline
from seq2seq.evaluation.held_out import dev_bleu, evaluate_run
from seq2seq.evaluation.report import Report, Sample
from seq2seq.evaluation.scores import Scores, corpus_bleu, score

__all__ = ["Report", "Sample", "Scores", "copy_baseline", "corpus_bleu", "dev_bleu", "evaluate_run", "score"]
