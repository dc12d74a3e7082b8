"""The loop: budgets, what is kept, and a stop that loses nothing."""

import json
import math
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from seq2seq.checkpoint import RunDirectory
from seq2seq.config import Config, load_config
from seq2seq.data.batching import Batches
from seq2seq.data.prepare import Prepared, prepare
from seq2seq.data.tokenizer import PAD
from seq2seq.errors import UserError
from seq2seq.model import Seq2Seq, build_model
from seq2seq.training import trainer as module
from seq2seq.training.loss import coverage_penalty
from seq2seq.training.trainer import Rows, Trainer


class Case:
    """A trainer on the digit corpus, with dev BLEU as a test wants it."""

    def __init__(self, digits: Path, folder: Path, *sets: str, bleu: list[float] | None = None) -> None:
        self.digits, self.folder, self.sets = digits, folder, sets
        self.bleu = iter(bleu or [])
        self.clock = time.monotonic
        self.config: Config = load_config(digits / "digits.yaml", sets)
        self.prepared: Prepared = prepare(self.config, folder / "data")
        self.run = RunDirectory(folder / "run")
        if not self.run.exists:
            self.run.create(self.config, self.prepared)

    def trainer(self) -> Trainer:
        torch.manual_seed(self.config.seed)
        sizes = [self.prepared.tokenizer(side).size for side in ("source", "target")]
        train = Batches(self.prepared.store("train"), self.config.training.batch_tokens, self.config.seed)
        dev = Batches(self.prepared.store("dev"), 2000)
        model = build_model(self.config, *sizes)
        bleu, describe = lambda model: next(self.bleu, 0.0), lambda rows: f"rows {sorted(rows)}"
        return Trainer(model, self.config, train, dev, bleu, describe, self.run, self.clock)

    def metrics(self) -> list[dict[str, float]]:
        path = self.run.path / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def stop_at(trainer: Trainer, step: int) -> None:
    update = trainer.update

    def stopping(batches: Sequence[Rows]) -> None:
        update(batches)
        trainer.stop_requested = trainer.state.step == step

    trainer.update = stopping  # type: ignore[method-assign]


