"""One function over many pieces of a corpus, on all cores, in order, a few pieces at a time."""

import itertools
import os
import pickle
import queue
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")

PIECE = 10_000
"""Sentence pairs in a piece."""
_ALONE = 5
"""Pieces that are done without other processes: those take a while to start, and most corpora are small."""
_MOST = 8
"""Processes at most; more would wait for the one that reads and writes."""
_COMMAND = "from seq2seq.data.workers import serve; serve()"


def in_pieces(items: Iterable[Piece], size: int = PIECE) -> Iterator[list[Piece]]:
    """The items, so many at a time."""
    items = iter(items)
    return iter(lambda: list(itertools.islice(items, size)), [])


class Workers:
    """Processes that are started when there is much to do, and ended with the block.

    They are Python started anew, on every system, and end when their input does, so none is left behind by a process
    that is killed. Unlike those of multiprocessing they do not run the caller's script again, which then need not be
    guarded by `if __name__ == "__main__":`.

    Args:
        count: of processes; None: one for each core that this process may use.
    """

    def __init__(self, count: int | None = None) -> None:
        self._count = min(count or _usable_cores(), _MOST)
        self._processes = list[subprocess.Popen[bytes]]()
        self._idle = queue.SimpleQueue[subprocess.Popen[bytes]]()
        self._threads = ThreadPoolExecutor(self._count)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            for process in self._processes:
                process.kill()
        self._threads.shutdown(cancel_futures=True)
        for process in self._processes:
            process.communicate()

    def map(self, function: Callable[[Piece], Result], pieces: Iterable[Piece]) -> Iterator[Result]:
        """Results in the order of the pieces, of which no more are held than the processes need.

        Function, pieces and results must be such that they can be pickled. What a process does not finish because it
        died is done here.

        Raises:
            Exception: what the function raises.
        """
        pieces = iter(pieces)
        if not self._processes:
            yield from map(function, itertools.islice(pieces, _ALONE) if self._count > 1 else pieces)
        waiting: deque[tuple[Piece, Future[Any]]] = deque()
        for piece in pieces:
            if not self._processes:
                self._start()
            waiting.append((piece, self._threads.submit(self._hand_over, function, piece)))
            if len(waiting) > 2 * self._count:
                yield _result(function, *waiting.popleft())
        while waiting:
            yield _result(function, *waiting.popleft())

    def _start(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(Path(each).resolve()) for each in sys.path)}
        for _ in range(self._count):
            process = subprocess.Popen(
                [sys.executable, "-c", _COMMAND], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            self._processes.append(process)
            self._idle.put(process)

    def _hand_over(self, function: Callable[[Piece], Result], piece: Piece) -> tuple[bool, Any]:
        """Have a process do a piece: (True, its result) or (False, what it raised)."""
        process = self._idle.get()
        try:
            assert process.stdin is not None and process.stdout is not None
            pickle.dump((function, piece), process.stdin)
            process.stdin.flush()
            answer: tuple[bool, Any] = pickle.load(process.stdout)
            return answer
        finally:
            self._idle.put(process)


def _result(function: Callable[[Piece], Result], piece: Piece, future: "Future[tuple[bool, Any]]") -> Result:
    try:
        done, result = future.result()
    except (OSError, EOFError, pickle.UnpicklingError):  # the process has died
        return function(piece)
    if not done:
        raise result
    return result


def serve() -> None:
    """Be one of the processes: do what comes in on standard input until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started us
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # what a library prints is no answer
        while True:
            try:
                function, piece = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            try:
                answer = True, function(piece)
            except Exception as error:
                answer = False, error
            pickle.dump(answer, answers)
            answers.flush()


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
