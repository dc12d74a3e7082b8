"""The training loop, to be read from top to bottom. How dev is translated is handed in."""

import logging
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

import numpy as np
import torch

from seq2seq.checkpoint import RunDirectory
from seq2seq.config import Config
from seq2seq.data.batching import Batches
from seq2seq.data.reading_ahead import Rows
from seq2seq.errors import UserError
from seq2seq.model import Seq2Seq
from seq2seq.training import resuming
from seq2seq.training.averaging import AverageWeights
from seq2seq.training.gradient import Piece, accumulate_gradient
from seq2seq.training.loss import model_likelihood, perplexity, shown
from seq2seq.training.optimizer import build_optimizer, learning_rate
from seq2seq.training.processes import Processes
from seq2seq.training.progress import Progress
from seq2seq.training.state import TrainerState

log = logging.getLogger(__name__)

NOISE = 5.0
"""Below this dev BLEU is noise, and the best checkpoint is chosen by perplexity."""
VALIDATION_SHARE = 0.1
"""Validation may cost this share of the training time, where that is limited."""
ADVICE = "lower training.learning_rate or set training.clip_norm"
"""What helps against a loss that is not finite."""


class StoppedError(BaseException):
    """A stop was asked for in the middle of a validation; like KeyboardInterrupt, nothing else is to catch it."""


