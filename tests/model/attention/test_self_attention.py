"""Self-attention against a plain double loop and against PyTorch's own module."""

import math

import pytest
import torch
from torch import Tensor, nn

from seq2seq.model.attention import SelfAttention

B, S, M = 3, 5, 8
LENGTHS = (5, 3, 1)
MASK = torch.arange(S) < torch.tensor(LENGTHS).unsqueeze(1)


@pytest.fixture(params=[1, 2, 4])
def heads(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture(params=[False, True], ids=["whole", "causal"])
def causal(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture
def module(heads: int, causal: bool) -> SelfAttention:
    module = SelfAttention(M, heads, dropout=0.5, causal=causal).double().eval()
    nn.init.normal_(module.norm.weight)
    nn.init.normal_(module.norm.bias)
    return module


@pytest.fixture
def inputs() -> Tensor:
    return torch.randn(B, S, M).double()


def by_loop(module: SelfAttention, sentence: Tensor, causal: bool) -> Tensor:
    """Vaswani 2017, section 3.2.2, one position and one head at a time, in a residual block with the norm before."""
    length, size = len(sentence), M // module.heads
    centred = sentence - sentence.mean(dim=1, keepdim=True)
    normal = centred / (centred.square().mean(dim=1, keepdim=True) + 1e-5).sqrt()
    normal = normal * module.norm.weight + module.norm.bias
    queries, keys, values = (normal @ weight.T for weight in module.query_key_value.weight.chunk(3))
    rows = []
    for t in range(length):
        seen = range(t + 1 if causal else length)
        joined = []
        for head in range(module.heads):
            part = slice(head * size, (head + 1) * size)
            exponentials = [math.exp(torch.dot(queries[t, part], keys[s, part]).item() / math.sqrt(size)) for s in seen]
            weights = torch.tensor(exponentials).double() / sum(exponentials)
            joined.append(weights @ values[: len(seen), part])
        rows.append(sentence[t] + module.output.weight @ torch.cat(joined) + module.output.bias)
    return torch.stack(rows)


def test_it_equals_a_plain_double_loop(module: SelfAttention, causal: bool, inputs: Tensor) -> None:
    outputs = module(inputs, MASK)
    for b, length in enumerate(LENGTHS):
        assert torch.allclose(outputs[b, :length], by_loop(module, inputs[b, :length], causal), atol=1e-12)


@pytest.mark.parametrize("masked", [False, True])
def test_it_equals_pytorchs_own(module: SelfAttention, causal: bool, masked: bool, inputs: Tensor) -> None:
    own = nn.MultiheadAttention(M, module.heads, batch_first=True).double().eval()
    own.load_state_dict(
        {
            "in_proj_weight": module.query_key_value.weight,
            "in_proj_bias": torch.zeros(3 * M),
            "out_proj.weight": module.output.weight,
            "out_proj.bias": module.output.bias,
        }
    )
    normal = module.norm(inputs)
    later = torch.ones(S, S, dtype=torch.bool).triu(1) if causal else None
    expected, _ = own(normal, normal, normal, key_padding_mask=~MASK if masked else None, attn_mask=later)
    outputs = module(inputs, MASK if masked else None)
    real = MASK if masked else torch.ones_like(MASK)
    assert torch.allclose(outputs[real], (inputs + expected)[real], atol=1e-12)


@pytest.mark.parametrize("masked", [False, True])
def test_a_later_token_changes_no_earlier_output_when_causal(
    module: SelfAttention, causal: bool, masked: bool, inputs: Tensor
) -> None:
    changed = inputs.clone()
    changed[0, 3] += torch.randn(M)
    mask = MASK if masked else None
    same = torch.isclose(module(inputs, mask)[0], module(changed, mask)[0], atol=1e-12).all(dim=-1)
    assert same.tolist() == ([True] * 3 if causal else [False] * 3) + [False] * 2


def test_padding_changes_nothing(module: SelfAttention, inputs: Tensor) -> None:
    outputs = module(inputs, MASK)
    other = module(torch.where(MASK.unsqueeze(-1), inputs, 1e3), MASK)
    for b, length in enumerate(LENGTHS):
        alone = module(inputs[b : b + 1, :length], None)[0]
        assert torch.allclose(outputs[b, :length], alone, atol=1e-12)
        assert torch.equal(outputs[b, :length], other[b, :length])


def test_padding_gets_no_gradient(module: SelfAttention, inputs: Tensor) -> None:
    inputs.requires_grad_()
    module(inputs, MASK)[MASK].square().sum().backward()
    assert inputs.grad is not None
    assert (inputs.grad[~MASK] == 0).all() and (inputs.grad[MASK] != 0).any()


def test_a_head_reads_only_its_own_part_and_mixes_no_sentences() -> None:
    module = SelfAttention(M, 2, dropout=0.0).double()
    nn.init.eye_(module.output.weight)
    nn.init.zeros_(module.output.bias)
    inputs = torch.randn(B, S, M).double()
    before = module(inputs, MASK) - inputs
    second_head_of_values = slice(2 * M + M // 2, 3 * M)
    with torch.no_grad():
        module.query_key_value.weight[second_head_of_values] *= 2
    after = module(inputs, MASK) - inputs
    assert torch.equal(before[..., : M // 2], after[..., : M // 2])
    assert not torch.allclose(before[..., M // 2 :], after[..., M // 2 :])
    changed = inputs.clone()
    changed[1] += torch.randn(S, M).double()
    assert torch.equal((module(changed, MASK) - changed)[[0, 2]], after[[0, 2]])


@pytest.mark.parametrize(("precision", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-6)])
def test_step_by_step_equals_the_whole(heads: int, precision: torch.dtype, tolerance: float) -> None:
    module = SelfAttention(M, heads, dropout=0.5, causal=True).to(precision).eval()
    inputs, cache, steps = torch.randn(B, S, M, dtype=precision), module.empty_cache(B), []
    for step in inputs.split(1, dim=1):
        outputs, cache = module.step(step, cache)
        steps.append(outputs)
    assert cache.keys.shape == cache.values.shape == (B, heads, S, M // heads)
    assert torch.allclose(torch.cat(steps, dim=1), module(inputs, None), atol=tolerance)


def test_a_selected_cache_goes_on_as_that_of_the_whole(heads: int) -> None:
    module = SelfAttention(M, heads, dropout=0.0, causal=True)
    first, second = torch.randn(2, B, 1, M)
    _, cache = module.step(first, module.empty_cache(B))
    rows = torch.tensor([2, 0, 0, 1])
    whole, selected = module.step(second, cache)[0], module.step(second[rows], cache.select(rows))[0]
    assert torch.allclose(whole[rows], selected, atol=1e-6)


def test_stepping_without_causality_is_refused() -> None:
    module = SelfAttention(M, 2, dropout=0.0)
    with pytest.raises(ValueError, match="only causal"):
        module.step(torch.randn(B, 1, M), module.empty_cache(B))


def test_dropout_falls_on_what_is_added_and_only_while_training(inputs: Tensor) -> None:
    module = SelfAttention(M, 2, dropout=0.5).double()
    added = module.eval()(inputs, MASK) - inputs
    dropped = module.train()(inputs, MASK) - inputs
    kept = dropped.abs() > 1e-12
    assert torch.allclose(dropped[kept], 2 * added[kept], atol=1e-12)
    assert 0.3 < kept.double().mean() < 0.7


def test_gradients_are_right(module: SelfAttention, inputs: Tensor) -> None:
    leaves = (inputs[:2].requires_grad_(), *module.parameters())
    assert torch.autograd.gradcheck(lambda x, *_: module(x, MASK[:2])[MASK[:2]], leaves)


def test_autocast_steps_equal_the_whole(heads: int) -> None:
    module = SelfAttention(M, heads, dropout=0.0, causal=True)
    inputs, cache, steps = torch.randn(B, S, M), module.empty_cache(B), []
    with torch.autocast("cpu", torch.bfloat16):
        for step in inputs.split(1, dim=1):
            outputs, cache = module.step(step, cache)
            steps.append(outputs)
        assert torch.allclose(torch.cat(steps, dim=1), module(inputs, None), atol=0.03)
