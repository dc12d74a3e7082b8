"""Show where the time of a training goes, by phase of an update and by PyTorch operation.

    python scripts/profile_training.py [--attend before] [--batch-tokens 512] [--threads 1]

The training is a real one: seq2seq.train in a process of its own. The profiler slows it down, small operations most.
"""

import argparse
import logging
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarking.settings import add_arguments, prepare_training
from benchmarking.training_process import TrainingProcess
from seq2seq import cli

Timed = tuple[str, float, int]
"""Name, seconds, calls."""


def main(given: argparse.Namespace) -> None:
    """Profile and print."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        ours = prepare_training(given, given.sizes or "default", folder)
        with TrainingProcess("seq2seq", ours.command, folder / "log", given.threads) as training:
            plain = training.run(given.warm_up)
            training.ask("record")
            block = training.run(given.seconds)
            table = training.ask("operations")
    batches = block.work.batches
    print(f"{batches} batches of {block.work.target_tokens / batches:,.0f} target tokens, threads: {given.threads}")
    rates = [each.work.target_tokens / each.seconds for each in (plain, block)]
    print(f"{rates[0]:,.0f} target tokens/s while warming up, {rates[1]:,.0f} under the profiler")
    for title, key in (("phase", "phases"), ("operation (its own time)", "operations")):
        print("", *lines(title, table[key][: given.top], block.seconds, batches), sep="\n")


def lines(title: str, rows: Sequence[Timed], seconds: float, batches: int) -> list[str]:
    """The rows as shares of the whole time, and as milliseconds and calls for each batch."""
    return [
        f"{title:<44}{'share':>8}{'ms':>10}{'calls':>9}",
        *(
            f"{name[:43]:<44}{spent / seconds:>8.1%}{1e3 * spent / batches:>10.2f}{calls / batches:>9.1f}"
            for name, spent, calls in rows
        ),
    ]


def arguments() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    add_arguments(parser)
    add = parser.add_argument
    add("--seconds", type=float, default=10.0, metavar="S", help="that are recorded (default: 10)")
    add("--warm-up", type=float, default=10.0, metavar="S", help="before (default: 10)")
    add("--top", type=int, default=15, metavar="N", help="lines of each table (default: 15)")
    return parser


if __name__ == "__main__":
    logging.getLogger("seq2seq.data").setLevel(logging.WARNING)
    sys.exit(cli.run(arguments(), main))
