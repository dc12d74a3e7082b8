"""The training loop, to be read from top to bottom. How dev is translated is handed in."""

import dataclasses
import json
import logging
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from seq2seq.checkpoint import RunDirectory, load_weights
from seq2seq.config import Config
from seq2seq.data.batching import Batch, Batches
from seq2seq.data.tokenizer import PAD
from seq2seq.errors import UserError
from seq2seq.model import Seq2Seq
from seq2seq.training.averaging import AverageWeights
from seq2seq.training.loss import coverage_penalty, cross_entropy, model_perplexity, shown
from seq2seq.training.optimizer import build_optimizer, learning_rate
from seq2seq.training.progress import Progress

log = logging.getLogger(__name__)

NOISE = 5.0
"""Below this dev BLEU is noise, and the best checkpoint is chosen by perplexity."""
VALIDATION_SHARE = 0.1
"""Validation may cost this share of the training time."""


@dataclasses.dataclass
class TrainerState:
    """All that a resumed run must know besides tensors."""

    step: int = 0
    """Updates done."""
    epoch: int = 0
    """Epoch under way, from 0."""
    batch: int = 0
    """Next batch of the epoch."""
    epoch_batches: int = 0
    """Batches in an epoch."""
    seconds: float = 0.0
    """Wall-clock time of the loop, over all sessions."""
    validation_seconds: float = 0.0
    """What of it went into validation."""
    last_validation_seconds: float = 0.0
    """What the last validation took."""
    validated_step: int = 0
    """Update of the last validation."""
    best_bleu: float = 0.0
    """Dev BLEU of the best checkpoint."""
    best_perplexity: float = float("inf")
    """Dev perplexity of the best checkpoint."""
    best_step: int = 0
    """Update of the best checkpoint."""
    without_improvement: int = 0
    """Validations since then."""
    decay: float = 1.0
    """What schedule: plateau has multiplied the rate by."""
    loss: float = 0.0
    """Mean negative log-likelihood of a token in the last batch, in nats."""
    gradient_norm: float = 0.0
    """Before clipping, of the last update."""
    learning_rate: float = 0.0
    """Of the last update."""
    skipped: int = 0
    """Updates left out because their gradient was not finite."""


