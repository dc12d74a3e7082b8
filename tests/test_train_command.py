"""The train command under signals, beside another one, and on a full disk."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from seq2seq.checkpoint import RunDirectory
from seq2seq.train import _stop_on_signal
from tests.helpers import ROOT, command

ENDLESS = ("--set", "training.max_steps=100000000", "--set", "training.validate_every=100000")
POSIX = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")


@contextmanager
def training(digits: Path, folder: Path, *more: str) -> Iterator["subprocess.Popen[str]"]:
    """A training under way, in its first updates."""
    line = [sys.executable, "-m", "seq2seq.train", str(digits / "digits.yaml"), "--run", "runs/x", *ENDLESS, *more]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        line, cwd=folder, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    )
    try:
        while not (folder / "runs/x/last.safetensors").exists() and process.poll() is None:
            time.sleep(0.02)
        yield process
    finally:
        process.kill()
        process.communicate()


@POSIX
@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_saves_and_says_how_to_go_on(name: str, status: int, digits: Path, tmp_path: Path) -> None:
    with training(digits, tmp_path) as process:
        process.send_signal(getattr(signal, name))
        stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (status, ""), stderr
    assert "Traceback" not in stderr and "model: " in stderr and "run directory: runs/x" in stderr
    resume = stderr.strip().splitlines()[-1].partition("go on from the last checkpoint with: ")[2]
    line = shlex.split(resume)
    assert line[1:] == ["-m", "seq2seq.train", str(digits / "digits.yaml"), "--run", "runs/x", "--resume", *ENDLESS]
    before = json.loads(RunDirectory(tmp_path / "runs/x").checkpoints.load()[1]["state"])["step"]
    sets = [f"--set=training.max_steps={before + 5}"]
    done = command("train", *line[3:], *sets, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "runs/x/metrics.jsonl").read_text("utf-8").splitlines()[-1])["step"] == before + 5


@POSIX
def test_a_second_signal_ends_at_once_and_harms_nothing_on_disk(digits: Path, tmp_path: Path) -> None:
    with training(digits, tmp_path, "--set", "training.checkpoint_steps=1") as process:
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode in (-signal.SIGTERM, 143)
    assert RunDirectory(tmp_path / "runs/x").checkpoints.load()[0]
    done = command("train", digits / "digits.yaml", "--run", "runs/x", "--resume", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@POSIX
def test_what_is_ignored_on_purpose_stays_ignored(digits: Path, tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does; a child inherits it
    try:
        with training(digits, tmp_path) as process:
            process.send_signal(signal.SIGHUP)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert process.returncode == 143, "SIGTERM was the first signal that it heard of"


@POSIX
def test_after_the_first_signal_all_of_them_end_at_once() -> None:
    class Stoppable:
        stopped = 0

        def request_stop(self) -> None:
            self.stopped += 1

    trainer = Stoppable()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    with _stop_on_signal(trainer) as caught:  # type: ignore[arg-type]
        signal.raise_signal(signal.SIGTERM)
        assert (trainer.stopped, caught) == (1, [signal.SIGTERM])
        assert [signal.getsignal(number) for number in numbers] == [signal.SIG_DFL] * 3
    assert [signal.getsignal(number) for number in numbers] == before


def test_two_trainings_never_share_a_run_and_a_killed_one_leaves_no_lock(digits: Path, tmp_path: Path) -> None:
    line = [digits / "digits.yaml", "--run", "runs/x", "--resume"]
    with training(digits, tmp_path) as process:
        done = command("train", *line, cwd=tmp_path)
        assert process.poll() is None, "the first one is left alone"
    assert done.returncode == 2
    assert (
        done.stderr.strip()
        .splitlines()[-1]
        .endswith("runs/x: another training is at work here; stop it first, or name another --run")
    )
    assert (tmp_path / "runs/x/.lock").exists(), "a killed training leaves the file"
    assert command("train", *line, cwd=tmp_path).returncode == 0


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[None]:
    """A file system of that size in the folder."""
    mount = shutil.which("mount")
    size = f"size={kilobytes}k"
    if (
        mount is None
        or subprocess.run([mount, "-t", "tmpfs", "-o", size, "tmpfs", folder], capture_output=True).returncode
    ):
        pytest.skip("needs the right to mount a tmpfs")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def file_limit(kilobytes: int) -> Callable[[], None]:
    """Run in the child: no file may grow larger, as under a quota."""
    import resource

    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (kilobytes << 10, kilobytes << 10))


SETS = ("--set=training.max_steps=60", "--set=training.checkpoint_steps=20", "--set=training.validate_every=50")


def test_a_full_disk_ends_training_and_leaves_the_checkpoint_before(digits: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    line = [digits / "digits.yaml", "--run", "disk/x", *SETS]
    with small_disk(disk, 1300):
        done = command("train", *line, cwd=tmp_path)
        assert done.returncode == 2, "no place for last, previous and the next one"
        error = done.stderr.strip().splitlines()[-1]
        assert "disk/x/next.safetensors: cannot be written: No space left on device" in error
        assert "go on from the last checkpoint with:" in done.stderr
        run = RunDirectory(disk / "x")
        assert run.checkpoints.load()[0]
        assert not [path for path in run.path.iterdir() if path.suffix == ".tmp"]
        shutil.copytree(run.path, tmp_path / "larger")
    done = command("train", digits / "digits.yaml", "--run", "larger", "--resume", *SETS, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(os.name != "posix", reason="needs limits on the size of files")
def test_a_quota_ends_training_in_one_line_before_the_first_update(digits: Path, tmp_path: Path) -> None:
    done = command("train", digits / "digits.yaml", "--run", "x", *SETS, cwd=tmp_path, preexec_fn=file_limit(100))
    assert done.returncode == 2
    assert "x/next.safetensors: cannot be written: File too large" in done.stderr.strip().splitlines()[-1]
    done = command("train", digits / "digits.yaml", "--run", "x", "--resume", *SETS, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@POSIX
def test_a_reader_of_stderr_that_goes_away_does_not_end_a_training(digits: Path, tmp_path: Path) -> None:
    line = f"{sys.executable} -m seq2seq.train {digits}/digits.yaml --run x 2>&1 >report.txt | head -c 300 >/dev/null"
    done = subprocess.run(
        ["bash", "-c", f"{line}; exit ${{PIPESTATUS[0]}}"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0
    assert RunDirectory(tmp_path / "x").info()["status"] == "finished"
    assert "run directory: x" in (tmp_path / "report.txt").read_text("utf-8")
    closed = f"{sys.executable} -m seq2seq.train {digits}/digits.yaml --run y >report.txt 2>&-"
    done = subprocess.run(["bash", "-c", closed], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0


def test_without_a_checkpoint_a_run_is_not_begun_anew(digits: Path, tmp_path: Path) -> None:
    line = ["train", digits / "digits.yaml", "--run", "x", "--set=training.max_steps=3"]
    assert command(*map(str, line), cwd=tmp_path).returncode == 0
    RunDirectory(tmp_path / "x").write_info(status="running")
    for path in (tmp_path / "x").glob("[lp]*.safetensors"):
        path.unlink()
    done = command(*map(str, line), "--resume", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("no checkpoint is left to go on from; start a new run")) == (2, 1)


def test_changed_settings_are_said_or_refused_by_key(digits: Path, tmp_path: Path) -> None:
    with training(digits, tmp_path) as process:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    line = [digits / "digits.yaml", "--run", "runs/x", "--resume"]
    for key, value, before in (
        ("encoder.hidden_size", "50", "48"),
        ("tokenizer.target.kind", "words", "characters"),
        ("data.target_language", "de", "en"),
        ("seed", "7", "42"),
    ):
        done = command("train", *line, f"--set={key}={value}", cwd=tmp_path)
        assert done.returncode == 2
        assert f"runs/x: {key} is {value}, but the run was begun with {before}; only training, " in done.stderr
    changes = ["--set=training.learning_rate=1e-3", "--set=training.batch_tokens=400", "--set=training.max_minutes=1"]
    done = command("train", *line, *changes, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for said in ("learning_rate: 0.005 -> 0.001", "batch_tokens: 600 -> 400", "max_minutes: null -> 1.0"):
        assert f"changed since the run was begun or resumed: training.{said}" in done.stderr
