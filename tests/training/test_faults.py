"""Numbers that are not finite, memory that does not suffice: seen, counted, named, survived or ended in one line."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from seq2seq.data.batching import Batch
from seq2seq.data.reading_ahead import Rows
from seq2seq.errors import UserError, is_out_of_memory
from seq2seq.model import Seq2Seq
from seq2seq.model.seq2seq import Predictions
from seq2seq.training.gradient import Piece, accumulate_gradient
from seq2seq.training.loss import model_perplexity
from seq2seq.training.trainer import Trainer
from tests.training.case import Case, stop_at


def spoil_gradients(trainer: Trainer, *steps: int) -> None:
    """Make the gradients of these updates infinite."""

    def hook(gradient: torch.Tensor) -> torch.Tensor:
        return gradient * math.inf if trainer.state.step + 1 in steps else gradient

    trainer.model.decoder.output_bias.register_hook(hook)


def test_an_update_without_a_finite_gradient_is_skipped_and_counted(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = Case(digits, tmp_path, "training.max_steps=3")
    trainer = case.trainer()
    before = {name: value.clone() for name, value in trainer.model.named_parameters()}
    spoil_gradients(trainer, 1, 2, 3)
    trainer.fit()
    assert (trainer.state.skipped, trainer.state.skipped_in_row) == (3, 3)
    assert all(torch.equal(before[name], value) for name, value in trainer.model.named_parameters())
    assert case.metrics()[-1]["skipped"] == 3
    shown = capsys.readouterr().err
    assert "step 2: loss or gradient is not finite, update skipped (" in shown and "3 skipped" in shown
    assert f"{digits.as_posix()}/train.tsv, lines " in shown, "the lines of the user's own file are named"


def test_a_loss_that_is_not_finite_is_skipped_even_where_its_gradient_is(digits: Path, tmp_path: Path) -> None:
    trainer = Case(digits, tmp_path, "training.max_steps=2").trainer()
    forward = trainer.model.forward

    def infinite(*given: Any) -> Predictions:
        predictions = forward(*given)
        logits = predictions.logits.clone()
        logits[..., 4:9] = -math.inf  # an impossible reference: infinite loss, but p - 1 as its gradient
        return predictions._replace(logits=logits)

    trainer.model.forward = infinite  # type: ignore[method-assign, assignment]
    update, norms = trainer.update, []

    def noting(batches: Sequence[Rows]) -> None:
        update(batches)
        norms.append(trainer.state.gradient_norm)

    trainer.update = noting  # type: ignore[method-assign]
    with pytest.raises(UserError, match="diverged"):
        trainer.fit()
    assert trainer.state.skipped == 2
    assert np.isfinite(norms).all() and norms[0] > 0


def poison(trainer: Trainer, *steps: int) -> None:
    """Make the bias NaN in these updates, unless the run has gone back: what a rate too high does to weights."""
    update = trainer.update

    def poisoned(batches: Sequence[Rows]) -> None:
        if trainer.state.step + 1 in steps and not trainer.state.went_back:
            trainer.model.decoder.output_bias.data[0] = math.nan
        update(batches)

    trainer.update = poisoned  # type: ignore[method-assign]


BACK = ("training.max_steps=40", "training.skip_limit=3", "training.validate_every=10", "training.schedule=constant")


def test_after_too_many_in_a_row_the_run_goes_back_once_with_half_the_rate(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = Case(digits, tmp_path, *BACK, "training.warmup_steps=0", "training.average_decay=0.9")
    trainer = case.trainer()
    spoil_gradients(trainer, 11)  # a single one is no reason to go back
    poison(trainer, 25)
    assert trainer.fit()
    assert (trainer.state.step, trainer.state.went_back, trainer.state.skipped) == (40, True, 4)
    said = "loss or gradient was not finite in 3 updates in a row; back to the weights of step 20, with half the rate"
    assert said in capsys.readouterr().err
    rate = case.config.training.learning_rate
    assert [line["learning_rate"] for line in case.metrics()] == [rate, rate, rate / 2, rate / 2]
    assert [(line["step"], line["skipped"]) for line in case.metrics()] == [(10, 0), (20, 1), (30, 4), (40, 4)]
    assert all(torch.isfinite(each).all() for each in trainer.model.parameters())


@pytest.mark.parametrize("stop", [18, 23, 26, 29])
def test_a_run_that_was_stopped_goes_back_to_the_same_weights(stop: int, digits: Path, tmp_path: Path) -> None:
    outcomes = []
    for name in ("whole", "broken"):
        case = Case(digits, tmp_path / name, *BACK, "encoder.dropout=0.2")
        trainer = case.trainer()
        poison(trainer, 25, 26, 27)
        if name == "broken":
            stop_at(trainer, stop)
            assert not trainer.fit()
            trainer = case.trainer()
            trainer.resume()
            poison(trainer, 25, 26, 27)
        assert trainer.fit()
        outcomes.append((case.run.load_tensors("last")[0], trainer.state.skipped, trainer.state.order))
    (whole, *numbers), (broken, *others) = outcomes
    assert numbers == others and numbers[0] == 3
    assert all(torch.equal(whole[name], broken[name]) for name in whole)


def test_a_run_that_fails_again_after_going_back_ends_with_the_lines_of_the_batch(digits: Path, tmp_path: Path) -> None:
    case = Case(digits, tmp_path, *BACK, "training.batch_tokens=24", "training.validate_every=4")
    trainer = case.trainer()
    spoil_gradients(trainer, *range(5, 40))
    with pytest.raises(UserError, match="not finite in 3 updates in a row, again after going back") as caught:
        trainer.fit()
    assert trainer.state.step == 10
    lines = [str(row + 1) for row in sorted(trainer.train.plan(0)[9])]
    assert f"the last batch: {digits.as_posix()}/train.tsv, lines {', '.join(lines)}" in str(caught.value)
    assert "lower training.learning_rate" in str(caught.value) and "\n" not in str(caught.value)
    assert case.run.checkpoints.load()[0], "what was good is still there"


def test_before_any_validation_there_is_nothing_to_go_back_to(digits: Path, tmp_path: Path) -> None:
    case = Case(digits, tmp_path, *BACK)
    trainer = case.trainer()
    spoil_gradients(trainer, *range(1, 40))
    with pytest.raises(UserError, match=r"not finite in 3 updates in a row, before any validation; lower"):
        trainer.fit()


def test_another_rate_on_resume_gives_the_run_its_second_chance_again(digits: Path, tmp_path: Path) -> None:
    trainer = Case(digits, tmp_path, *BACK).trainer()
    poison(trainer, 25)
    trainer.fit()
    for rate, went_back in (("5e-3", True), ("1e-3", False)):
        again = Case(digits, tmp_path, *BACK, f"training.learning_rate={rate}").trainer()
        again.resume()
        assert again.state.went_back is went_back


def test_neither_checkpoint_nor_best_weights_are_taken_in_the_middle_of_skipped_updates(
    digits: Path, tmp_path: Path
) -> None:
    sets = ["training.max_steps=9", "training.checkpoint_steps=2", "training.validate_every=6"]
    case = Case(digits, tmp_path, *sets)
    trainer = case.trainer()
    spoil_gradients(trainer, 6, 7)
    stop_at(trainer, 7)
    assert not trainer.fit()
    again = case.trainer()
    again.resume()
    assert again.state.step == 4, "updates 5 to 7 are done again"
    assert case.metrics() == []
    spoil_gradients(again, 6, 7)
    assert again.fit()
    assert [line["step"] for line in case.metrics()] == [8, 9], "as soon as an update is good again, and at the end"


def test_a_run_that_diverges_is_said_to_have_diverged_and_its_metrics_stay_json(digits: Path, tmp_path: Path) -> None:
    case = Case(digits, tmp_path, "training.max_steps=2")
    trainer = case.trainer()
    trainer.model.decoder.output_bias.data.fill_(math.nan)
    with pytest.raises(UserError, match="training diverged"):
        trainer.fit()
    assert not (case.run.path / "best.safetensors").exists()
    assert case.metrics()[-1]["dev_perplexity"] is None


def limit_memory(model: Seq2Seq, pairs: int, where: str) -> None:
    """Let memory run out in a batch of more than so many pairs, on the way forward or backward."""
    forward = model.forward

    def fail(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    def limited(source: torch.Tensor, *given: Any) -> Predictions:
        if len(source) > pairs and where == "forward":
            fail()
        predictions = forward(source, *given)
        if len(source) > pairs:
            # Reached after the output layer has added its part of the gradient.
            model.encoder.embedding.table.weight.register_hook(fail)
        else:
            model.encoder.embedding.table.weight._backward_hooks = None
        return predictions

    model.forward = limited  # type: ignore[method-assign, assignment]


@pytest.mark.parametrize("where", ["forward", "backward"])
def test_a_batch_that_does_not_fit_is_split_and_gives_the_same_gradient(
    where: str, digits: Path, tmp_path: Path
) -> None:
    trainer = Case(digits, tmp_path).trainer()
    rows = trainer.train.plan(0)[3:5]
    pieces = [Piece(each, trainer.train.batch(0, each)) for each in rows]
    told: list[int] = []
    expected = accumulate_gradient(trainer.model, trainer.config, pieces, lambda piece: told.append(len(piece.rows)))
    gradients = [parameter.grad for parameter in trainer.model.parameters()]
    assert told == []
    limit_memory(trainer.model, len(rows[0]) // 3, where)
    found = accumulate_gradient(trainer.model, trainer.config, pieces, lambda piece: told.append(len(piece.rows)))
    assert len(told) >= 4 and told[0] == len(rows[0]) and min(told) > len(rows[0]) // 3
    assert found.tokens == expected.tokens
    assert found.likelihood == pytest.approx(expected.likelihood, rel=1e-5)
    for gradient, parameter in zip(gradients, trainer.model.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-6)


def test_a_pair_that_does_not_fit_alone_is_left_out_and_named_and_training_goes_on(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = Case(digits, tmp_path, "training.max_steps=2", "training.batch_tokens=200")
    trainer = case.trainer()
    giant = int(trainer.train.plan(0)[1][0])
    ids = trainer.train.batch(0, np.array([giant])).source[0]
    forward = trainer.model.forward

    def limited(source: torch.Tensor, *given: Any) -> Predictions:
        if trainer.model.training and any(torch.equal(row[: len(ids)], ids) for row in source):
            raise RuntimeError("[enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: can't allocate memory")
        return forward(source, *given)

    trainer.model.forward = limited  # type: ignore[method-assign, assignment]
    assert trainer.fit()
    assert (trainer.state.left_out, trainer.state.skipped) == (1, 0) and trainer.state.split > 1
    shown = capsys.readouterr().err
    named = f"out of memory on a single pair, which is left out ({digits.as_posix()}/train.tsv, line {giant + 1})"
    assert named in shown and "training.batch_tokens" in shown


def test_perplexity_is_the_same_where_dev_has_to_be_split(digits: Path, tmp_path: Path) -> None:
    trainer = Case(digits, tmp_path).trainer()
    expected = model_perplexity(trainer.model.eval(), trainer.dev.epoch(0))
    limit_memory(trainer.model, 7, "forward")
    assert model_perplexity(trainer.model, trainer.dev.epoch(0)) == pytest.approx(expected, rel=1e-6)
    limit_memory(trainer.model, 0, "forward")
    with pytest.raises(torch.OutOfMemoryError):
        model_perplexity(trainer.model, trainer.dev.epoch(0))


def test_other_errors_are_not_taken_for_a_lack_of_memory(digits: Path, tmp_path: Path) -> None:
    trainer = Case(digits, tmp_path).trainer()
    rows = trainer.train.plan(0)[0]
    batch = trainer.train.batch(0, rows)
    wrong = Batch(batch.source + 1000, batch.target_input, batch.target_output)
    with pytest.raises((RuntimeError, IndexError), match="range"):
        accumulate_gradient(trainer.model, trainer.config, [Piece(rows, wrong)], lambda _: pytest.fail("split"))


def test_what_the_allocators_say_is_known_for_a_lack_of_memory() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**55, dtype=torch.int8)
    assert is_out_of_memory(caught.value)
    with pytest.raises((MemoryError, ValueError)) as from_numpy:
        np.ones(2**55, dtype=np.int8)
    assert is_out_of_memory(from_numpy.value)
    assert is_out_of_memory(torch.OutOfMemoryError("HIP out of memory"))
    assert is_out_of_memory(RuntimeError("could not create a primitive"))
    assert is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"))
    for error in (RuntimeError("sizes do not match"), ValueError("out of memory"), KeyError("x")):
        assert not is_out_of_memory(error)
