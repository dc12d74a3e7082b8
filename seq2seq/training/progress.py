"""What a person and a program see of a training: a tqdm bar on stderr, and metrics.jsonl."""

import json
import math
import time
from pathlib import Path
from typing import Any

from tqdm import tqdm

BUDGETED = "{desc} {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
ENDLESS = "{desc} {elapsed}{postfix}"


class Progress:
    """A bar over the budget, or without an end where patience alone ends training.

    Args:
        metrics: the file that `record` appends to.
        share: share of the budget that is used already, 0 to 1; None without a budget.
    """

    def __init__(self, metrics: Path, share: float | None) -> None:
        self.metrics = metrics
        self.bar = tqdm(
            total=None if share is None else 1.0,
            initial=share or 0.0,
            bar_format=ENDLESS if share is None else BUDGETED,
            dynamic_ncols=True,
            miniters=0,
        )
        self.restart_clock()

    def speed(self) -> float:
        """Target tokens per second since the last validation."""
        return self.tokens / max(self.until - self.since, 1e-9)

    def step(self, share: float, tokens: int, epoch: int, step: int, loss: float) -> None:
        """Show an update."""
        self.tokens += tokens
        self.until = time.monotonic()
        self.bar.n = share
        self.bar.set_description_str(f"epoch {epoch + 1}, step {step:,}", refresh=False)
        self.bar.set_postfix_str(f"loss {loss:.2f}, {self.speed():,.0f} tokens/s", refresh=False)
        self.bar.update(0)

    def report(self, line: str, **fields: Any) -> None:
        """Write a line above the bar and its fields to metrics.jsonl."""
        self.write(line)
        self.record(**fields)

    def write(self, line: str) -> None:
        """Write a line above the bar."""
        self.bar.write(line, file=self.bar.fp)

    def record(self, **fields: Any) -> None:
        """Append a line to metrics.jsonl; what is not finite becomes null, for JSON has no word for it."""
        finite = {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in fields.items()
        }
        with self.metrics.open("a", encoding="utf-8", newline="\n") as file:
            file.write(json.dumps(finite, allow_nan=False) + "\n")

    def restart_clock(self) -> None:
        """Count the speed from now on, so that validation is left out of it."""
        self.tokens = 0
        self.since = self.until = time.monotonic()

    def close(self) -> None:
        """Finish the bar."""
        self.bar.close()