class Trainer:
    """Trains a model with teacher forcing until the budget is used or dev stops improving.

    Args:
        model: on the device to train on.
        config: the whole configuration.
        train: training batches.
        dev: batches of the dev text.
        dev_bleu: translates dev with the model and gives its BLEU.
        run: where checkpoints and metrics go.
    """

    def __init__(
        self,
        model: Seq2Seq,
        config: Config,
        train: Batches,
        dev: Batches,
        dev_bleu: Callable[[Seq2Seq], float],
        run: RunDirectory,
    ) -> None:
        self.model, self.config, self.train, self.dev, self.dev_bleu, self.run = (
            model,
            config,
            train,
            dev,
            dev_bleu,
            run,
        )
        self.settings = config.training
        self.device = next(model.parameters()).device
        self.optimizer = build_optimizer(model.parameters(), self.settings)
        decay = self.settings.average_decay
        self.average = AverageWeights(model, decay) if decay else None
        self.state = TrainerState(epoch_batches=len(train.plan(0)))
        self.stop_requested = False

    def fit(self) -> bool:
        """Train to the end of the budget; False when `stop_requested` ended it before, saved and ready to resume."""
        state = self.state
        self._session_start = time.monotonic() - state.seconds
        limits = (self.settings.max_minutes, self.settings.max_steps, self.settings.max_epochs)
        self.progress = Progress(self.run.path / "metrics.jsonl", self.share() if any(limits) else None)
        try:
            while not (self.finished() or self.stop_requested):
                for batch in self.train.epoch(state.epoch, state.batch):
                    self.update(batch.to(self.device))
                    state.batch += 1
                    if self.validation_due():
                        self.validate()
                    if self.finished() or self.stop_requested:
                        break
                else:
                    state.epoch, state.batch = state.epoch + 1, 0
            finished = self.finished()
            if finished and state.validated_step < state.step:
                self.validate()
            state.seconds = self.seconds()
            self.save()
            if finished and not state.best_step:
                raise UserError(
                    f"{self.run.path}: training diverged, dev perplexity was never finite; "
                    f"lower training.learning_rate or set training.clip_norm"
                )
        finally:
            self.progress.close()
        return finished

    def update(self, batch: Batch) -> None:
        """One update: teacher-forced forward, loss per token, backward, clip, step."""
        settings, state = self.settings, self.state
        state.learning_rate = learning_rate(settings, state.step, self.share(), state.decay)
        for group in self.optimizer.param_groups:
            group["lr"] = state.learning_rate
        self.model.train()
        predictions = self.model(batch.source, batch.target_input, self.config.teacher_forcing.ratio)
        loss = cross_entropy(predictions.logits, batch.target_output, settings.label_smoothing)
        minimised = loss.smoothed
        if self.config.attention.coverage_loss:
            penalty = coverage_penalty(predictions.attention, batch.target_output != PAD)
            minimised = minimised + self.config.attention.coverage_loss * penalty
        self.optimizer.zero_grad(set_to_none=True)
        (minimised / loss.tokens).backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip_norm or float("inf"))
        if torch.isfinite(norm):
            self.optimizer.step()
        else:
            state.skipped += 1
            self.progress.write(f"step {state.step + 1}: gradient is not finite, update skipped")
        state.step += 1
        if self.average is not None:
            self.average.update(state.step)
        tokens = int(loss.tokens)
        state.loss, state.gradient_norm = float(loss.likelihood) / max(tokens, 1), float(norm)
        self.progress.step(self.share(), tokens, state.epoch, state.step, state.loss)

    def validation_due(self) -> bool:
        """Whether validate_every updates have passed and another validation stays within its share of the time."""
        state = self.state
        if state.step - state.validated_step < self.settings.validate_every:
            return False
        cost = state.validation_seconds + state.last_validation_seconds
        return cost <= VALIDATION_SHARE * (self.seconds() - state.validation_seconds)

    def validate(self) -> None:
        """Perplexity on all of dev, BLEU on a sample of it; keep the weights if they are the best so far."""
        state = self.state
        begun = self.seconds()
        with self.average.applied() if self.average is not None else nullcontext():
            self.model.eval()
            dev_perplexity = model_perplexity(self.model, self.dev.epoch(0))
            bleu = self.dev_bleu(self.model)
            better = self._better(bleu, dev_perplexity)
            if better:
                state.best_bleu, state.best_perplexity, state.best_step = bleu, dev_perplexity, state.step
                metadata = {
                    "step": str(state.step),
                    "dev_bleu": f"{bleu:.4f}",
                    "dev_perplexity": f"{dev_perplexity:.4f}",
                }
                self.run.save_tensors("best", self.model.state_dict(), metadata)
        state.without_improvement = 0 if better else state.without_improvement + 1
        if self.settings.schedule == "plateau" and not better:
            state.decay /= 2
        state.validated_step = state.step
        state.last_validation_seconds = self.seconds() - begun
        state.validation_seconds += state.last_validation_seconds
        star = " *" if better else ""
        self.progress.report(
            f"epoch {state.epoch + 1}, step {state.step:,}: loss {state.loss:.3f}, "
            f"dev perplexity {shown(dev_perplexity)}, dev BLEU {bleu:.2f}{star}",
            step=state.step,
            epoch=state.epoch + 1,
            minutes=round(self.seconds() / 60, 4),
            loss=round(state.loss, 4),
            gradient_norm=round(state.gradient_norm, 4),
            learning_rate=state.learning_rate,
            tokens_per_second=round(self.progress.speed(), 1),
            dev_perplexity=round(dev_perplexity, 4),
            dev_bleu=round(bleu, 4),
            best=better,
        )
        state.seconds = self.seconds()
        self.save()
        self.progress.restart_clock()

    def _better(self, bleu: float, dev_perplexity: float) -> bool:
        if max(bleu, self.state.best_bleu) < NOISE:
            return dev_perplexity < self.state.best_perplexity
        return bleu > self.state.best_bleu

    def seconds(self) -> float:
        """Wall-clock time of the loop so far, over all sessions."""
        return time.monotonic() - self._session_start

    def share(self) -> float:
        """Share of the budget that is used, 0 to 1: of the minutes, updates or epochs, whichever is nearest its end.

        Of the minutes as much is set aside as a validation takes, so that the last one stays within them.
        """
        settings, state = self.settings, self.state
        shares = [0.0]
        if settings.max_minutes:
            shares.append((self.seconds() + state.last_validation_seconds) / (60 * settings.max_minutes))
        if settings.max_steps:
            shares.append(state.step / settings.max_steps)
        if settings.max_epochs:
            shares.append((state.epoch + state.batch / state.epoch_batches) / settings.max_epochs)
        return min(max(shares), 1.0)

    def finished(self) -> bool:
        """Whether the budget is used, or patience is at its end."""
        patience = self.settings.patience
        return self.share() >= 1.0 or (patience is not None and self.state.without_improvement >= patience)

    def save(self) -> None:
        """Write last.safetensors: weights, optimizer, average, random state and TrainerState."""
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        for index, values in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{name}": value for name, value in values.items()}
        if self.average is not None:
            tensors |= {f"average.{name}": value for name, value in self.average.average.items()}
        tensors["random.cpu"] = torch.get_rng_state()
        if self.device.type == "cuda":
            tensors["random.cuda"] = torch.cuda.get_rng_state(self.device)
        self.run.save_tensors("last", tensors, {"state": json.dumps(dataclasses.asdict(self.state))})

    def resume(self) -> None:
        """Go on from last.safetensors as if the run had never stopped.

        Raises:
            UserError: the file is damaged or not one of this version.
        """
        tensors, metadata = self.run.load_tensors("last")
        parts: dict[str, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            part, _, name = key.partition(".")
            parts.setdefault(part, {})[name] = value
        origin = self.run.path / "last.safetensors"
        load_weights(self.model, parts.get("model", {}), origin)
        try:
            self._restore(parts, TrainerState(**json.loads(metadata["state"])))
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{origin}: holds no trainer state of this version ({error}); start a new run") from None
        self._keep_metrics_up_to(self.state.step)

    def _restore(self, parts: dict[str, dict[str, Tensor]], state: TrainerState) -> None:
        moments: dict[int, dict[str, Any]] = {}
        for key, value in parts.get("optimizer", {}).items():
            index, _, name = key.partition(".")
            moments.setdefault(int(index), {})[name] = value
        self.optimizer.load_state_dict(self.optimizer.state_dict() | {"state": moments})
        if self.average is not None:
            # A run that did not average so far starts its average from where it is.
            for name, value in parts.get("average", parts["model"]).items():
                self.average.average[name].copy_(value)
        torch.set_rng_state(parts["random"]["cpu"])
        if "cuda" in parts["random"] and self.device.type == "cuda":
            torch.cuda.set_rng_state(parts["random"]["cuda"], self.device)
        if state.epoch_batches != self.state.epoch_batches:
            # With another batch size "batch n of the epoch" is another place: the epoch begins anew.
            state = dataclasses.replace(state, batch=0, epoch_batches=self.state.epoch_batches)
        self.state = state

    def _keep_metrics_up_to(self, step: int) -> None:
        """Lines of updates that were lost with the stop would stand twice."""
        path = self.run.path / "metrics.jsonl"
        if path.is_file():
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
            kept = [line for line in lines if _step_of(line) <= step]
            self.run.write("metrics.jsonl", "".join(kept))


def _step_of(line: str) -> float:
    """The update a line of metrics.jsonl is about; infinity for one that was cut off."""
    try:
        return float(json.loads(line)["step"]) if line.endswith("\n") else float("inf")
    except (ValueError, KeyError, TypeError):
        return float("inf")
