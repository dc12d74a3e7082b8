"""The loop: budgets, what is kept, and a stop that loses nothing."""

import math
from pathlib import Path

import pytest
import torch

from seq2seq.data.tokenizer import PAD
from seq2seq.model import Seq2Seq
from seq2seq.training import trainer as module
from seq2seq.training.loss import coverage_penalty
from seq2seq.training.trainer import Trainer
from tests.training.case import Case


@pytest.fixture(autouse=True)
def _validate_by_steps_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow moment of the machine is not to put off a validation; one test below is about that."""
    monkeypatch.setattr(module, "VALIDATION_SHARE", math.inf)


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


def test_the_averaged_weights_are_what_is_kept(digits: Path, tmp_path: Path) -> None:
    case = Case(digits, tmp_path, "training.max_steps=30", "training.average_decay=0.9")
    trainer = case.trainer()
    trainer.fit()
    assert trainer.average is not None
    best, _ = case.run.load_tensors("best")
    assert torch.equal(best["decoder.output_bias"], trainer.average.average["decoder.output_bias"])
    assert not torch.equal(best["decoder.output_bias"], trainer.model.decoder.output_bias)


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