class Trainer:
    """Trains a model with teacher forcing until the budget is used or dev stops improving.

    Args:
        model: on the device to train on.
        config: the whole configuration.
        train: training batches.
        dev: batches of the dev text.
        dev_bleu: translates dev with the model and gives its BLEU.
        describe: names the lines of the user's files that rows of the corpus come from.
        run: where checkpoints and metrics go.
        processes: those that train together; each has its part of every batch, the first writes.
        clock: seconds from any point in time on.
    """

    def __init__(
        self,
        model: Seq2Seq,
        config: Config,
        train: Batches,
        dev: Batches,
        dev_bleu: Callable[[Seq2Seq], float],
        describe: Callable[[Rows], str],
        run: RunDirectory,
        processes: Processes | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.model, self.config, self.train, self.dev = model, config, train, dev
        self.dev_bleu, self.describe, self.run = dev_bleu, describe, run
        self.processes, self.clock = processes or Processes(), clock
        self.settings = config.training
        self.device = next(model.parameters()).device
        self.optimizer = build_optimizer(model.parameters(), self.settings)
        decay = self.settings.average_decay
        self.average = AverageWeights(model, decay) if decay else None
        self.state = TrainerState(
            epoch_batches=len(train.plan(0)),
            batch_tokens=self.settings.batch_tokens,
            peak_rate=self.settings.learning_rate,
        )
        self.metrics = ""
        self.stop_requested = False
        self._stopping = self._stoppable = False

    def fit(self) -> bool:
        """Train to the end of the budget; False when `request_stop` ended it before, saved and ready to resume.

        Raises:
            UserError: a checkpoint cannot be written, or loss or gradient stay infinite.
        """
        self._agree()
        self._session_start = self._now - self.state.seconds
        limits = (self.settings.max_minutes, self.settings.max_steps, self.settings.max_epochs)
        file = self.run.path / "metrics.jsonl" if self.processes.is_first else None
        self.progress = Progress(file, self.share() if any(limits) else None, self.metrics)
        self._saved_step, self._saved_seconds = self.state.step, self.state.seconds
        try:
            if not self.state.step:
                self.save()
            while True:
                self._agree()
                if self.validation_due():
                    self.validate()
                elif self.checkpoint_due():
                    self.save()
                finished = self.finished()
                if finished or self._stopping:
                    break
                self.update(self._next_batches())
            if finished and self.state.validated_step < self.state.step:
                self.validate()
            if self.state.step > self._saved_step:
                self.save()
            if not finished or self.state.validated_step < self.state.step:
                return False
            if not self.state.best_step:
                raise UserError(f"{self.run.path}: training diverged, dev perplexity was never finite; {ADVICE}")
        finally:
            self.progress.close()
        return True

    def request_stop(self) -> None:
        """End after the update under way; a validation is broken off, and done on resume.

        Raises:
            StoppedError: to break it off.
        """
        self.stop_requested = True
        if self._stoppable:
            raise StoppedError

    def _agree(self) -> None:
        """All take the time of the first process, and stop where one was asked to."""
        now = self.clock() if self.processes.is_first else 0.0
        self._now, stops = self.processes.sums(now, self.stop_requested)
        self._stopping = stops > 0

    def _next_batches(self) -> list[Rows]:
        """The rows of the batches of the next update."""
        if self.state.batch >= self.state.epoch_batches:
            self.state.epoch, self.state.batch = self.state.epoch + 1, 0
        return self.train.plan(self.state.epoch)[self.state.batch : self.state.batch + self.settings.accumulate]

    def update(self, batches: Sequence[Rows]) -> None:
        """One update: teacher-forced forward, loss per token, backward, clip, step."""
        settings, state = self.settings, self.state
        rate = learning_rate(settings, state.step, self.share(), state.decay) * (0.5 if state.went_back else 1.0)
        state.learning_rate = rate
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.model.train()
        parts = [part for part in map(self.processes.part, batches) if len(part)]
        pieces = [Piece(rows, self.train.batch(state.epoch, rows)) for rows in parts]
        sums = accumulate_gradient(self.model, self.config, pieces, self._out_of_memory)
        likelihood, tokens = self.processes.sums(sums.likelihood, sums.tokens)
        self.processes.sum_gradients(self.model.parameters(), sums.tokens / max(tokens, 1))
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip_norm or float("inf"))
        state.loss, state.gradient_norm = likelihood / max(tokens, 1), float(norm)
        if np.isfinite([state.loss, state.gradient_norm]).all():
            self.optimizer.step()
            state.skipped_in_row = 0
        else:
            state.skipped, state.skipped_in_row = state.skipped + 1, state.skipped_in_row + 1
            self.progress.write(
                f"step {state.step + 1:,}: loss or gradient is not finite, update skipped ({self._lines(batches)})"
            )
        state.step += 1
        state.batch += len(batches)
        for rows in batches:
            state.order = zlib.crc32(rows.tobytes(), state.order)
        if self.average is not None:
            self.average.update(state.step)
        self.progress.step(self.share(), int(tokens), state.epoch, state.step, state.loss, state.skipped)
        if state.skipped_in_row >= settings.skip_limit:
            self._go_back(batches)

    def _out_of_memory(self, piece: Piece) -> None:
        if len(piece.rows) > 1:
            self.state.split += 1
            what = f"a batch of {len(piece.rows):,} pairs, which is split"
        else:
            self.state.left_out += 1
            what = "a single pair, which is left out"
        self.progress.write(
            f"step {self.state.step + 1:,}: out of memory on {what} ({self._lines([piece.rows])}); "
            f"a smaller training.batch_tokens saves the time this takes"
        )

    def _lines(self, batches: Sequence[Rows]) -> str:
        return self.describe(np.concatenate(batches))

    def _go_back(self, batches: Sequence[Rows]) -> None:
        """Go on from the best weights with half the rate; at the second time, or where there are none yet, give up.

        The best weights, since which ones they are depends on the updates alone: a resumed run goes back to the same.
        """
        state, lines = self.state, self._lines(batches)
        fault = f"loss or gradient was not finite in {self.settings.skip_limit} updates in a row"
        if state.went_back or not state.best_step:
            again = "again after going back" if state.went_back else "before any validation"
            raise UserError(f"{self.run.path}: {fault}, {again}; {ADVICE}; the last batch: {lines}")
        best = self.run.load_tensors("best")[0] if self.processes.is_first else {}
        self.model.load_state_dict(self.processes.from_first(best))
        self.optimizer.state.clear()
        if self.average is not None:
            self.average.restart()
        state.went_back, state.skipped_in_row = True, 0
        self.progress.write(f"{fault}; back to the weights of step {state.best_step:,}, with half the rate")
        self.save()

    def validation_due(self) -> bool:
        """Whether validate_every updates have passed and, of limited time, another one stays within its share.

        Not in the middle of skipped updates, whose weights may be at fault.
        """
        state = self.state
        if state.skipped_in_row or state.step - state.validated_step < self.settings.validate_every:
            return False
        cost = state.validation_seconds + state.last_validation_seconds
        return not self.settings.max_minutes or cost <= VALIDATION_SHARE * (self.seconds() - state.validation_seconds)

    def validate(self) -> None:
        """Perplexity on all of dev, BLEU on a sample of it; keep the weights if they are the best so far."""
        state = self.state
        begun = self.seconds()
        with self.average.applied() if self.average is not None else nullcontext():
            self.model.eval()
            try:
                with self._broken_off_by_a_stop():
                    dev_perplexity = self._dev_perplexity()
                    bleu = self.dev_bleu(self.model)
            except StoppedError:
                self._agree()
                self._session_start += self.seconds() - begun  # lost time is not charged
                return
            better = self._better(bleu, dev_perplexity)
            if better:
                state.best_bleu, state.best_perplexity, state.best_step = bleu, dev_perplexity, state.step
                metadata = {
                    "step": str(state.step),
                    "dev_bleu": f"{bleu:.4f}",
                    "dev_perplexity": f"{dev_perplexity:.4f}",
                }
                if self.processes.is_first:
                    self.run.save_tensors("best", self.model.state_dict(), metadata)
        state.without_improvement = 0 if better else state.without_improvement + 1
        if self.settings.schedule == "plateau" and not better:
            state.decay /= 2
        state.validated_step = state.step
        self._agree()
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
            skipped=state.skipped,
            split=state.split,
            left_out=state.left_out,
        )
        self.save()
        self.progress.restart_clock()

    def _dev_perplexity(self) -> float:
        batches = self.processes.part(self.dev.plan(0))
        return perplexity(*self.processes.sums(*model_likelihood(self.model, (self.dev.batch(0, b) for b in batches))))

    @contextmanager
    def _broken_off_by_a_stop(self) -> Iterator[None]:
        if self._stopping:
            raise StoppedError
        # Others would wait for a process that breaks off alone.
        self._stoppable = self.processes.count == 1
        try:
            yield
        finally:
            self._stoppable = False

    def _better(self, bleu: float, dev_perplexity: float) -> bool:
        if max(bleu, self.state.best_bleu) < NOISE:
            return dev_perplexity < self.state.best_perplexity
        return bleu > self.state.best_bleu

    def seconds(self) -> float:
        """Wall-clock time of the loop so far, over all sessions; looked at once an update."""
        return self._now - self._session_start

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

    def checkpoint_due(self) -> bool:
        """Whether checkpoint_steps or checkpoint_minutes have passed since the last one."""
        steps, minutes = self.settings.checkpoint_steps, self.settings.checkpoint_minutes
        if steps and self.state.step - self._saved_step >= steps:
            return True
        return bool(minutes) and self.seconds() - self._saved_seconds >= 60 * (minutes or 0.0)

    def save(self) -> None:
        """Write a checkpoint to resume from; not in the middle of skipped updates, whose weights may be at fault."""
        if not self.state.skipped_in_row:
            self.state.seconds = self.seconds()
            random = self.processes.gather(resuming.random_states(self.device))
            if self.processes.is_first:
                tensors = resuming.collect(self.model, self.optimizer, self.average, random)
                metadata = {resuming.STATE: resuming.state_to_json(self.state), "metrics": self.progress.metrics}
                self.run.checkpoints.save(tensors, metadata)
            self._saved_step, self._saved_seconds = self.state.step, self.seconds()

    def resume(self) -> None:
        """Go on from the last checkpoint as if the run had never stopped.

        Raises:
            UserError: no checkpoint can be read, or it is not one of this version.
        """
        # The others' view of the disk may be older, or another disk.
        tensors, metadata, origin = self.processes.from_first(
            self.run.checkpoints.load() if self.processes.is_first else ({}, {}, self.run.path)
        )
        try:
            state = resuming.state_from_json(metadata[resuming.STATE])
            resuming.restore(tensors, self.model, self.optimizer, self.average)
            resuming.restore_random(tensors, self.device, self.processes.rank)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            reason = str(error).splitlines()[-1].strip()[:200]
            raise UserError(f"{origin}: holds no trainer state that fits ({reason}); start a new run") from None
        if self.processes.is_first:
            self.run.checkpoints.make_last(origin)
        if (state.batch_tokens or self.state.batch_tokens, state.epoch_batches) != (
            self.state.batch_tokens,
            self.state.epoch_batches,
        ):
            # With another batch size "batch n of the epoch" is another place: the epoch under way begins anew.
            state.epoch += state.batch >= state.epoch_batches
            state.batch = 0
        state.batch_tokens, state.epoch_batches = self.state.batch_tokens, self.state.epoch_batches
        if state.peak_rate != self.settings.learning_rate:
            state.went_back, state.peak_rate = False, self.settings.learning_rate
        self.state = state
        self.metrics = metadata["metrics"] if "metrics" in metadata else self.run.metrics_up_to(state.step)
