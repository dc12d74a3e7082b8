"""A model measured on held-out text: quickly while it trains, fully when it is done."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from seq2seq.checkpoint import RunDirectory
from seq2seq.config import Config
from seq2seq.data.batching import Batches
from seq2seq.data.corpus import Pair, read_pairs
from seq2seq.data.prepare import Prepared, encode, normalized
from seq2seq.errors import UserError
from seq2seq.evaluation.baselines import copy_baseline
from seq2seq.evaluation.report import Report, Sample
from seq2seq.evaluation.scores import corpus_bleu, score
from seq2seq.inference.translator import Translator
from seq2seq.model import Seq2Seq
from seq2seq.training.loss import model_perplexity
from seq2seq.training.processes import Processes

SAMPLES = 5
Item = TypeVar("Item")


def dev_bleu(config: Config, prepared: Prepared, processes: Processes) -> Callable[[Seq2Seq], float]:
    """How training measures a model: greedy BLEU on a fixed sample of dev, spread evenly over it and the processes."""
    pairs = _spread(prepared.pairs("dev"), config.training.validate_sentences)
    mine = [pair.source for pair in processes.part(pairs)]
    shares = processes.gather(processes.part(range(len(pairs))))
    references = [pairs[index].target for share in shares for index in share]
    source, target = prepared.tokenizer("source"), prepared.tokenizer("target")

    def measure(model: Seq2Seq) -> float:
        translator = Translator(model, source, target, config.search, config.data.target_language)
        gathered = processes.gather([each.text for each in translator.translate(mine, beam=1)])
        translations = [text for texts in gathered for text in texts]
        return corpus_bleu(translations, references, config.data.target_language)

    return measure


def evaluate_run(run: RunDirectory, data: str, device: torch.device, beam: int | None = None) -> Report:
    """Translate and score held-out text with the best model of a run.

    Args:
        run: a run that has saved a model.
        data: `dev` or `test` (as the run holds them out), or what data.test may be: a path or a named corpus.
        device: where to compute.
        beam: beam size; None: the run's search.beam.

    Raises:
        UserError: the run or the text cannot be read.
    """
    config = run.config()
    pairs = _pairs(run, config, data)
    translator = Translator.load(run.path, device)
    beam = beam or config.search.beam
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    translations = [each.text for each in translator.translate(sources, beam=beam)]
    batches = Batches(encode(pairs, translator.source, translator.target), 4 * config.training.batch_tokens)
    language = config.data.target_language
    prepared = run.prepared()
    copies = None if prepared is None else copy_baseline(prepared.pairs("train"), sources)
    samples = map(Sample, sources, references, translations)
    return Report(
        data=data,
        sentences=len(pairs),
        beam=beam,
        perplexity=model_perplexity(translator.model, batches.epoch(0)),
        model=score(translations, references, language),
        copy=None if copies is None else score(copies, references, language),
        source_copied=score(sources, references, language),
        samples=_spread(list(samples), SAMPLES),
    )


def _pairs(run: RunDirectory, config: Config, data: str) -> list[Pair]:
    if data in ("dev", "test"):
        pairs = run.pairs(data)
    else:
        read = read_pairs(data, config.data.source_language, config.data.target_language)
        pairs = normalized(read, config.data.cleaning.normalize)
    if not pairs:
        raise UserError(f"{data}: holds no sentence pair to measure on")
    return pairs


def _spread(items: Sequence[Item], count: int) -> list[Item]:
    """At most `count` of the items, evenly spread."""
    count = min(count, len(items))
    return [items[index * len(items) // count] for index in range(count)]
