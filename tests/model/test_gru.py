"""Our GRU against PyTorch's: outputs, states and every gradient."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from seq2seq.model import products
from seq2seq.model.gru import GRU

B, T, I, H = 5, 7, 6, 8
LENGTHS = torch.tensor([3, 7, 1, 7, 2])
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


def pair(dtype: torch.dtype, bidirectional: bool) -> tuple[GRU, nn.GRU]:
    ours = GRU(I, H, batch_first=True, bidirectional=bidirectional).to(dtype)
    theirs = nn.GRU(I, H, batch_first=True, bidirectional=bidirectional).to(dtype)
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


def everything(layer: nn.GRU, inputs: Tensor, first: Tensor, packed: bool) -> list[Tensor]:
    """Outputs, last state, and the gradients of inputs, first state and parameters."""
    inputs, first = inputs.clone().requires_grad_(), first.clone().requires_grad_()
    given = pack_padded_sequence(inputs, LENGTHS, batch_first=True, enforce_sorted=False) if packed else inputs
    outputs, last = layer(given, first)
    data = outputs.data if packed else outputs
    torch.manual_seed(1)
    total = (data * torch.randn_like(data)).sum() + (last * torch.randn_like(last)).sum()
    return [data, last, *torch.autograd.grad(total, [inputs, first, *layer.parameters()])]


@pytest.mark.parametrize("library", [False, True])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_values_and_gradients_are_those_of_pytorch(monkeypatch, dtype, bidirectional, packed, library) -> None:
    if library and not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        pytest.skip("this build of PyTorch has no oneDNN")
    monkeypatch.setattr(products, "onednn_is_faster", lambda: library)
    ours, theirs = pair(dtype, bidirectional)
    inputs = torch.randn(B, T, I, dtype=dtype)
    first = torch.randn(1 + bidirectional, B, H, dtype=dtype)
    compared = zip(everything(ours, inputs, first, packed), everything(theirs, inputs, first, packed), strict=True)
    for mine, other in compared:
        assert torch.allclose(mine, other, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("packed", [False, True])
def test_gradients_are_right(packed: bool) -> None:
    ours, _ = pair(torch.float64, bidirectional=True)

    def run(inputs: Tensor, first: Tensor, *_: Tensor) -> tuple[Tensor, Tensor]:
        given = pack_padded_sequence(inputs, LENGTHS, batch_first=True, enforce_sorted=False) if packed else inputs
        outputs, last = ours(given, first)
        return outputs.data if packed else outputs, last

    inputs = torch.randn(B, T, I, dtype=torch.float64, requires_grad=True)
    first = torch.randn(2, B, H, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(run, (inputs, first, *ours.parameters()))


def test_outputs_may_be_changed_in_place_after_the_step() -> None:
    ours, theirs = pair(torch.float32, bidirectional=False)
    inputs, first = torch.randn(B, T, I), torch.zeros(1, B, H)
    (theirs(inputs, first)[0] + 1).square().sum().backward()
    ours(inputs, first)[0].add_(1).square().sum().backward()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert mine.grad is not None
        assert other.grad is not None
        assert torch.allclose(mine.grad, other.grad, atol=1e-4)


def test_autocast_still_decides_the_precision() -> None:
    ours, theirs = pair(torch.float32, bidirectional=False)
    inputs, first = torch.randn(B, T, I), torch.zeros(1, B, H)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert ours(inputs, first)[0].dtype == theirs(inputs, first)[0].dtype
