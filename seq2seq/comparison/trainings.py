"""The trainings of a comparison: one after another, each in a process of its own, so that each begins alike."""

import logging
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from seq2seq import cli
from seq2seq.checkpoint import RunDirectory
from seq2seq.config import Config
from seq2seq.config.comparison import Comparison
from seq2seq.config.differences import differences
from seq2seq.errors import UserError

log = logging.getLogger(__name__)


def train_variants(comparison: Comparison, output: Path, given: Sequence[str]) -> dict[str, list[RunDirectory]]:
    """Train what is not trained yet, and go on with what is begun.

    Args:
        comparison: variants, seeds and budget.
        output: holds the run directories, VARIANT-sSEED.
        given: KEY=VALUE overrides of the base.

    Returns:
        Variant -> its runs, in the order of the seeds.

    Raises:
        UserError: a configuration is not acceptable, a run of another one stands there, or a training failed.
        Interrupted: Ctrl-C or SIGTERM came; the training under way has saved.
    """
    trainings = [(variant, seed) for seed in comparison.seeds for variant in comparison.variants]
    runs = {each: RunDirectory(output / f"{each[0]}-s{each[1]}") for each in trainings}
    # All are looked at before the first is trained: a fault in the last must not come to light after hours.
    for (variant, seed), run in runs.items():
        _refuse_another(run, comparison.config(variant, seed, given), variant)
    waiting = {each: run for each, run in runs.items() if not _finished(run)}
    budget = "" if comparison.minutes is None else f" of {comparison.minutes:g} minutes"
    log.info(f"{len(trainings)} trainings{budget}, {len(trainings) - len(waiting)} of them done; in {output}")
    for number, ((variant, seed), run) in enumerate(waiting.items(), start=1):
        log.info(f"training {number} of {len(waiting)}: {variant}, seed {seed}")
        _train(comparison, variant, seed, run, given)
    return {variant: [runs[variant, seed] for seed in comparison.seeds] for variant in comparison.variants}


def _refuse_another(run: RunDirectory, config: Config, variant: str) -> None:
    """See to it that a run directory that exists is one of this very configuration."""
    if not run.exists:
        if run.path.exists() and (not run.path.is_dir() or any(run.path.iterdir())):
            raise UserError(
                f"{run.path}: holds no run, but stands where that of variant {variant} goes; remove it or name "
                f"another --output"
            )
        return
    for key, there, asked in differences(run.config(), config):
        raise UserError(
            f"{run.path}: was trained with {key}: {there}, but variant {variant} now has {asked}; "
            f"remove the folder or name another --output"
        )


def _finished(run: RunDirectory) -> bool:
    return run.exists and run.info().get("status") == "finished"


def _train(comparison: Comparison, variant: str, seed: int, run: RunDirectory, given: Sequence[str]) -> None:
    sets = [part for each in comparison.overrides(variant, seed, given) for part in ("--set", each)]
    resume = ["--resume"] if run.exists else []
    command = [sys.executable, "-m", "seq2seq.train", comparison.base, *sets, "--run", str(run.path), *resume]
    if status := run_stoppably(command):
        raise UserError(
            f"{run.path}: training of variant {variant} failed with exit status {status}, see above; "
            f"mend it, or leave the variant out with --only"
        )


def run_stoppably(command: Sequence[str]) -> int:
    """Run a training; outlive Ctrl-C, which the terminal gives to it as well, until it has saved; pass SIGTERM on.

    Returns:
        Its exit status.

    Raises:
        Interrupted: one of the signals came.
    """
    stopped: list[int] = []
    child: subprocess.Popen[bytes] | None = None

    def stop(number: int, frame: object) -> None:
        stopped.append(number)
        if number == signal.SIGTERM and child is not None:
            child.terminate()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        # What came before there was a child has not reached it.
        if stopped:
            child.terminate()
        status = child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if stopped or status in cli.INTERRUPTIONS:
        raise cli.Interrupted(128 + stopped[0] if stopped else status)
    return status
