"""A training that was stopped or killed anywhere ends bit by bit as one that never was."""

import dataclasses
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from seq2seq.checkpoint import RunDirectory
from seq2seq.data.reading_ahead import Rows
from seq2seq.errors import UserError
from seq2seq.model import Seq2Seq
from seq2seq.training.resuming import state_from_json, state_to_json
from seq2seq.training.state import TrainerState
from seq2seq.training.trainer import Trainer
from tests.training.case import Case, stop_at

TIMES = {"minutes", "tokens_per_second", "seconds", "validation_seconds", "last_validation_seconds"}
ALL_THAT_DRAWS = (
    "encoder.dropout=0.2",
    "encoder.embedding_dropout=0.1",
    "encoder.word_dropout=0.1",
    "decoder.word_dropout=0.1",
    "teacher_forcing.ratio=0.8",
    "training.accumulate=2",
    "training.average_decay=0.9",
    "training.batch_tokens=300",
    "attention.selection=hard",
)
SUBWORDS = ("tokenizer.source={kind: unigram, vocabulary_size: 40, sampling_alpha: 0.3}",)


class KilledError(BaseException):
    """Ends a training like kill -9: nothing is saved, nothing is tidied up."""


class Ticks:
    """A clock that goes on by a second with each look at it, so that a budget of minutes repeats itself."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def kill_at(trainer: Trainer, step: int) -> None:
    update = trainer.update

    def killing(batches: Sequence[Rows]) -> None:
        if trainer.state.step == step:
            raise KilledError
        update(batches)

    trainer.update = killing  # type: ignore[method-assign]


def outcome(run: RunDirectory) -> dict[str, object]:
    """All that is to be equal: weights, optimizer, averages, random state, counters, order of the data, metrics."""
    found: dict[str, object] = {}
    for name in ("best", "last"):
        tensors, metadata = run.load_tensors(name)
        found |= {f"{name}.{key}": value.numpy().tobytes() for key, value in tensors.items()}
        state = json.loads(metadata.get("state", "{}"))
        found[f"{name}.state"] = {key: value for key, value in state.items() if key not in TIMES}
    lines = (run.path / "metrics.jsonl").read_text("utf-8").splitlines()
    found["metrics"] = [{k: v for k, v in json.loads(line).items() if k not in TIMES} for line in lines]
    return found


def run_through(case: Case, *events: tuple[str, int]) -> dict[str, object]:
    """Train with the given ends in between, each in a new trainer as in a new process."""
    for kind, step in events:
        trainer = case.trainer()
        if case.run.checkpoints.exist:
            torch.manual_seed(999)
            trainer.resume()
        if kind == "kill":
            kill_at(trainer, step)
            with pytest.raises(KilledError):
                trainer.fit()
        else:
            stop_at(trainer, step)
            assert not trainer.fit()
            assert trainer.state.step == step
    trainer = case.trainer()
    if case.run.checkpoints.exist:
        trainer.resume()
    assert trainer.fit()
    return outcome(case.run)


@pytest.mark.parametrize("sets", [ALL_THAT_DRAWS, (*ALL_THAT_DRAWS[:-1], *SUBWORDS)], ids=["hard", "subwords"])
def test_a_stopped_or_killed_run_ends_as_one_that_was_never_stopped(
    sets: tuple[str, ...], digits: Path, tmp_path: Path
) -> None:
    budget = ["training.max_steps=120", "training.validate_every=40", "training.checkpoint_steps=13", *sets]
    bleu = [1.0, 2.0, 3.0]
    whole = run_through(Case(digits, tmp_path / "whole", *budget, bleu=bleu))
    broken = Case(digits, tmp_path / "broken", *budget)
    broken.bleu_at = {40: 1.0, 80: 2.0, 120: 3.0}
    found = run_through(broken, ("kill", 9), ("stop", 33), ("kill", 47), ("kill", 47), ("stop", 80), ("kill", 119))
    assert found.keys() == whole.keys()
    for key, value in whole.items():
        assert found[key] == value, key
    state = found["last.state"]
    assert isinstance(state, dict) and state["order"], "the order of the data is among what is compared"


def test_patience_counts_on_over_a_stop(digits: Path, tmp_path: Path) -> None:
    sets = ["training.max_steps=400", "training.validate_every=10", "training.patience=3"]
    case = Case(digits, tmp_path, *sets)
    case.bleu_at = {10: 9.0, 20: 8.0, 30: 8.5, 40: 7.0}
    run_through(case, ("stop", 15), ("kill", 28), ("stop", 31))
    assert case.metrics()[-1]["step"] == 40


@pytest.mark.parametrize("event", [("stop", 30), ("kill", 30)])
def test_a_budget_of_minutes_goes_on_where_it_was(event: tuple[str, int], digits: Path, tmp_path: Path) -> None:
    sets = ["training.max_steps=null", "training.max_minutes=5", "training.checkpoint_steps=10"]
    outcomes = []
    for name, events in (("whole", []), ("broken", [event])):
        case = Case(digits, tmp_path / name, *sets)
        case.clock = Ticks()
        outcomes.append(run_through(case, *events))
        assert case.metrics()[-1]["learning_rate"] < 0.02 * case.config.training.learning_rate
    steps = [each["last.state"]["step"] for each in outcomes]  # type: ignore[index]
    # Saving and looking at the clock cost a tick here and there; what was lost with a kill is not charged.
    assert abs(steps[0] - steps[1]) <= 3, steps


def test_a_last_validation_that_is_quicker_than_the_one_before_ends_training_all_the_same(
    digits: Path, tmp_path: Path
) -> None:
    sets = ["training.max_steps=null", "training.max_minutes=5", "training.validate_every=20"]
    case = Case(digits, tmp_path, *sets)
    case.clock = clock = Ticks()
    trainer, costs = case.trainer(), iter([20.0])

    def slow_at_first(_: Seq2Seq) -> float:
        clock.now += next(costs, 2.0)
        return 0.0

    trainer.dev_bleu = slow_at_first
    assert trainer.fit()
    assert case.metrics()[-1]["step"] == trainer.state.step


def test_a_stop_in_the_last_update_is_not_lost(digits: Path, tmp_path: Path) -> None:
    trainer = Case(digits, tmp_path, "training.max_steps=5", "training.validate_every=5").trainer()
    stop_at(trainer, 5)
    assert not trainer.fit()


@pytest.mark.parametrize("threads", [1, 2])
def test_one_seed_gives_the_same_metrics_each_time(threads: int, digits: Path, tmp_path: Path) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        sets = ["training.max_steps=40", "training.validate_every=10", *ALL_THAT_DRAWS]
        first, second = (run_through(Case(digits, tmp_path / name, *sets)) for name in ("a", "b"))
    finally:
        torch.set_num_threads(before)
    assert first == second


def steps_saved(trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Train; at which updates checkpoints were written."""
    saved: list[int] = []
    save = trainer.run.checkpoints.save

    def noting(tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
        saved.append(trainer.state.step)
        save(tensors, metadata)

    monkeypatch.setattr(trainer.run.checkpoints, "save", noting)
    trainer.fit()
    return saved


def test_a_checkpoint_is_made_every_so_many_updates(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(digits, tmp_path, "training.max_steps=25", "training.checkpoint_steps=7")
    assert steps_saved(case.trainer(), monkeypatch) == [0, 7, 14, 21, 25]


def test_a_checkpoint_is_made_every_so_many_minutes(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(digits, tmp_path, "training.max_steps=25", "training.checkpoint_minutes=0.1")
    case.clock = Ticks()
    saved = steps_saved(case.trainer(), monkeypatch)
    assert len(saved) > 4 and max(late - early for early, late in pairwise(saved)) <= 6, saved
    case = Case(digits, tmp_path / "off", "training.max_steps=25", "training.checkpoint_minutes=null")
    case.clock = Ticks()
    assert steps_saved(case.trainer(), monkeypatch) == [0, 25]


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_gives_the_same_end(
    digits: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sets = ["training.max_steps=60", "training.validate_every=30", "training.checkpoint_steps=10"]
    whole = run_through(Case(digits, tmp_path / "whole", *sets))
    case = Case(digits, tmp_path / "broken", *sets)
    trainer = case.trainer()
    stop_at(trainer, 45)
    trainer.fit()
    path = case.run.path / "last.safetensors"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(content)
    again = case.trainer()
    again.resume()
    assert again.state.step == 40
    assert "last.safetensors: damaged" in caplog.text and "previous.safetensors is used instead" in caplog.text
    assert again.fit()
    assert outcome(case.run) == whole


def test_a_stop_in_the_middle_of_a_validation_breaks_it_off_and_it_is_done_on_resume(
    digits: Path, tmp_path: Path
) -> None:
    sets = ["training.max_steps=30", "training.validate_every=10"]
    whole = run_through(Case(digits, tmp_path / "whole", *sets))
    case = Case(digits, tmp_path / "broken", *sets)
    trainer = case.trainer()

    def stopping(model: Seq2Seq) -> float:
        trainer.request_stop()
        pytest.fail("the validation went on")

    trainer.dev_bleu = stopping
    assert not trainer.fit()
    assert (trainer.state.step, trainer.state.validated_step, case.metrics()) == (10, 0, [])
    assert run_through(case) == whole


def test_a_stop_asked_for_before_a_validation_is_due_leaves_it_for_later(digits: Path, tmp_path: Path) -> None:
    case = Case(digits, tmp_path, "training.max_steps=30", "training.validate_every=10")
    trainer = case.trainer()
    stop_at(trainer, 10)
    assert not trainer.fit()
    assert case.metrics() == []
    trainer = case.trainer()
    trainer.resume()
    assert trainer.fit()
    assert [line["step"] for line in case.metrics()] == [10, 20, 30]


def test_the_last_validation_is_made_up_for_as_well(digits: Path, tmp_path: Path) -> None:
    case = Case(digits, tmp_path, "training.max_steps=7")
    trainer = case.trainer()
    stop_at(trainer, 7)
    assert not trainer.fit(), "the last weights are not validated yet"
    trainer = case.trainer()
    trainer.resume()
    assert trainer.fit()
    assert [line["step"] for line in case.metrics()] == [7]


def test_metrics_of_updates_that_were_lost_do_not_stand_twice(digits: Path, tmp_path: Path) -> None:
    case = Case(digits, tmp_path, "training.max_steps=40", "training.validate_every=20")
    trainer = case.trainer()
    stop_at(trainer, 25)
    trainer.fit()
    with (case.run.path / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"step": 30}\n{"step": 3')
    again = case.trainer()
    again.resume()
    again.fit()
    assert [line["step"] for line in case.metrics()] == [20, 40]


@pytest.mark.parametrize("metadata", [{}, {"state": "no JSON"}, {"state": '{"of another version": 1}'}])
def test_a_checkpoint_without_a_usable_state_is_refused_by_name(
    metadata: dict[str, str], digits: Path, tmp_path: Path
) -> None:
    case = Case(digits, tmp_path, "training.max_steps=2")
    case.trainer().fit()
    tensors, _ = case.run.load_tensors("last")
    case.run.save_tensors("last", tensors, metadata)
    with pytest.raises(UserError, match=r"last\.safetensors: holds no trainer state that fits"):
        case.trainer().resume()


@pytest.mark.parametrize(
    ("field", "value"), [("step", "abc"), ("epoch", None), ("epoch", -1), ("batch", -3), ("order", 1e5), ("decay", "x")]
)
def test_a_forged_state_is_refused(field: str, value: object) -> None:
    state = json.loads(state_to_json(TrainerState())) | {field: value}
    with pytest.raises(ValueError, match=field):
        state_from_json(json.dumps(state))


def spoilt(name: str, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    first, second = "optimizer.0.exp_avg", "optimizer.0.exp_avg_sq"
    if name == "of another size":
        return tensors | {first: tensors[first].flatten()[:3].clone()}
    if name == "of another kind":
        return tensors | {second: tensors[second].double()}
    if name == "of a parameter that is none":
        return tensors | {"optimizer.999.step": torch.tensor(1.0)}
    return {key: value for key, value in tensors.items() if key != second}


@pytest.mark.parametrize("name", ["of another size", "of another kind", "of a parameter that is none", "missing"])
def test_an_optimizer_state_that_does_not_fit_is_refused(name: str, digits: Path, tmp_path: Path) -> None:
    case = Case(digits, tmp_path, "training.max_steps=2")
    case.trainer().fit()
    tensors, metadata = case.run.load_tensors("last")
    case.run.save_tensors("last", spoilt(name, tensors), metadata)
    with pytest.raises(UserError, match=r"last\.safetensors: holds no trainer state that fits \(the optimizer's state"):
        case.trainer().resume()


def test_another_batch_size_of_as_many_batches_begins_the_epoch_anew_as_well(digits: Path, tmp_path: Path) -> None:
    case = Case(digits, tmp_path, "training.max_steps=5")
    case.trainer().fit()
    for size, batch in (("600", 5), ("601", 0)):
        again = Case(digits, tmp_path, f"training.batch_tokens={size}").trainer()
        again.state.epoch_batches = 43
        again.resume()
        assert (again.state.batch, again.state.epoch) == (batch, 0)


def test_all_counters_are_kept(digits: Path, tmp_path: Path) -> None:
    case = Case(digits, tmp_path, "training.max_steps=3")
    trainer = case.trainer()
    trainer.fit()
    again = case.trainer()
    again.resume()
    assert dataclasses.asdict(again.state) == dataclasses.asdict(trainer.state) | {"seconds": again.state.seconds}
