"""Each kind of attention against a plain double loop written from its formula."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from seq2seq.model.attention import ATTENTIONS, Attention, Memory

B, T, S, H, M, A = 3, 4, 6, 5, 7, 8
LENGTHS = (6, 4, 1)


def loop_score(kind: str, attention: Attention, q: Tensor, k: Tensor) -> Tensor:
    """The formula for one query (H) and one encoder output (M), with [q; k] really concatenated."""
    if kind == "none":
        return torch.tensor(0.0)
    if kind == "scaled_dot":
        return torch.dot(attention.query.weight @ q, attention.key.weight @ k) / math.sqrt(A)
    weight = torch.cat([attention.query.weight, attention.key.weight], dim=1)
    linear = weight @ torch.cat([q, k]) + attention.key.bias
    if kind == "concat":
        return linear.squeeze()
    if kind == "concat_tanh":
        return linear.tanh().sum()
    return torch.dot(attention.v.weight.squeeze(), linear.tanh())


@pytest.fixture(params=ATTENTIONS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def case(kind: str) -> tuple[Attention, Tensor, Tensor, Tensor, Memory]:
    attention = ATTENTIONS[kind](H, M, A).double()
    query, outputs = torch.randn(B, T, H).double(), torch.randn(B, S, M).double()
    mask = torch.arange(S) < torch.tensor(LENGTHS).unsqueeze(1)
    return attention, query, outputs, mask, attention.prepare(outputs, mask)


def test_each_kind_equals_a_double_loop_over_its_formula(kind: str, case) -> None:
    attention, query, outputs, _, memory = case
    contexts, weights = attention(query, memory)
    for b, length in enumerate(LENGTHS):
        for t in range(T):
            scores = [loop_score(kind, attention, query[b, t], outputs[b, s]).item() for s in range(length)]
            exponentials = [math.exp(score) for score in scores]
            expected = [e / sum(exponentials) for e in exponentials]
            assert weights[b, t, :length].tolist() == pytest.approx(expected, abs=1e-12)
            context = sum(w * outputs[b, s] for s, w in enumerate(expected))
            assert contexts[b, t].tolist() == pytest.approx(context.tolist(), abs=1e-12)


def test_weights_sum_to_one_and_are_exactly_zero_on_padding(case) -> None:
    attention, query, _, mask, memory = case
    _, weights = attention(query, memory)
    assert torch.allclose(weights.sum(dim=-1), torch.ones(B, T).double())
    assert (weights[(~mask).unsqueeze(1).expand(B, T, S)] == 0).all()


def test_padding_gets_no_gradient(case) -> None:
    attention, query, outputs, mask, _ = case
    outputs.requires_grad_()
    attention(query, attention.prepare(outputs, mask))[0].sum().backward()
    assert (outputs.grad[~mask] == 0).all()
    assert (outputs.grad[mask] != 0).any()


def test_one_query_at_a_time_equals_all_at_once(case) -> None:
    attention, query, _, _, memory = case
    steps = [attention(step, memory)[0] for step in query.split(1, dim=1)]
    assert torch.allclose(torch.cat(steps, dim=1), attention(query, memory)[0], atol=1e-12)


def test_scaled_dot_equals_pytorchs_own() -> None:
    attention = ATTENTIONS["scaled_dot"](H, M, A)
    query, outputs = torch.randn(B, T, H), torch.randn(B, S, M)
    mask = torch.arange(S) < torch.tensor(LENGTHS).unsqueeze(1)
    expected = torch.nn.functional.scaled_dot_product_attention(
        attention.query(query), attention.key(outputs), outputs, attn_mask=mask.unsqueeze(1)
    )
    assert torch.allclose(attention(query, attention.prepare(outputs, mask))[0], expected, atol=1e-6)


def test_gradients_are_right(case) -> None:
    attention, query, outputs, mask, _ = case
    query.requires_grad_()
    outputs.requires_grad_()
    run: Callable[[Tensor, Tensor], Tensor] = lambda q, o: attention(q, attention.prepare(o, mask))[0]  # noqa: E731
    assert torch.autograd.gradcheck(run, (query, outputs))


def test_formula_one_cannot_depend_on_the_query() -> None:
    attention = ATTENTIONS["concat"](H, M, A)
    memory = attention.prepare(torch.randn(B, S, M), torch.ones(B, S, dtype=torch.bool))
    one, other = (attention(torch.randn(B, T, H), memory)[1] for _ in range(2))
    assert torch.allclose(one, other, atol=1e-6), "softmax cancels W_q Q + b, which is the same at every position"
