"""Each selection against the formula of its paper, one query of one head at a time."""

import math
from typing import Any, get_args

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from seq2seq.config import schema
from seq2seq.model.attention import SELECTIONS, Selection
from tests.model.attention.test_scores import LENGTHS, B, S, T

H, HEADS, WINDOW = 6, 2, 2
MASK = torch.arange(S) < torch.tensor(LENGTHS).unsqueeze(1)
START = torch.tensor([0, 2, 1])
# Local has two kinds of centre.
ALL = [(name, centre) for name in SELECTIONS for centre in ("predicted", "monotonic")[: 2 if name == "local" else 1]]


def entmax_by_bisection(scores: list[float], alpha: float) -> list[float]:
    """max((alpha - 1) z - tau, 0)^(1 / (alpha - 1)) with the tau that makes the sum 1 (Peters 2019, algorithm 1)."""
    scaled = [(alpha - 1) * (z - max(scores)) for z in scores]
    low, high = -1.0, 0.0
    for _ in range(100):
        tau = (low + high) / 2
        weights = [max(z - tau, 0.0) ** (1 / (alpha - 1)) for z in scaled]
        low, high = (tau, high) if sum(weights) > 1 else (low, tau)
    return weights


def softmax(scores: list[float]) -> list[float]:
    exponentials = [math.exp(z - max(scores)) for z in scores]
    return [e / sum(exponentials) for e in exponentials]


def loop_weights(name: str, selection: Any, head: int, scores: list[float], q: Tensor, position: int) -> list[float]:
    """The weights of one sentence's tokens for one query in one head."""
    if name == "soft":
        return softmax(scores)
    if name == "hard":
        return [float(s == scores.index(max(scores))) for s in range(len(scores))]
    if name in ("sparsemax", "entmax"):
        return entmax_by_bisection(scores, {"sparsemax": 2.0, "entmax": 1.5}[name])
    last = len(scores) - 1
    if selection.predicted:
        inner = torch.dot(selection.v_p.weight[head], torch.tanh(selection.w_p.weight @ q)).item()
        centre = last / (1 + math.exp(-inner))
    else:
        centre = min(position, last)
    inside = [s for s in range(len(scores)) if centre - WINDOW <= s <= centre + WINDOW]
    aligned = dict(zip(inside, softmax([scores[s] for s in inside]), strict=True))
    sigma = WINDOW / 2
    gauss = [math.exp(-((s - centre) ** 2) / (2 * sigma**2)) if selection.predicted else 1.0 for s in range(last + 1)]
    return [aligned.get(s, 0.0) * gauss[s] for s in range(last + 1)]


def selection_settings(name: str, centre: str, **more: Any) -> schema.Attention:
    return schema.Attention(**{"selection": name, "centre": centre, "window": WINDOW, "heads": HEADS, **more})


@pytest.fixture(params=ALL, ids="-".join)
def named(request: pytest.FixtureRequest) -> tuple[str, Selection]:
    name, centre = request.param
    return name, SELECTIONS[name](selection_settings(name, centre), H).double().eval()


@pytest.fixture
def query() -> Tensor:
    return torch.randn(B, T, H).double()


@pytest.fixture
def scores() -> Tensor:
    return torch.randn(B, HEADS, T, S).double()


def test_the_selections_are_those_of_the_schema() -> None:
    assert tuple(SELECTIONS) == get_args(schema.SelectionKind)


def test_each_selection_equals_its_formula_in_a_plain_loop(named, scores: Tensor, query: Tensor) -> None:
    name, selection = named
    weights = selection(scores, MASK, query, START)
    for b, head, t in torch.cartesian_prod(*map(torch.arange, (B, HEADS, T))).tolist():
        row = scores[b, head, t, : LENGTHS[b]].tolist()
        expected = loop_weights(name, selection, head, row, query[b, t], int(START[b]) + t)
        assert weights[b, head, t, : LENGTHS[b]].tolist() == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("training", [True, False])
