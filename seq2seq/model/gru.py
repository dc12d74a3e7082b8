"""nn.GRU with a backward pass of its own on the CPU: the recurrent weights' gradient is one product after the loop."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import Function, once_differentiable

from seq2seq.model.packing import Sentences, from_rows, to_rows
from seq2seq.model.products import linear, product, rounded


class GRU(nn.GRU):
    """One layer, batch first or packed, in one or both directions: nn.GRU's numbers, parameters and their names.

    r, z = sigmoid(W x + b + U h + c);  n = tanh(W x + b + r (U h + c));  h' = (1 - z) n + z h  (Cho 2014, equations
    5 to 8, with the reset inside, as in PyTorch). W x + b of all steps is one product before the loop. PyTorch's CPU
    loop multiplies for U's gradient at each step; here that, too, is one product (class _Loop). On other devices it
    is nn.GRU, which has fused kernels there.
    """

    def forward(  # type: ignore[override]
        self, inputs: Sentences, state: Float[Tensor, "L B H"]
    ) -> tuple[Sentences, Float[Tensor, "L B H"]]:
        """Outputs at each step and the state after the last one, from a first state."""
        if state.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
            return super().forward(inputs, state)
        data, sizes, (state,) = to_rows(inputs, (state,))
        suffixes = ("_l0", "_l0_reverse")[: state.size(0)]
        runs = [
            _Loop.apply(
                linear(data, getattr(self, f"weight_ih{suffix}"), getattr(self, f"bias_ih{suffix}")),
                getattr(self, f"weight_hh{suffix}"),
                getattr(self, f"bias_hh{suffix}"),
                first,
                sizes,
                bool(direction),
            )
            for direction, (suffix, first) in enumerate(zip(suffixes, state, strict=True))
        ]
        joined = torch.cat([outputs for outputs, _ in runs], dim=-1) if len(runs) > 1 else runs[0][0]
        last = torch.stack([final for _, final in runs])
        outputs, (last,) = from_rows(inputs, joined, (last,))
        return outputs, last


class _Loop(Function):
    """The recurrence over the rows of all steps: sizes[t] of them, those of the longest sentences, are of step t.

    Backwards, every gate's gradient is dh' times a factor that is known after the forward pass, so that a step is
    four operations: with a = (1 - z)(1 - n^2), the factors are a r (1 - r) (U h + c)_n for r's preactivation,
    (h - n) z (1 - z) for z's, a for W x + b's part of n's and a r for U h + c's.
    """

    @staticmethod
    def forward(
        ctx: Any,
        projected: Float[Tensor, "P G"],
        weight: Float[Tensor, "G H"],
        bias: Float[Tensor, "G"],
        first: Float[Tensor, "B H"],
        sizes: Sequence[int],
        backward: bool,
    ) -> tuple[Float[Tensor, "P H"], Float[Tensor, "B H"]]:
        hidden, positions = first.size(1), len(projected)
        outputs = projected.new_empty(positions, hidden)
        before = _rows(projected, positions, hidden)
        gates = torch.empty_like(projected)  # r, z, n
        recurrent = projected.new_empty(positions, hidden)  # n's part of U h + c
        state = _rows(first, len(first), hidden)
        state[: len(first)] = first
        for start, size in _steps(sizes, backward):
            rows = slice(start, start + size)
            h = state[:size]
            before[rows] = h
            summed = product(state[: rounded(size)], weight)[:size].add_(bias)
            gate = gates[rows]
            r_z = gate[:, : 2 * hidden]
            torch.add(projected[rows, : 2 * hidden], summed[:, : 2 * hidden], out=r_z).sigmoid_()
            recurrent[rows] = summed[:, 2 * hidden :]
            n = gate[:, 2 * hidden :]
            torch.addcmul(projected[rows, 2 * hidden :], r_z[:, :hidden], recurrent[rows], out=n).tanh_()
            torch.lerp(n, h, r_z[:, hidden:], out=outputs[rows])
            state[:size] = outputs[rows]
        ctx.save_for_backward(weight, before, gates, recurrent)
        ctx.sizes, ctx.backward = sizes, backward
        return outputs, state[: len(first)]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor, d_last: Tensor) -> tuple[Tensor | None, ...]:
        weight, before, gates, recurrent = ctx.saved_tensors
        r, z, n = gates.chunk(3, dim=1)
        positions, hidden = r.shape
        a = (1 - z) * (1 - n.square())
        factors = torch.stack([a * r * (1 - r) * recurrent, (before[:positions] - n) * z * (1 - z), a * r], dim=1)
        d_summed = _rows(gates, positions, 3 * hidden)  # of U h + c
        by_gate = d_summed.unflatten(1, (3, hidden))
        d_states = torch.empty_like(r)
        d_state = d_last.clone()
        for start, size in reversed(_steps(ctx.sizes, ctx.backward)):
            rows = slice(start, start + size)
            d = d_states[rows]
            torch.add(d_state[:size], d_outputs[rows], out=d)
            torch.mul(factors[rows], d.unsqueeze(1), out=by_gate[rows])
            through = product(d_summed[start : start + rounded(size)], weight.t())[:size]
            torch.addcmul(through, d, z[rows], out=d_state[:size])
        d_projected = torch.cat([d_summed[:positions, : 2 * hidden], d_states * a], dim=1)
        d_weight = product(d_summed.t(), before.t())
        return d_projected, d_weight, d_summed.sum(dim=0), d_state, None, None


def _rows(like: Tensor, count: int, size: int) -> Tensor:
    """Room for `count` rows, and after them zeros for products of `rounded` size."""
    rows = like.new_empty(rounded(count), size)
    rows[count:] = 0
    return rows


def _steps(sizes: Sequence[int], backward: bool) -> list[tuple[int, int]]:
    """First row and number of rows of each step, in the order in which they are read."""
    starts = [0]
    for size in sizes[:-1]:
        starts.append(starts[-1] + size)
    steps = list(zip(starts, sizes, strict=True))
    return steps[::-1] if backward else steps
