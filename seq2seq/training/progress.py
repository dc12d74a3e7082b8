"""What a person and a program see of a training: a tqdm bar on stderr, and metrics.jsonl."""

import json
import math
import sys
import time
from pathlib import Path
from typing import Any

from tqdm import tqdm

from seq2seq.data.files import write_text

BUDGETED = "{desc} {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
ENDLESS = "{desc} {elapsed}{postfix}"


class Progress:
    """A bar over the budget, or without an end where patience alone ends training.

    Args:
        file: where the metrics go; None where another process shows and writes all.
        share: share of the budget that is used already, 0 to 1; None without a budget.
        metrics: lines of the file so far.
    """

    def __init__(self, file: Path | None, share: float | None, metrics: str = "") -> None:
        self.file = file
        self.take(metrics)
        self.bar = tqdm(
            total=None if share is None else 1.0,
            initial=share or 0.0,
            bar_format=ENDLESS if share is None else BUDGETED,
            dynamic_ncols=True,
            miniters=0,
            disable=file is None,
        )
        self.restart_clock()

    def speed(self) -> float:
        """Target tokens per second since the last validation."""
        return self.tokens / max(self.until - self.since, 1e-9)

    def step(self, share: float, tokens: int, epoch: int, step: int, loss: float, skipped: int) -> None:
        """Show an update."""
        self.tokens += tokens
        self.until = time.monotonic()
        self.bar.n = share
        self.bar.set_description_str(f"epoch {epoch + 1}, step {step:,}", refresh=False)
        faults = f", {skipped:,} skipped" if skipped else ""
        self.bar.set_postfix_str(f"loss {loss:.2f}, {self.speed():,.0f} tokens/s{faults}", refresh=False)
        self.bar.update(0)

    def report(self, line: str, **fields: Any) -> None:
        """Write a line above the bar and its fields to metrics.jsonl."""
        if self.file is not None:
            self.write(line)
        self.record(**fields)

    def write(self, line: str) -> None:
        """Write a line above the bar."""
        self.bar.write(line, file=sys.stderr)

    def record(self, **fields: Any) -> None:
        """Add a line to metrics.jsonl; what is not finite becomes null, for JSON has no word for it."""
        finite = {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in fields.items()
        }
        self.take(self.metrics + json.dumps(finite, allow_nan=False) + "\n")

    def take(self, metrics: str) -> None:
        """Put these lines into metrics.jsonl, whole or not at all."""
        self.metrics = metrics
        if self.file is not None:
            write_text(self.file, metrics)

    def restart_clock(self) -> None:
        """Count the speed from now on, so that validation is left out of it."""
        self.tokens = 0
        self.since = self.until = time.monotonic()

    def close(self) -> None:
        """Finish the bar."""
        self.bar.close()
