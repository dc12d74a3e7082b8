"""Products through oneDNN are the products of PyTorch, forwards and backwards."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from seq2seq.model import products
from seq2seq.model.products import Linear, linear, product


@pytest.fixture(params=[False, True], ids=["PyTorch's own", "oneDNN"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param and not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        pytest.skip("this build of PyTorch has no oneDNN")
    monkeypatch.setattr(products, "onednn_is_faster", lambda: request.param)
    return request.param


def gradients(output: Tensor, *of: Tensor) -> tuple[Tensor, ...]:
    torch.manual_seed(1)
    return torch.autograd.grad((output * torch.randn_like(output)).sum(), of)


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("shape", [(7, 5), (2, 3, 5), (2, 1, 3, 5)])
def test_linear_and_its_gradients_are_those_of_pytorch(library, shape: tuple[int, ...], with_bias: bool) -> None:
    inputs, weight = torch.randn(shape, requires_grad=True), torch.randn(4, 5, requires_grad=True)
    bias = torch.randn(4, requires_grad=True) if with_bias else None
    of = (inputs, weight) if bias is None else (inputs, weight, bias)
    ours, theirs = linear(inputs, weight, bias), F.linear(inputs, weight, bias)
    assert torch.allclose(ours, theirs, atol=1e-5)
    for mine, other in zip(gradients(ours, *of), gradients(theirs, *of), strict=True):
        assert torch.allclose(mine, other, atol=1e-5)


def test_inputs_that_do_not_lie_in_one_piece_are_read_right(library) -> None:
    inputs, weight = torch.randn(5, 3, 6).transpose(0, 1)[:, :, 1:], torch.randn(5, 4).t()
    assert torch.allclose(linear(inputs, weight), inputs @ weight.t(), atol=1e-5)
    assert torch.allclose(product(torch.randn(0, 5), weight), torch.empty(0, 4))


@pytest.mark.parametrize("frozen", ["inputs", "weight"])
def test_what_needs_no_gradient_gets_none(library, frozen: str) -> None:
    inputs = torch.randn(3, 5, requires_grad=frozen != "inputs")
    weight = torch.randn(4, 5, requires_grad=frozen != "weight")
    linear(inputs, weight).sum().backward()
    assert (inputs.grad is None) == (frozen == "inputs")
    assert (weight.grad is None) == (frozen == "weight")


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_precisions_keep_theirs(library, dtype: torch.dtype) -> None:
    layer = Linear(5, 4).to(dtype)
    assert layer(torch.randn(3, 5, dtype=dtype)).dtype == dtype


def test_autocast_still_decides_the_precision(library) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert Linear(5, 4)(torch.randn(3, 5)).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("capability", "vendor", "expected"),
    [("AVX512", "AuthenticAMD", True), ("AVX512", "GenuineIntel", False), ("AVX2", "AuthenticAMD", False)],
)
def test_the_processor_alone_decides(monkeypatch, capability: str, vendor: str, expected: bool) -> None:
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        pytest.skip("this build of PyTorch has no oneDNN")
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(products, "_processor", lambda: f"vendor_id : {vendor}")
    assert products.onednn_is_faster.__wrapped__() is expected