def test_padding_has_weight_and_gradient_exactly_zero(named, training: bool, scores: Tensor, query: Tensor) -> None:
    selection = named[1].train(training)
    scores.requires_grad_()
    weights = selection(scores, MASK, query, START)
    padding = ~MASK[:, None, None].expand_as(weights)
    assert (weights[padding] == 0).all()
    if weights.requires_grad:
        (gradient,) = torch.autograd.grad(weights.square().sum(), scores)
        assert (gradient[padding] == 0).all()
        assert gradient.isfinite().all()


def test_weights_sum_to_one_but_for_the_predicted_window_which_stays_below(
    named, scores: Tensor, query: Tensor
) -> None:
    name, selection = named
    total = selection(scores, MASK, query, START).sum(dim=-1)
    if name == "local" and selection.predicted:
        assert (total <= 1).all() and (total < 0.999).any()
    else:
        assert torch.allclose(total, torch.ones_like(total))


def test_a_sentence_of_one_token_is_selected_whole_without_a_gradient_on_its_score(named, query: Tensor) -> None:
    selection = named[1].train()
    scores = torch.randn(B, HEADS, T, 1).double().requires_grad_()
    weights = selection(scores, torch.ones(B, 1, dtype=torch.bool), query, START)
    assert torch.allclose(weights, torch.ones_like(weights))
    (gradient,) = torch.autograd.grad(weights.square().sum(), scores)
    assert gradient.abs().max() < 1e-12


# Hard is a step function; its straight-through gradient has a test of its own.
@pytest.mark.parametrize("named", [each for each in ALL if each[0] != "hard"], indirect=True, ids="-".join)
def test_gradients_are_right(named, scores: Tensor, query: Tensor) -> None:
    selection = named[1]
    inputs = (scores.requires_grad_(), query.requires_grad_(), *selection.parameters())
    assert torch.autograd.gradcheck(lambda s, q, *_: selection(s, MASK, q, START), inputs)


def test_hard_takes_the_first_of_equal_scores() -> None:
    selection = SELECTIONS["hard"](selection_settings("hard", "predicted"), H).eval()
    weights = selection(torch.tensor([[[[1.0, 3.0, 3.0, 9.0]]]]), torch.arange(4).unsqueeze(0) < 3, *nothing(1))
    assert weights.flatten().tolist() == [0.0, 1.0, 0.0, 0.0]


def nothing(batch: int) -> tuple[Tensor, Tensor]:
    """Query and position for a selection that reads neither."""
    return torch.zeros(batch, 1, H), torch.zeros(batch, dtype=torch.long)


def test_hard_weights_are_exactly_zero_or_one_also_while_training(scores: Tensor, query: Tensor) -> None:
    selection = SELECTIONS["hard"](selection_settings("hard", "predicted"), H).train()
    weights = selection(scores, MASK, query, START)
    assert ((weights == 0) | (weights == 1)).all()
    assert (weights.sum(dim=-1) == 1).all()


def test_hard_draws_each_position_as_often_as_softmax_says() -> None:
    selection = SELECTIONS["hard"](selection_settings("hard", "predicted"), H).train()
    logits = torch.tensor([0.5, -1.0, 1.5])
    draws = 20_000
    weights = selection(logits.expand(draws, 1, 1, 3), torch.ones(draws, 3, dtype=torch.bool), *nothing(draws))
    assert torch.allclose(weights.mean(dim=(0, 1, 2)), logits.softmax(dim=-1), atol=0.015)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_the_straight_through_gradient_is_that_of_the_gumbel_softmax_with_the_same_noise(
    temperature: float, scores: Tensor, query: Tensor
) -> None:
    selection = SELECTIONS["hard"](selection_settings("hard", "predicted", gumbel_temperature=temperature), H).train()
    factor = torch.randn_like(scores)
    gradients: list[Tensor] = []
    for hard in (True, False):
        torch.manual_seed(5)
        leaf = scores.clone().requires_grad_()
        masked = leaf.masked_fill(~MASK[:, None, None], -torch.inf)
        weights = selection(leaf, MASK, query, START) if hard else F.gumbel_softmax(masked, temperature)
        gradients += torch.autograd.grad((weights * factor).sum(), leaf)
    assert torch.allclose(gradients[0], gradients[1], atol=1e-12)
    assert gradients[0].abs().max() > 0


