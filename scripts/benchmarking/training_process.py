"""A training in a process of its own, which stands still except when it is told to run."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from tqdm import tqdm

from benchmarking.settings import ROOT
from benchmarking.stopwatch import Work
from seq2seq.errors import UserError

SHOWN = 20
"""Last lines of what a training printed that are shown when it fails."""


class Block(NamedTuple):
    """Whole updates without a pause."""

    seconds: float
    work: Work
    memory: int | None
    """Most memory that the process has held up to the end of the block, in bytes."""


class TrainingProcess:
    """Starts a training and stops it before its first update.

    Args:
        name: as it is called in errors.
        command: one of the modules benchmarking.run_*.
        log: takes what it prints.
        threads: CPU threads.

    Raises:
        UserError: it ended before its first update.
    """

    def __init__(self, name: str, command: Sequence[str], log: Path, threads: int) -> None:
        self.name, self.log = name, log
        path = os.pathsep.join([str(ROOT / "scripts"), str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        count = str(threads)
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count}
        begun = time.monotonic()
        with log.open("w", encoding="utf-8") as output:
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, text=True
            )
        try:
            self.parameters: int = self._answer()["parameters"]
        except BaseException:
            self._process.kill()
            raise
        self.start_seconds = time.monotonic() - begun
        """From the start of the process to its first update."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self._process.kill()
        self._process.communicate()  # at the end of its commands it ends itself

    def run(self, seconds: float) -> Block:
        """Train for that long, to the end of an update."""
        answer = self.ask("run", seconds)
        return Block(answer["seconds"], Work(*answer["work"]), answer["memory"])

    def ask(self, command: str, *arguments: Any) -> Any:
        """What the process answers.

        Raises:
            UserError: it has ended.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([command, *arguments]) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            said = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-SHOWN:]
            tqdm.write("\n".join(said[:-1]), file=sys.stderr)
            last = said[-1] if said else "nothing was printed"
            raise UserError(f"{self.name}: its training ended with exit status {self._process.wait()}: {last}")
        return json.loads(line)
