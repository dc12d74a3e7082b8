"""A training with a stopwatch between its updates runs when it is told to, counts exactly, and ends when it is left."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarking.stopwatch import Work, peak_memory
from benchmarking.training_process import TrainingProcess
from seq2seq.errors import UserError

FAKE = """
import sys, time
from benchmarking.stopwatch import Stopwatch, Work

class Parameter:
    def numel(self):
        return 7

class Model:
    def parameters(self):
        return [Parameter(), Parameter()]

held, updates = [], 0
stopwatch = Stopwatch({"updates": lambda: updates, "hold": lambda size: held.append(b"x" * size)})
print("said by the training")
while True:
    stopwatch.before_update(Model(), Work.of_batch([3, 2], [4, 1]))
    updates += 1
    if sys.argv[1:] == [str(updates)]:
        raise ValueError("fell over")
    time.sleep(0.002)
"""


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    """A training that does nothing, on sentences of 3 and 2 source and 4 and 1 target tokens."""
    path = tmp_path / "fake.py"
    path.write_text(FAKE, encoding="utf-8")
    return path


@pytest.fixture
def training(fake: Path) -> Iterator[TrainingProcess]:
    with TrainingProcess("fake", [sys.executable, str(fake)], fake.with_name("log"), threads=1) as started:
        yield started


def test_work_leaves_padding_out_of_all_but_positions() -> None:
    work = Work.of_batch([3, 2], [4, 1])
    assert work == Work(batches=1, sentences=2, source_tokens=5, target_tokens=5, token_pairs=14, positions=14)
    assert work.padding_share == pytest.approx(4 / 14)


def test_work_adds_up() -> None:
    assert Work.total([Work(1, 2, 3, 4, 5, 6), Work(1, 1, 1, 1, 1, 1)]) == Work(2, 3, 4, 5, 6, 7)
    assert Work.total([]) == Work()


def test_the_updates_of_all_blocks_are_those_that_were_made(training: TrainingProcess) -> None:
    blocks = [training.run(0.05), training.run(0.02)]
    made = training.ask("updates")
    assert made == sum(block.work.batches for block in blocks) > 0
    assert blocks[0].work == Work(*(blocks[0].work.batches * count for count in Work.of_batch([3, 2], [4, 1])))
    assert blocks[0].seconds >= 0.05


def test_between_blocks_nothing_is_trained(training: TrainingProcess) -> None:
    training.run(0.01)
    before = training.ask("updates")
    time.sleep(0.05)
    assert training.ask("updates") == before


def test_parameters_are_counted_and_what_is_printed_goes_to_the_log(training: TrainingProcess) -> None:
    assert training.parameters == 14
    assert "said by the training" in training.log.read_text(encoding="utf-8")


@pytest.mark.skipif(peak_memory() is None, reason="the system does not tell")
def test_peak_memory_is_that_of_the_training_alone(training: TrainingProcess) -> None:
    small = training.run(0.01).memory
    training.ask("hold", 200_000_000)
    large = training.run(0.01).memory
    assert small is not None
    assert large is not None
    # This process, with PyTorch, holds far more.
    assert small < 100_000_000
    assert large - small > 150_000_000


def test_a_training_that_dies_is_said_with_its_last_words(fake: Path) -> None:
    log = fake.with_name("log")
    with (
        TrainingProcess("fake", [sys.executable, str(fake), "3"], log, threads=1) as training,
        pytest.raises(UserError, match="fake: its training ended with exit status 1: ValueError: fell over"),
    ):
        training.run(60)


def test_a_training_that_does_not_start_is_said_too(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="absent: its training ended with exit status 2:"):
        TrainingProcess("absent", [sys.executable, str(tmp_path / "absent.py")], tmp_path / "log", threads=1)
