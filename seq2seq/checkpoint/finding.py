"""Which run is meant, where none or only part of a name is given."""

import glob
import logging
import math
import os
from pathlib import Path
from typing import Any

from seq2seq.checkpoint.run_directory import RunDirectory
from seq2seq.errors import UserError

log = logging.getLogger(__name__)

RUNS = Path("runs")


def find_run(model: str | None) -> RunDirectory:
    """The run named by --model, else by SEQ2SEQ_MODEL, else the newest finished one under runs/.

    Raises:
        UserError: there is none.
    """
    model = model or os.environ.get("SEQ2SEQ_MODEL")
    if model:
        run = RunDirectory(Path(model))
        run.info()
        return run
    finished = [(_time(info), run) for info, run in _runs("*") if info.get("status") == "finished"]
    if not finished:
        raise UserError(f"no finished run under {RUNS}/: train one with `make train`, or name one with --model DIR")
    return max(finished, key=lambda each: each[0])[1]


def find_unfinished(name: str) -> RunDirectory:
    """The run of configs/NAME.yaml that was begun last and not finished.

    Raises:
        UserError: there is none.
    """
    stamp = "[0-9]" * 8 + "-" + "[0-9]" * 6
    unfinished = [run for info, run in _runs(f"{glob.escape(name)}-{stamp}") if info.get("status") == "running"]
    if not unfinished:
        raise UserError(f"--resume: no unfinished run {RUNS}/{name}-*; name it with --run DIR")
    return max(unfinished, key=lambda run: run.path.name)


def _time(info: dict[str, Any]) -> float:
    finished = info.get("finished")
    return finished if isinstance(finished, int | float) and math.isfinite(finished) else 0.0


def _runs(pattern: str) -> list[tuple[dict[str, Any], RunDirectory]]:
    """What run.json says, and the run, of each readable run under runs/ whose name fits the pattern."""
    found = []
    for path in RUNS.glob(f"{pattern}/run.json"):
        run = RunDirectory(path.parent)
        try:
            found.append((run.info(), run))
        except UserError as error:
            log.warning(f"warning: passed over: {error}")
    return found