@pytest.fixture(autouse=True)
def _validate_by_steps_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow moment of the machine is not to put off a validation; one test below is about that."""
    monkeypatch.setattr(module, "VALIDATION_SHARE", math.inf)


NO_TIMES = {"minutes", "tokens_per_second"}


@pytest.mark.parametrize("average", ["0.0", "0.9"])
def test_a_stopped_and_resumed_run_ends_as_one_that_was_never_stopped(
    average: str, digits: Path, tmp_path: Path
) -> None:
    sets = ["training.max_steps=90", "training.validate_every=40", f"training.average_decay={average}"]
    sets += ["encoder.dropout=0.2", "decoder.word_dropout=0.1", "teacher_forcing.ratio=0.8"]
    whole = Case(digits, tmp_path / "whole", *sets)
    assert whole.trainer().fit()
    halves = Case(digits, tmp_path / "halves", *sets)
    first = halves.trainer()
    stop_at(first, 55)
    assert not first.fit()
    torch.manual_seed(999)
    second = halves.trainer()
    second.resume()
    assert second.state.step == 55
    assert second.fit()
    for name in ("best", "last"):
        expected, found = whole.run.load_tensors(name)[0], halves.run.load_tensors(name)[0]
        assert expected.keys() == found.keys()
        assert all(torch.equal(expected[key], found[key]) for key in expected), name
    for expected_line, found_line in zip(whole.metrics(), halves.metrics(), strict=True):
        assert {k: v for k, v in expected_line.items() if k not in NO_TIMES} == {
            k: v for k, v in found_line.items() if k not in NO_TIMES
        }


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


@pytest.mark.parametrize(("limit", "steps"), [("max_steps=7", 7), ("max_epochs=2", None)])
def test_training_ends_exactly_with_its_budget(limit: str, steps: int | None, digits: Path, tmp_path: Path) -> None:
    case = Case(digits, tmp_path, "training.max_steps=null", "training.batch_tokens=4000", f"training.{limit}")
    trainer = case.trainer()
    assert trainer.fit()
    assert trainer.state.step == (steps or 2 * trainer.state.epoch_batches)
    assert case.metrics()[-1]["step"] == trainer.state.step, "the last weights are validated, too"


def test_the_wall_clock_budget_ends_training_and_anneals_the_rate_to_nothing(digits: Path, tmp_path: Path) -> None:
    case = Case(digits, tmp_path, "training.max_steps=null", "training.max_minutes=0.05", "training.warmup_steps=0")
    trainer = case.trainer()
    assert trainer.fit()
    last = case.metrics()[-1]
    assert last["learning_rate"] < 0.02 * case.config.training.learning_rate
    # What one validation takes is set aside, and the last update and validation may take a little longer.
    reserved = trainer.state.last_validation_seconds / 60
    assert last["minutes"] > 0.05 - 2 * reserved - 0.005


def test_below_five_bleu_the_best_checkpoint_is_that_of_least_perplexity(digits: Path, tmp_path: Path) -> None:
    sets = ["training.max_steps=60", "training.validate_every=20"]
    case = Case(digits, tmp_path, *sets, bleu=[4.9, 0.0, 0.0])
    case.trainer().fit()
    lines = case.metrics()
    perplexities = [line["dev_perplexity"] for line in lines]
    assert perplexities == sorted(perplexities, reverse=True), "this little training only gets better"
    assert [line["best"] for line in lines] == [True, True, True]


def test_from_five_bleu_on_the_best_checkpoint_is_that_of_most_bleu(digits: Path, tmp_path: Path) -> None:
    sets = ["training.max_steps=100", "training.validate_every=20"]
    case = Case(digits, tmp_path, *sets, bleu=[0.0, 7.0, 6.0, 7.0, 8.0])
    case.trainer().fit()
    assert [line["best"] for line in case.metrics()] == [True, True, False, False, True]
    assert case.run.load_tensors("best")[1]["step"] == "100"


def test_patience_stops_training_that_no_longer_improves(digits: Path, tmp_path: Path) -> None:
    sets = ["training.max_steps=400", "training.validate_every=10", "training.patience=2"]
    case = Case(digits, tmp_path, *sets, bleu=[9.0, 8.0, 8.5, 10.0])
    trainer = case.trainer()
    assert trainer.fit()
    assert trainer.state.step == 30


def test_plateau_halves_the_rate_when_dev_stops_improving(digits: Path, tmp_path: Path) -> None:
    sets = ["training.max_steps=40", "training.validate_every=10", "training.schedule=plateau"]
    case = Case(digits, tmp_path, *sets, "training.warmup_steps=0", bleu=[9.0, 8.0, 9.5, 9.0])
    case.trainer().fit()
    rate = case.config.training.learning_rate
    assert [line["learning_rate"] for line in case.metrics()] == [rate, rate, rate / 2, rate / 2]


def test_validation_waits_while_it_costs_more_than_a_tenth_of_the_time(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "VALIDATION_SHARE", 0.1)
    case = Case(digits, tmp_path, "training.max_minutes=60")
    trainer = case.trainer()
    trainer.seconds = lambda: 100.0  # type: ignore[method-assign]
    trainer.state.step = 1000
    for spent, last, due in ((0.0, 0.0, True), (4.0, 5.0, True), (5.0, 5.0, False), (20.0, 1.0, False)):
        trainer.state.validation_seconds, trainer.state.last_validation_seconds = spent, last
        assert trainer.validation_due() is due


def test_an_update_without_a_finite_gradient_is_skipped_and_counted(digits: Path, tmp_path: Path) -> None:
    case = Case(digits, tmp_path, "training.max_steps=3")
    trainer = case.trainer()
    before = {name: value.clone() for name, value in trainer.model.named_parameters()}
    spoilt = trainer.model.decoder.output_bias.register_hook(lambda gradient: gradient * math.nan)
    trainer.fit()
    spoilt.remove()
    assert trainer.state.skipped == 3
    assert all(torch.equal(before[name], value) for name, value in trainer.model.named_parameters())


def test_the_averaged_weights_are_what_is_kept(digits: Path, tmp_path: Path) -> None:
    case = Case(digits, tmp_path, "training.max_steps=30", "training.average_decay=0.9")
    trainer = case.trainer()
    trainer.fit()
    assert trainer.average is not None
    best, _ = case.run.load_tensors("best")
    assert torch.equal(best["decoder.output_bias"], trainer.average.average["decoder.output_bias"])
    assert not torch.equal(best["decoder.output_bias"], trainer.model.decoder.output_bias)


def test_a_run_that_diverges_is_said_to_have_diverged_and_its_metrics_stay_json(digits: Path, tmp_path: Path) -> None:
    case = Case(digits, tmp_path, "training.max_steps=2")
    trainer = case.trainer()
    trainer.model.decoder.output_bias.data.fill_(math.nan)
    with pytest.raises(UserError, match="training diverged"):
        trainer.fit()
    assert not (case.run.path / "best.safetensors").exists()
    assert case.metrics()[-1]["dev_perplexity"] is None


def test_averaging_switched_on_at_resume_starts_from_the_weights_of_the_run(digits: Path, tmp_path: Path) -> None:
    Case(digits, tmp_path, "training.max_steps=5").trainer().fit()
    trainer = Case(digits, tmp_path, "training.max_steps=9", "training.average_decay=0.9").trainer()
    trainer.resume()
    assert trainer.average is not None
    assert torch.equal(trainer.average.average["decoder.output_bias"], trainer.model.decoder.output_bias)
    assert trainer.model.decoder.output_bias.abs().sum() > 0


def test_another_batch_size_on_resume_begins_the_epoch_anew(digits: Path, tmp_path: Path) -> None:
    Case(digits, tmp_path, "training.max_steps=5").trainer().fit()
    trainer = Case(digits, tmp_path, "training.batch_tokens=300").trainer()
    trainer.resume()
    assert (trainer.state.step, trainer.state.batch) == (5, 0)
    assert trainer.state.epoch_batches == len(trainer.train.plan(0))


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


def test_without_a_budget_the_bar_has_no_end(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sets = ["training.max_steps=null", "training.patience=1", "training.schedule=constant"]
    Case(digits, tmp_path, *sets, "training.validate_every=5", bleu=[9.0, 8.0]).trainer().fit()
    shown = capsys.readouterr().err
    assert "step 10" in shown and "tokens/s" in shown and "%" not in shown


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_run_made_on_a_gpu_resumes_and_loads_on_a_cpu(digits: Path, tmp_path: Path) -> None:
    case = Case(digits, tmp_path, "training.max_steps=5")
    trainer = case.trainer()
    trainer.model.cuda()
    Trainer(trainer.model, case.config, trainer.train, trainer.dev, trainer.dev_bleu, trainer.describe, case.run).fit()
    resumed = case.trainer()
    resumed.resume()
    assert resumed.state.step == 5
    assert case.run.load(torch.device("cpu")).model(torch.tensor([[4, 3]]), torch.tensor([[2]])).device.type == "cpu"


def test_dropout_is_off_in_validation_and_on_again_afterwards(digits: Path, tmp_path: Path) -> None:
    case = Case(digits, tmp_path, "training.max_steps=20", "training.validate_every=10")
    seen: list[tuple[str, bool]] = []
    trainer = case.trainer()

    def bleu(model: Seq2Seq) -> float:
        seen.append(("validate", model.training))
        return 0.0

    trainer.dev_bleu = bleu
    trainer.model.register_forward_pre_hook(lambda model, _: seen.append(("forward", model.training)))
    trainer.fit()
    assert ("validate", False) in seen and ("validate", True) not in seen
    assert ("forward", True) in seen[seen.index(("validate", False)) :], "training goes on in training mode"


def test_the_coverage_loss_teaches_attention_not_to_look_twice(digits: Path, tmp_path: Path) -> None:
    penalties = []
    for weight in ("0.0", "5.0"):
        sets = ["training.max_steps=120", "attention.coverage=true", f"attention.coverage_loss={weight}"]
        trainer = Case(digits, tmp_path / weight, *sets).trainer()
        assert trainer.fit()
        batch = next(iter(trainer.dev.epoch(0)))
        attention = trainer.model.eval()(batch.source, batch.target_input).attention
        penalties.append(coverage_penalty(attention, batch.target_output != PAD).item())
    assert penalties[1] < 0.9 * penalties[0], penalties
