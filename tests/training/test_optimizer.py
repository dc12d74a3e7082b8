"""Learning-rate schedules at the points where their formula is known."""

import pytest
import torch

from seq2seq.config.schema import Training
from seq2seq.training.averaging import AverageWeights
from seq2seq.training.optimizer import build_optimizer, learning_rate


def settings(**changes: object) -> Training:
    return Training.model_validate({"max_steps": 1000, "learning_rate": 0.01, "warmup_steps": 100, **changes})


def test_warm_up_rises_linearly_to_the_peak() -> None:
    constant = settings(schedule="constant")
    rates = [learning_rate(constant, step, 0.0) for step in (0, 49, 99, 500)]
    assert rates == pytest.approx([0.0001, 0.005, 0.01, 0.01])


def test_cosine_ends_exactly_with_the_budget() -> None:
    rates = [learning_rate(settings(schedule="cosine"), 500, progress) for progress in (0.0, 0.5, 1.0, 1.2)]
    assert rates == pytest.approx([0.01, 0.005, 0.0, 0.0])


def test_inverse_sqrt_halves_when_updates_quadruple() -> None:
    schedule = settings(schedule="inverse_sqrt")
    assert learning_rate(schedule, 99, 0.0) == pytest.approx(0.01)
    assert learning_rate(schedule, 399, 0.0) == pytest.approx(0.005)


def test_plateau_takes_the_decay_it_is_given() -> None:
    assert learning_rate(settings(schedule="plateau"), 500, 0.0, decay=0.25) == pytest.approx(0.0025)


@pytest.mark.parametrize(("name", "kind"), [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)])
def test_the_configured_optimizer_is_built(name: str, kind: type) -> None:
    optimizer = build_optimizer([torch.nn.Parameter(torch.ones(1))], settings(optimizer=name, weight_decay=0.1))
    assert type(optimizer) is kind
    assert optimizer.param_groups[0]["weight_decay"] == 0.1


def test_the_average_follows_its_recurrence_and_leaves_the_model_as_it_was() -> None:
    model = torch.nn.Linear(1, 1, bias=False)
    model.weight.data.fill_(0.0)
    average = AverageWeights(model, decay=0.5)
    expected = 0.0
    for step in range(1, 6):
        model.weight.data.fill_(float(step))
        average.update(step)
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * step
    with average.applied():
        assert model.weight.item() == pytest.approx(expected)
    assert model.weight.item() == 5.0
