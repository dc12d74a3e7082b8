"""Each score against its formula, for one query, one encoder output and one head at a time."""

import math
from collections.abc import Callable
from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from seq2seq.config import schema
from seq2seq.model.attention import SCORES, Score

B, T, S, M, A, POSITIONS = 3, 4, 6, 8, 10, 4
LENGTHS = (6, 4, 1)


def query_size(kind: str) -> int:
    """H: that of an encoder output where a formula needs it, another one elsewhere."""
    return M if kind == "dot" else 6


def attention_settings(**more: Any) -> schema.Attention:
    return schema.Attention(**{"size": A, "max_length": POSITIONS, "temperature": 0.3, **more})


def loop_score(kind: str, score: Any, head: int, position: int, q: Tensor, k: Tensor, added: Tensor | float = 0.0):
    """The score of one query (H) and one encoder output (M) in one head; `added` is coverage's part of the key."""
    if kind == "none":
        return torch.tensor(0.0).double()
    part = slice(head * A // score.heads, (head + 1) * A // score.heads)
    memory_part = slice(head * M // score.heads, (head + 1) * M // score.heads)
    if kind == "dot":
        return torch.dot(q[memory_part], k[memory_part] + added)
    if kind == "general":
        return torch.dot((score.query.weight @ q)[memory_part], k[memory_part] + added)
    if kind in ("scaled_dot", "cosine"):
        left, right = (score.query.weight @ q)[part], (score.key.weight @ k)[part] + added
        if kind == "cosine":
            return torch.dot(left, right) / (left.norm() * right.norm()) / 0.3
        return torch.dot(left, right) / math.sqrt(A // score.heads)
    linear = torch.cat([score.query.weight, score.key.weight], dim=1) @ torch.cat([q, k]) + score.key.bias
    if kind == "concat":
        return (linear[head] + added).squeeze()
    if kind == "concat_positions":
        return (linear[head * POSITIONS + min(position, POSITIONS - 1)] + added).squeeze()
    hidden = torch.tanh(linear[part] + added)
    return hidden.sum() if kind == "concat_tanh" else torch.dot(score.v.weight[head], hidden)


@pytest.fixture(params=[(kind, heads) for kind in SCORES for heads in (1, 2) if kind != "none" or heads == 1], ids=str)
def kind_and_heads(request: pytest.FixtureRequest) -> tuple[str, int]:
    return request.param


@pytest.fixture
def kind(kind_and_heads: tuple[str, int]) -> str:
    return kind_and_heads[0]


@pytest.fixture
def heads(kind_and_heads: tuple[str, int]) -> int:
    return kind_and_heads[1]


@pytest.fixture
def score(kind: str, heads: int) -> Score:
    return SCORES[kind](attention_settings(kind=kind, heads=heads), query_size(kind), M).double()


@pytest.fixture
def vectors(kind: str) -> tuple[Tensor, Tensor]:
    return torch.randn(B, T, query_size(kind)).double(), torch.randn(B, S, M).double()


def test_the_scores_are_those_of_the_schema() -> None:
    assert tuple(SCORES) == get_args(schema.AttentionKind)


def test_each_score_equals_its_formula_in_a_plain_loop(kind: str, heads: int, score: Score, vectors) -> None:
    query, outputs = vectors
    scores = score(score.queries(query), score.keys(outputs))
    assert scores.shape == (B, heads, T, S)
    for b, head, t, s in torch.cartesian_prod(*map(torch.arange, scores.shape)).tolist():
        expected = loop_score(kind, score, head, s, query[b, t], outputs[b, s])
        assert scores[b, head, t, s].item() == pytest.approx(expected.item(), abs=1e-12)


def test_a_key_has_the_size_that_coverage_adds_to(score: Score, vectors) -> None:
    assert score.keys(vectors[1]).size(-1) == score.key_size


def test_gradients_are_right(score: Score, vectors) -> None:
    query, outputs = (part[:1].requires_grad_() for part in vectors)
    run: Callable[..., Tensor] = lambda q, o, *_: score(score.queries(q), score.keys(o))  # noqa: E731
    assert torch.autograd.gradcheck(run, (query, outputs, *score.parameters()))


def spread(kind: str) -> float:
    """How far the differences between the positions of a sentence change with the query."""
    score = SCORES[kind](attention_settings(kind=kind), query_size(kind), M)
    scores = score(score.queries(torch.randn(1, T, query_size(kind))), score.keys(torch.randn(1, S, M)))
    return (scores - scores[..., :1]).std(dim=2).max().item()


def test_formula_one_cannot_depend_on_the_query_but_concat_positions_does() -> None:
    assert spread("concat") == pytest.approx(0, abs=1e-6), "W_q Q + b is the same at every position"
    assert spread("concat_positions") > 0.1


def test_positions_beyond_max_length_share_the_last_weights() -> None:
    score = SCORES["concat_positions"](attention_settings(kind="concat_positions"), query_size("none"), M)
    query, same = torch.randn(1, 1, query_size("none")), torch.randn(1, 1, M).expand(1, S, M)
    scores = score(score.queries(query), score.keys(same))[0, 0, 0].tolist()
    assert scores[POSITIONS - 1 :] == pytest.approx([scores[POSITIONS - 1]] * (S - POSITIONS + 1))
    assert len({round(each, 6) for each in scores[:POSITIONS]}) == POSITIONS


def test_size_is_that_of_the_query_unless_set() -> None:
    assert SCORES["additive"](attention_settings(size=None), 12, M).query.weight.shape == (12, 12)


def test_the_cosine_of_a_zero_vector_is_zero_with_a_finite_gradient() -> None:
    score = SCORES["cosine"](attention_settings(kind="cosine"), query_size("cosine"), M)
    for precision in (torch.float32, torch.float16):
        keys = torch.zeros(1, 1, S, A, dtype=precision, requires_grad=True)
        scores = score(torch.zeros(1, 1, T, A, dtype=precision), keys)
        scores.sum().backward()
        assert (scores == 0).all()
        assert keys.grad is not None and keys.grad.isfinite().all()


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16])
def test_autocast_overflows_nowhere(kind: str, score: Score, precision: torch.dtype) -> None:
    score = score.float()
    query, outputs = 100 * torch.randn(B, T, query_size(kind)), torch.randn(B, S, M)
    with torch.autocast("cpu", precision):
        scores = score(score.queries(query), score.keys(outputs))
    if scores.requires_grad:
        scores.sum().backward()
    assert scores.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in score.parameters())
