"""Several processes of torchrun train as one does with the joined batch, and end together."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from seq2seq.checkpoint import RunDirectory
from seq2seq.training.processes import Processes
from tests.helpers import ROOT

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="needs torch.distributed")

STILL = ("training.max_steps=20", "training.validate_every=10", "training.batch_tokens=200", "training.accumulate=2")
"""Without dropout nothing is drawn, so that one process and two differ by the order of sums alone."""


def torchrun(digits: Path, folder: Path, count: int, *sets: str, more: tuple[str, ...] = ()) -> "subprocess.Popen[str]":
    """A training in that many processes, as a user starts it; `--` keeps --run from being taken for torchrun's."""
    line = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(count), "--standalone", "-m", "--"]
    line += ["seq2seq.train", str(digits / "digits.yaml"), "--run", "run", *more, *(f"--set={each}" for each in sets)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    folder.mkdir(exist_ok=True)
    return subprocess.Popen(
        line, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    )


def finished(process: "subprocess.Popen[str]") -> str:
    """What it wrote to stderr."""
    stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 0, stderr[-3000:]
    assert stdout.count("run directory: ") == 1, "one process alone reports"
    return stderr


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text("utf-8").splitlines()]


def test_alone_a_process_is_all_there_are() -> None:
    alone = Processes()
    assert alone.is_first and alone.sums(1.0, 2.0) == (1.0, 2.0) and alone.gather("x") == ["x"]
    assert alone.part([1, 2, 3]) == [1, 2, 3] and alone.from_first(5) == 5


def test_two_processes_train_as_one_does_with_the_joined_batch(digits: Path, tmp_path: Path) -> None:
    for count in (1, 2, 3):
        finished(torchrun(digits, tmp_path / str(count), count, *STILL))
    one = RunDirectory(tmp_path / "1/run")
    weights, state = one.load_tensors("last")[0], json.loads(one.load_tensors("last")[1]["state"])
    for count in (2, 3):
        tensors, metadata = RunDirectory(tmp_path / str(count) / "run").load_tensors("last")
        for name in (name for name in weights if name.startswith("model.")):
            torch.testing.assert_close(tensors[name], weights[name], atol=2e-4, rtol=1e-3)
        assert json.loads(metadata["state"])["order"] == state["order"], "the same data in the same order"
        for ours, theirs in zip(metrics(tmp_path / str(count)), metrics(tmp_path / "1"), strict=True):
            assert ours["dev_perplexity"] == pytest.approx(theirs["dev_perplexity"], rel=1e-3)
            assert (ours["step"], ours["epoch"]) == (theirs["step"], theirs["epoch"])


def test_a_resumed_run_of_two_processes_ends_as_one_that_was_never_stopped(digits: Path, tmp_path: Path) -> None:
    sets = (*STILL, "encoder.dropout=0.3", "training.checkpoint_steps=7", "training.schedule=constant")
    process = torchrun(digits, tmp_path / "broken", 2, *sets, "training.max_steps=100000")
    wait_for_step(tmp_path / "broken", 7)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    end = f"training.max_steps={step_of(tmp_path / 'broken') + 20}"
    finished(torchrun(digits, tmp_path / "broken", 2, *sets, end, more=("--resume",)))
    finished(torchrun(digits, tmp_path / "whole", 2, *sets, end))
    broken, whole = (RunDirectory(tmp_path / name / "run").load_tensors("last")[0] for name in ("broken", "whole"))
    assert broken.keys() == whole.keys() and "random.cpu.1" in whole, "each process keeps its own random state"
    for name, tensor in whole.items():
        assert torch.equal(broken[name], tensor), name


def wait_for_step(folder: Path, step: int) -> None:
    while step_of(folder) < step:
        time.sleep(0.1)


def step_of(folder: Path) -> int:
    run = RunDirectory(folder / "run")
    if not (run.path / "last.safetensors").exists():
        return -1
    return int(json.loads(run.checkpoints.load()[1]["state"])["step"])


def test_a_process_that_dies_ends_the_training_and_leaves_a_good_checkpoint(digits: Path, tmp_path: Path) -> None:
    process = torchrun(digits, tmp_path, 2, "training.max_steps=100000", "training.checkpoint_steps=5")
    wait_for_step(tmp_path, 5)
    children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, encoding="utf-8").stdout.split()
    os.kill(int(children[-1]), signal.SIGKILL)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "another process of this training has ended" in stderr or "SIGKILL" in stderr or "Signal 9" in stderr
    step = step_of(tmp_path)
    assert step >= 5
    sets = (f"training.max_steps={step + 5}",)
    finished(torchrun(digits, tmp_path, 1, *sets, more=("--resume",)))
    assert metrics(tmp_path)[-1]["step"] == step + 5, "also with another number of processes"
