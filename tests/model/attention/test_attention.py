"""Every score with every selection, heads and coverage against plain loops."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seq2seq.model.attention import SCORES, Attention, AttentionState, Memory
from tests.model.attention.test_scores import LENGTHS, A, B, M, S, T, attention_settings, loop_score, query_size
from tests.model.attention.test_selection import ALL, MASK, WINDOW, loop_weights

CASES = [
    pytest.param(kind, selection, heads, coverage, id=f"{kind}-{'-'.join(selection)}-{heads}-{coverage=}")
    for kind, selection, heads, coverage in itertools.product(SCORES, ALL, (1, 2), (False, True))
    if kind != "none" or (selection[0] == "soft" and heads == 1 and not coverage)
]
Case = tuple[Attention, Tensor, Tensor]


def attention_of(kind: str, **more: Any) -> Attention:
    return Attention(attention_settings(kind=kind, window=WINDOW, **more), query_size(kind), M).double().eval()


def built(kind: str, selection: tuple[str, str], heads: int, coverage: bool) -> Case:
    attention = attention_of(kind, selection=selection[0], centre=selection[1], heads=heads, coverage=coverage)
    return attention, torch.randn(B, T, query_size(kind)).double(), torch.randn(B, S, M).double()


def attended(attention: Attention, query: Tensor, outputs: Tensor) -> tuple[Tensor, Tensor, AttentionState]:
    """All queries: at once, or one after the other where attention is stepwise."""
    memory = attention.prepare(outputs, MASK)
    return (
        by_step(attention, query, memory) if attention.stepwise else attention(query, memory, attention.start(memory))
    )


def by_step(attention: Attention, query: Tensor, memory: Memory) -> tuple[Tensor, Tensor, AttentionState]:
    state, contexts, weights = attention.start(memory), [], []
    for step in query.split(1, dim=1):
        context, weight, state = attention(step, memory, state)
        contexts.append(context)
        weights.append(weight)
    return torch.cat(contexts, dim=1), torch.cat(weights, dim=1), state


def cases(test: Any) -> Any:
    return pytest.mark.parametrize(("kind", "selection", "heads", "coverage"), CASES)(test)


@cases
def test_attention_equals_plain_loops(kind, selection, heads, coverage) -> None:
    attention, query, outputs = built(kind, selection, heads, coverage)
    contexts, weights, _ = attended(attention, query, outputs)
    for b, length in enumerate(LENGTHS):
        covered = [0.0] * length
        for t in range(T):
            context: list[float] = []
            mean = [0.0] * length
            for head in range(heads):
                added = [0.0 if attention.w_c is None else c * attention.w_c[head] for c in covered]
                scores = [
                    loop_score(kind, attention.score, head, s, query[b, t], outputs[b, s], added[s]).item()
                    for s in range(length)
                ]
                chosen = loop_weights(selection[0], attention.selection, head, scores, query[b, t], t)
                values = outputs[b] if heads == 1 else outputs[b] @ attention.value.weight.T
                part = values[:, head * M // heads : (head + 1) * M // heads]
                context += sum(w * part[s] for s, w in enumerate(chosen)).tolist()
                mean = [m + w / heads for m, w in zip(mean, chosen, strict=True)]
            covered = [c + m for c, m in zip(covered, mean, strict=True)]
            assert weights[b, t, :length].tolist() == pytest.approx(mean, abs=1e-9)
            assert contexts[b, t].tolist() == pytest.approx(context, abs=1e-9)


@cases
def test_weights_are_zero_on_padding_and_sum_to_one(kind, selection, heads, coverage) -> None:
    weights = attended(*built(kind, selection, heads, coverage))[1]
    assert (weights[~MASK.unsqueeze(1).expand_as(weights)] == 0).all()
    total = weights.sum(dim=-1)
    if selection == ("local", "predicted"):
        assert (total <= 1 + 1e-12).all()
    else:
        assert torch.allclose(total, torch.ones_like(total))
    if selection[0] == "hard" and heads == 1:
        assert ((weights == 0) | (weights == 1)).all()


@cases
def test_padding_gets_no_gradient(kind, selection, heads, coverage) -> None:
    attention, query, outputs = built(kind, selection, heads, coverage)
    outputs.requires_grad_()
    attended(attention.train(), query, outputs)[0].square().sum().backward()
    assert outputs.grad is not None
    assert (outputs.grad[~MASK] == 0).all()
    assert (outputs.grad[MASK] != 0).any()
    assert all(p.grad is None or p.grad.isfinite().all() for p in attention.parameters())


@cases
def test_one_query_at_a_time_equals_all_at_once(kind, selection, heads, coverage) -> None:
    attention, query, outputs = built(kind, selection, heads, coverage)
    memory = attention.prepare(outputs, MASK)
    context, weights, state = by_step(attention, query, memory)
    assert state.position.tolist() == [T] * B
    if coverage:
        assert state.coverage is not None and torch.allclose(state.coverage, weights.sum(dim=1), atol=1e-12)
        with pytest.raises(ValueError, match="one query at a time, not 4"):
            attention(query, memory, attention.start(memory))
        return
    whole_context, whole_weights, whole_state = attention(query, memory, attention.start(memory))
    assert torch.allclose(context, whole_context, atol=1e-12)
    assert torch.allclose(weights, whole_weights, atol=1e-12)
    assert torch.equal(state.position, whole_state.position)
    assert state.coverage is None and whole_state.coverage is None


@pytest.mark.parametrize("coverage", [False, True])
@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("kind", [kind for kind in SCORES if kind != "none"])
def test_gradients_are_right(kind: str, heads: int, coverage: bool) -> None:
    attention, query, outputs = built(kind, ("soft", "predicted"), heads, coverage)
    inputs = (query[:, :2].requires_grad_(), outputs.requires_grad_(), *attention.parameters())
    assert torch.autograd.gradcheck(lambda q, o, *_: attended(attention, q, o)[0], inputs, fast_mode=True)


def test_with_one_head_the_values_are_the_encoders_outputs_without_a_copy() -> None:
    attention, _, outputs = built("additive", ("soft", "predicted"), 1, False)
    assert attention.prepare(outputs, MASK).values.data_ptr() == outputs.data_ptr()


@pytest.mark.parametrize("heads", [2, 4])
def test_several_heads_of_scaled_dot_equal_pytorchs_own(heads: int) -> None:
    attention = Attention(attention_settings(kind="scaled_dot", size=M, heads=heads), M, M).double()
    query, outputs = torch.randn(B, T, M).double(), torch.randn(B, S, M).double()
    expected = nn.MultiheadAttention(M, heads, bias=False, batch_first=True).double()
    weight = torch.cat([attention.score.query.weight, attention.score.key.weight, attention.value.weight])
    expected.load_state_dict({"in_proj_weight": weight, "out_proj.weight": torch.eye(M).double()})
    context, weights, _ = attended(attention, query, outputs)
    expected_context, expected_weights = expected(query, outputs, outputs, key_padding_mask=~MASK)
    assert torch.allclose(context, expected_context, atol=1e-12)
    assert torch.allclose(weights, expected_weights, atol=1e-12)


def test_scaled_dot_equals_pytorchs_own() -> None:
    attention, query, outputs = built("scaled_dot", ("soft", "predicted"), 1, False)
    expected = nn.functional.scaled_dot_product_attention(
        attention.score.query(query), attention.score.key(outputs), outputs, attn_mask=MASK.unsqueeze(1)
    )
    assert torch.allclose(attended(attention, query, outputs)[0], expected, atol=1e-12)


@pytest.mark.parametrize("heads", [1, 2])
def test_memory_and_state_of_selected_sentences_go_on_as_those_of_the_whole(heads: int) -> None:
    attention, query, outputs = built("additive", ("local", "monotonic"), heads, True)
    memory, rows = attention.prepare(outputs, MASK), torch.tensor([2, 0, 0, 1])
    _, _, state = attention(query[:, :1], memory, attention.start(memory))
    context, weights, after = attention(query[:, 1:2], memory, state)
    chosen = attention(query[rows, 1:2], memory.select(rows), state.select(rows))
    assert torch.allclose(chosen[0], context[rows], atol=1e-12)
    assert torch.allclose(chosen[1], weights[rows], atol=1e-12)
    assert torch.equal(chosen[2].position, after.position[rows])
    assert chosen[2].coverage is not None and after.coverage is not None
    assert torch.allclose(chosen[2].coverage, after.coverage[rows], atol=1e-12)


def test_coverage_changes_the_second_weights_but_not_the_first() -> None:
    covering = attention_of("additive", coverage=True)
    plain = attention_of("additive")
    plain.load_state_dict({name: p for name, p in covering.state_dict().items() if name != "w_c"})
    query, outputs = torch.randn(B, T, query_size("additive")).double(), torch.randn(B, S, M).double()
    (_, with_it, _), (_, without, _) = (attended(each, query, outputs) for each in (covering, plain))
    assert torch.allclose(with_it[:, 0], without[:, 0], atol=1e-12)
    assert (with_it[0, 1] - without[0, 1]).abs().max() > 1e-4


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16])
@cases
def test_autocast_gives_finite_contexts_and_gradients(kind, selection, heads, coverage, precision) -> None:
    attention, query, outputs = built(kind, selection, heads, coverage)
    query, outputs = query.float().requires_grad_(), outputs.float().requires_grad_()
    with torch.autocast("cpu", precision):
        context, weights, _ = attended(attention.float().train(), query, outputs)
    context.float().square().sum().backward()
    assert context.isfinite().all()
    assert weights.dtype == torch.float32
    assert all(leaf.grad is None or leaf.grad.isfinite().all() for leaf in (query, outputs, *attention.parameters()))


def test_the_size_of_the_space_is_that_of_all_heads_together() -> None:
    attention, _, outputs = built("scaled_dot", ("soft", "predicted"), 2, False)
    assert attention.prepare(outputs, MASK).keys.shape == (B, 2, S, A // 2)