@pytest.mark.parametrize(("name", "alpha"), [("sparsemax", 2.0), ("entmax", 1.5)])
@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0, 1e4, 1e30])
@pytest.mark.parametrize("length", [1, 2, 7, 60, 400])
def test_sparse_weights_equal_a_bisection_in_float32_whatever_the_scale(
    name: str, alpha: float, scale: float, length: int
) -> None:
    selection = SELECTIONS[name](selection_settings(name, "predicted"), H)
    scores = (scale * torch.randn(1, 1, 1, length + 3)).requires_grad_()
    weights = selection(scores, (torch.arange(length + 3) < length).unsqueeze(0), *nothing(1))
    expected = entmax_by_bisection(scores[0, 0, 0, :length].tolist(), alpha)
    assert weights[0, 0, 0, :length].tolist() == pytest.approx(expected, abs=2e-6)
    weights.square().sum().backward()
    assert scores.grad is not None and scores.grad.isfinite().all()


@pytest.mark.parametrize("name", ["sparsemax", "entmax"])
def test_equal_scores_share_the_weight_and_far_lower_ones_get_exactly_none(name: str) -> None:
    selection = SELECTIONS[name](selection_settings(name, "predicted"), H)
    scores = torch.tensor([2.0, 2.0, -50.0, -3e38, 2.0, 2.0]).expand(1, 1, 1, 6)
    weights = selection(scores, torch.ones(1, 6, dtype=torch.bool), *nothing(1)).flatten()
    assert weights[[0, 1, 4, 5]].tolist() == pytest.approx([0.25] * 4)
    assert weights[[2, 3]].tolist() == [0.0, 0.0]


def test_a_monotonic_centre_follows_the_target_position_and_stops_at_the_last_token() -> None:
    selection = SELECTIONS["local"](selection_settings("local", "monotonic", window=1), H)
    mask = (torch.arange(5) < 4).unsqueeze(0)
    weights = selection(torch.zeros(1, 1, 6, 5), mask, torch.zeros(1, 6, H), torch.tensor([1]))
    half, third = [0.5, 0.5], [1 / 3] * 3
    expected = [[*third, 0, 0], [0, *third, 0]] + [[0, 0, *half, 0]] * 4
    assert torch.allclose(weights[0, 0], torch.tensor(expected))


def test_a_predicted_centre_stays_within_the_sentence_and_prefers_what_is_near() -> None:
    selection = SELECTIONS["local"](selection_settings("local", "predicted"), H)
    mask = (torch.arange(8) < 6).unsqueeze(0)
    for sign, nearest in ((-1.0, 0), (1.0, 5)):
        selection.load_state_dict({"w_p.weight": torch.ones(H, H), "v_p.weight": torch.full((HEADS, H), 50 * sign)})
        weights = selection(torch.zeros(1, HEADS, 1, 8), mask, torch.ones(1, 1, H), torch.tensor([0]))
        assert (weights.argmax(dim=-1) == nearest).all()


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("training", [True, False])
def test_half_precision_overflows_nowhere(named, precision: torch.dtype, training: bool) -> None:
    selection = named[1].float().train(training)
    scores = (6e4 * (2 * torch.rand(B, HEADS, T, S) - 1)).to(precision).requires_grad_()
    query = torch.randn(B, T, H).requires_grad_()
    with torch.autocast("cpu", precision):
        weights = selection(scores, MASK, query, START)
    assert weights.dtype == torch.float32
    assert weights.isfinite().all()
    if weights.requires_grad:
        weights.square().sum().backward()
        leaves = (scores, query, *selection.parameters())
        assert all(leaf.grad is None or leaf.grad.isfinite().all() for leaf in leaves)
