"""The matrix product of every linear layer, through whichever library multiplies fastest on this processor.

PyTorch hands float32 products to MKL, which uses half of the vector width that AMD processors with AVX-512 have;
oneDNN, which PyTorch carries too, uses all of it (scripts/benchmark_products.py shows both).
"""

import functools
import platform
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import Function, once_differentiable
from torch.nn import functional as F


@functools.cache
def onednn_is_faster() -> bool:
    """Whether products go through oneDNN here: decided by the processor alone, so that a run repeats itself."""
    if torch.backends.cpu.get_cpu_capability() != "AVX512" or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    return "AuthenticAMD" in _processor()


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    return cpuinfo.read_text(encoding="utf-8", errors="replace") if cpuinfo.is_file() else platform.processor()


def rounded(rows: int) -> int:
    """A number of rows from `rows` on, larger by 7 or an eighth at most: so few that oneDNN's kernels are reused.

    It compiles one for each shape, which takes as long as the product and half a megabyte or more.
    """
    step = max(8, 1 << max(rows.bit_length() - 4, 0))
    return -(-rows // step) * step


def product(inputs: Float[Tensor, "N I"], weight: Float[Tensor, "O I"]) -> Float[Tensor, "N O"]:
    """inputs @ weight^T, without a gradient; either may be a transposed view. Sizes should be `rounded`."""
    if _fit_for_onednn(inputs) and onednn_is_faster():
        result: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, weight, None, "none", [], "")
        return result
    return inputs @ weight.t()


def linear(
    inputs: Float[Tensor, "*N I"], weight: Float[Tensor, "O I"], bias: Float[Tensor, "O"] | None = None
) -> Float[Tensor, "*N O"]:
    """F.linear."""
    if _fit_for_onednn(inputs) and onednn_is_faster() and not torch.is_autocast_enabled("cpu"):
        result: Tensor = _Linear.apply(inputs.flatten(end_dim=-2), weight, bias)
        return result.view(*inputs.shape[:-1], -1)
    return F.linear(inputs, weight, bias)


def _fit_for_onednn(inputs: Tensor) -> bool:
    return inputs.dtype == torch.float32 and inputs.device.type == "cpu" and inputs.numel() > 0


class _Linear(Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padded = _padded(inputs)
        ctx.save_for_backward(padded, weight)
        result: Tensor = torch.ops.mkldnn._linear_pointwise(padded, weight, bias, "none", [], "")
        return result[: len(inputs)]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        padded, weight = ctx.saved_tensors
        wanted = ctx.needs_input_grad
        given = _padded(gradient)
        return (
            product(given, weight.t())[: len(gradient)] if wanted[0] else None,
            product(given.t(), padded.t()) if wanted[1] else None,
            gradient.sum(dim=0) if wanted[2] else None,
        )


def _padded(rows: Float[Tensor, "N I"]) -> Float[Tensor, "N2 I"]:
    missing = rounded(len(rows)) - len(rows)
    return F.pad(rows, (0, 0, 0, missing)) if missing else rows


class Linear(nn.Linear):
    """nn.Linear through `linear`."""

    def forward(self, input: Float[Tensor, "*N I"]) -> Float[Tensor, "*N O"]:
        return linear(input, self.weight, self.bias)
