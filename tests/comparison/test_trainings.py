"""Trainings of a comparison can be stopped at any time, and never write over something else."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from seq2seq.comparison import trainings
from seq2seq.config.comparison import load_comparison
from seq2seq.errors import UserError


class Child:
    """A training to which SIGTERM comes at some moment."""

    def __init__(self, moment: str) -> None:
        self.moment, self.terminated = moment, False

    def start(self, *arguments: object, **options: object) -> "Child":
        if self.moment == "start":
            signal.raise_signal(signal.SIGTERM)
        return self

    def terminate(self) -> None:
        self.terminated = True

    def wait(self) -> int:
        if self.moment == "wait":
            signal.raise_signal(signal.SIGTERM)
        return 143 if self.terminated else 0


@pytest.mark.parametrize("moment", ["start", "wait"])
def test_sigterm_reaches_the_training_also_while_it_is_being_started(
    moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = Child(moment)
    monkeypatch.setattr(subprocess, "Popen", child.start)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        trainings.run_stoppably(["train"])
    assert child.terminated
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_training_s_status_is_given_and_that_of_a_stopped_one_stops_the_comparison() -> None:
    assert trainings.run_stoppably([sys.executable, "-c", "raise SystemExit(3)"]) == 3
    with pytest.raises(KeyboardInterrupt):
        trainings.run_stoppably([sys.executable, "-c", "raise SystemExit(130)"])


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_stands_where_a_run_goes_is_refused_before_anything_is_trained(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "base.yaml").write_text("training: {max_steps: 5}\n", encoding="utf-8")
    (tmp_path / "pair.yaml").write_text("base: base.yaml\nvariants: {a: , b: }\n", encoding="utf-8")
    place = tmp_path / "out" / "b-s1"
    place.parent.mkdir()
    if kind == "folder":
        place.mkdir()
        place = place / "notes.txt"
    place.write_text("mine", encoding="utf-8")
    started: list[object] = []
    monkeypatch.setattr(trainings, "run_stoppably", started.append)
    with pytest.raises(UserError) as caught:
        trainings.train_variants(load_comparison(tmp_path / "pair.yaml"), tmp_path / "out", [])
    run = tmp_path / "out" / "b-s1"
    assert str(caught.value).startswith(f"{run}: holds no run, but stands where that of variant b goes; remove it")
    assert str(caught.value).endswith("name another --output")
    assert started == []
    assert place.read_text(encoding="utf-8") == "mine"


def test_a_training_that_fails_names_variant_and_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "base.yaml").write_text("training: {max_steps: 5}\n", encoding="utf-8")
    (tmp_path / "pair.yaml").write_text("base: base.yaml\nvariants: {a: , b: }\n", encoding="utf-8")
    monkeypatch.setattr(trainings, "run_stoppably", lambda command: 2)
    with pytest.raises(UserError, match="training of variant a failed with exit status 2"):
        trainings.train_variants(load_comparison(tmp_path / "pair.yaml"), tmp_path / "out", [])
