"""A trainer on the digit corpus, and where to stop it."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from seq2seq.checkpoint import RunDirectory
from seq2seq.config import Config, load_config
from seq2seq.data.batching import Batches
from seq2seq.data.prepare import Prepared, prepare
from seq2seq.data.reading_ahead import Rows
from seq2seq.data.sampling import SubwordSampler
from seq2seq.model import build_model
from seq2seq.training.trainer import Trainer


class Case:
    """A trainer on the digit corpus, with dev BLEU as a test wants it."""

    def __init__(self, digits: Path, folder: Path, *sets: str, bleu: list[float] | None = None) -> None:
        self.digits, self.folder, self.sets = digits, folder, sets
        self.bleu = iter(bleu or [])
        self.bleu_at: dict[int, float] = {}
        self.clock: Callable[[], float] = time.monotonic
        self.config: Config = load_config(digits / "digits.yaml", sets)
        self.prepared: Prepared = prepare(self.config, folder / "data")
        self.run = RunDirectory(folder / "run")
        if not self.run.exists:
            self.run.create(self.config, self.prepared)

    def trainer(self) -> Trainer:
        torch.manual_seed(self.config.seed)
        sizes = [self.prepared.tokenizer(side).size for side in ("source", "target")]
        train = Batches(
            self.prepared.store("train"), self.config.training.batch_tokens, self.config.seed, self.sampler()
        )
        dev = Batches(self.prepared.store("dev"), 2000)
        model = build_model(self.config, *sizes)
        trainer = Trainer(
            model, self.config, train, dev, lambda _: 0.0, self.prepared.origins().describe, self.run, clock=self.clock
        )
        trainer.dev_bleu = lambda _: self.bleu_at.get(trainer.state.step, next(self.bleu, 0.0))
        return trainer

    def sampler(self) -> SubwordSampler | None:
        alpha = self.config.tokenizer.source.sampling_alpha
        if not alpha:
            return None
        source, target = (self.prepared.tokenizer(side) for side in ("source", "target"))
        return SubwordSampler(self.prepared.pairs("train"), source, target, alpha, 0.0, self.config.seed)

    def metrics(self) -> list[dict[str, float]]:
        path = self.run.path / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def stop_at(trainer: Trainer, step: int) -> None:
    update = trainer.update

    def stopping(batches: Sequence[Rows]) -> None:
        update(batches)
        trainer.stop_requested = trainer.state.step == step

    trainer.update = stopping  # type: ignore[method-assign]
