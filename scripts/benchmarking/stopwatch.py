"""A stopwatch between the updates of a training, worked by another process.

The training stands still until it is told to run for some seconds, says what it did in them, and stands still again:
so trainings can run in turn on one machine, each in a process of its own. Commands come as lines of JSON on standard
input, answers leave on standard output, and whatever the training prints goes to standard error.

The peers' environments run this module, too: it imports the standard library alone.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Work(NamedTuple):
    """What batches consist of; </s> counts as a token, padding does not."""

    batches: int = 0
    sentences: int = 0
    source_tokens: int = 0
    target_tokens: int = 0
    token_pairs: int = 0
    """Source tokens times target tokens, summed over the sentences: the scores that attention needs."""
    positions: int = 0
    """Of both sides, padding included."""

    @classmethod
    def of_batch(cls, sources: Sequence[int], targets: Sequence[int]) -> "Work":
        """Of one batch, from the lengths of both sides of its sentences, </s> included."""
        pairs = sum(source * target for source, target in zip(sources, targets, strict=True))
        positions = len(sources) * (max(sources) + max(targets))
        return cls(1, len(sources), sum(sources), sum(targets), pairs, positions)

    @classmethod
    def total(cls, each: "Iterable[Work]") -> "Work":
        """The sum."""
        return cls(*map(sum, zip(cls(), *each, strict=True)))

    @property
    def padding_share(self) -> float:
        """Share of padding among all positions, both sides."""
        return 1 - (self.source_tokens + self.target_tokens) / self.positions if self.positions else 0.0


class Stopwatch:
    """Stands between two updates.

    Args:
        answers: what else can be asked for while the training stands still, by name.
    """

    def __init__(self, answers: Mapping[str, Callable[..., Any]] | None = None) -> None:
        self._answers = answers or {}
        self._replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._begun = self._end = 0.0
        self._done: list[Work] = []
        self._next: Work | None = None

    def before_update(self, model: Any, work: Work) -> None:
        """To be called before each update with what it will work on."""
        now = time.perf_counter()
        if self._next is None:
            self._reply({"parameters": sum(parameter.numel() for parameter in model.parameters())})
            self._wait()
        else:
            self._done.append(self._next)
            if now >= self._end:
                self._reply({"seconds": now - self._begun, "work": Work.total(self._done), "memory": peak_memory()})
                self._wait()
        self._next = work

    def _wait(self) -> None:
        """Answer until the training is to run or to end."""
        for line in sys.stdin:
            command, *arguments = json.loads(line)
            if command == "run":
                self._done = []
                self._begun = time.perf_counter()
                self._end = self._begun + arguments[0]
                return
            self._reply(self._answers[command](*arguments))
        # Nobody asks any more. The training's own way out would validate, test and save.
        os._exit(0)

    def _reply(self, answer: Any) -> None:
        print(json.dumps(answer), file=self._replies, flush=True)


def peak_memory() -> int | None:
    """Most memory that this process has held so far, in bytes; None where the system does not tell."""
    status = Path("/proc/self/status")
    if status.is_file():
        # Not ru_maxrss, which begins on Linux with what the parent held when it started this process.
        return 1024 * next(int(line.split()[1]) for line in status.read_text().splitlines() if "VmHWM" in line)
    if sys.platform == "win32":
        return None
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
