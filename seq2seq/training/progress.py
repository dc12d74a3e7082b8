"""What a person and a program see of a training: a tqdm bar on stderr, and metrics.jsonl."""

import json
import time
from pathlib import Path
from typing import Any

from tqdm import tqdm


class Progress:
    """The bar counts percents of the budget, or updates where no budget is known."""

    def __init__(self, metrics: Path, started: float) -> None:
        self.metrics = metrics
        self.bar = tqdm(
            total=100.0,
            initial=round(100 * started, 1),
            unit="%",
            bar_format="{desc} {percentage:3.0f}%|{bar}| {elapsed}<{remaining} {postfix}",
            dynamic_ncols=True,
        )
        self.restart_clock()

    def speed(self) -> float:
        """Target tokens per second since the last validation."""
        return self.tokens / max(self.until - self.since, 1e-9)

    def step(self, share: float, tokens: int, epoch: int, loss: float) -> None:
        """Show an update."""
        self.tokens += tokens
        self.until = time.monotonic()
        self.bar.n = min(round(100 * share, 1), 100.0)
        self.bar.set_description_str(f"epoch {epoch + 1}", refresh=False)
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
        """Append a line to metrics.jsonl."""
        with self.metrics.open("a", encoding="utf-8", newline="\n") as file:
            file.write(json.dumps(fields) + "\n")

    def restart_clock(self) -> None:
        """Count the speed from now on, so that validation is left out of it."""
        self.tokens = 0
        self.since = self.until = time.monotonic()

    def close(self) -> None:
        """Finish the bar."""
        self.bar.close()
