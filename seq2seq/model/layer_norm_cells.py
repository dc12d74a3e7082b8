"""rnn, lstm and gru with layer normalisation inside the cell; each is called like PyTorch's layer of that name."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from seq2seq.model.packing import Sentences, from_rows, to_rows
from seq2seq.model.products import linear

Rows = Sequence[Float[Tensor, "P _"]]
"""Tensors over the same positions P: blocks of gates, or the parts of a state."""


class LayerNorm(NamedTuple):
    """LN(a; gain, bias) = gain * (a - mean) / sqrt(variance + 1e-5) + bias (Ba 2016, equations 15 and 16).

    Equation 15 has no 1e-5; it makes LN(0) the bias, so that a zero state can be normalised.
    """

    gain: Float[Tensor, "G"]
    bias: Float[Tensor, "G"]

    def __call__(self, summed: Float[Tensor, "*P G"]) -> Float[Tensor, "*P G"]:
        return F.layer_norm(summed, self.gain.shape, self.gain, self.bias)


class LayerNormLayer(nn.Module):
    """One layer, in one or both directions: batch first, or packed, like nn.GRU(..., batch_first=True).

    W x and U h are normalised apart, before they are added, and the biases of the cell are those of LN (Ba 2016,
    equations 20 and 26). Parameters have PyTorch's names where they mean the same; new are gain_ih and gain_hh, and
    gain_cell and bias_cell of lstm. Gains start at 1 and the rest at 0; Recurrent draws the weights.

    Args:
        input_size: size of an input, I.
        hidden_size: size of the state of each direction, H.
        bidirectional: outputs are [forward; backward], D = 2H instead of H.
    """

    normalised_together: tuple[int, ...]
    """Gates that share a mean and a variance, in the order of the rows of the weights."""

    def __init__(self, input_size: int, hidden_size: int, bidirectional: bool = False) -> None:
        super().__init__()
        self.suffixes = ("_l0", "_l0_reverse") if bidirectional else ("_l0",)
        self.block_sizes = [gates * hidden_size for gates in self.normalised_together]
        rows = sum(self.block_sizes)
        for suffix in self.suffixes:
            for which, size in (("ih", input_size), ("hh", hidden_size)):
                self.register_parameter(f"weight_{which}{suffix}", nn.Parameter(torch.zeros(rows, size)))
                self._register_norm(which + suffix, rows)

    def _register_norm(self, name: str, size: int) -> None:
        self.register_parameter(f"gain_{name}", nn.Parameter(torch.ones(size)))
        self.register_parameter(f"bias_{name}", nn.Parameter(torch.zeros(size)))

    def _norms(self, name: str) -> list[LayerNorm]:
        gains, biases = (getattr(self, f"{kind}_{name}").split(self.block_sizes) for kind in ("gain", "bias"))
        return [LayerNorm(gain, bias) for gain, bias in zip(gains, biases, strict=True)]

    def _normalised(self, summed: Float[Tensor, "P G"], norms: list[LayerNorm]) -> list[Tensor]:
        return [norm(block) for norm, block in zip(norms, summed.split(self.block_sizes, dim=-1), strict=True)]

    def forward(
        self, inputs: Sentences, state: Tensor | tuple[Tensor, Tensor]
    ) -> tuple[Sentences, Tensor | tuple[Tensor, ...]]:
        """Outputs at each step and the state after the last one; a state is [directions, B, H], of lstm a pair."""
        data, sizes, states = to_rows(inputs, state if isinstance(state, tuple) else (state,))
        outputs, finals = [], []
        for direction, suffix in enumerate(self.suffixes):
            output, final = self._run(data, sizes, [each[direction] for each in states], suffix)
            outputs.append(output)
            finals.append(final)
        joined = torch.cat(outputs, dim=-1) if len(outputs) > 1 else outputs[0]
        last = tuple(torch.stack(each) for each in zip(*finals, strict=True))
        in_form, last = from_rows(inputs, joined, last)
        return in_form, last if isinstance(state, tuple) else last[0]

    def _run(
        self, data: Float[Tensor, "P I"], sizes: list[int], state: Sequence[Float[Tensor, "B H"]], suffix: str
    ) -> tuple[Float[Tensor, "P H"], Sequence[Float[Tensor, "B H"]]]:
        """One direction over the rows of all steps: sizes[t] of them, those of the longest sentences, are of step t."""
        projected = self._normalised(linear(data, getattr(self, f"weight_ih{suffix}")), self._norms("ih" + suffix))
        steps = list(zip(sizes, *(block.split(sizes) for block in projected), strict=True))
        recurrent_weight, norms = getattr(self, f"weight_hh{suffix}"), self._norms("hh" + suffix)
        outputs = []
        backward = suffix.endswith("reverse")
        for size, *from_input in reversed(steps) if backward else steps:
            running = [each[:size] for each in state]
            from_state = self._normalised(linear(running[0], recurrent_weight), norms)
            new = self._cell(from_input, from_state, running, suffix)
            outputs.append(new[0])
            # Sentences that have ended, or read backward have not begun, keep the state they have.
            state = [
                torch.cat([part, old[size:]]) if size < old.size(0) else part
                for part, old in zip(new, state, strict=True)
            ]
        return torch.cat(outputs[::-1] if backward else outputs), state

    def _cell(self, from_input: Rows, from_state: Rows, state: Rows, suffix: str) -> tuple[Float[Tensor, "P H"], ...]:
        """The next state, of which the first part is also the output, from LN(W x), LN(U h) and the last state."""
        raise NotImplementedError


class LayerNormRNN(LayerNormLayer):
    """h' = tanh(LN(W x) + LN(U h)); Ba 2016, equation 4, normalises the sum instead."""

    normalised_together = (1,)

    def _cell(self, from_input: Rows, from_state: Rows, state: Rows, suffix: str) -> tuple[Float[Tensor, "P H"], ...]:
        return (torch.tanh(from_input[0] + from_state[0]),)


class LayerNormLSTM(LayerNormLayer):
    """(i, f, g, o) = LN(W x) + LN(U h); c' = σ(f) c + σ(i) tanh(g); h' = σ(o) tanh(LN(c')) (equations 20 to 22)."""

    normalised_together = (4,)

    def __init__(self, input_size: int, hidden_size: int, bidirectional: bool = False) -> None:
        super().__init__(input_size, hidden_size, bidirectional)
        for suffix in self.suffixes:
            self._register_norm("cell" + suffix, hidden_size)

    def _cell(self, from_input: Rows, from_state: Rows, state: Rows, suffix: str) -> tuple[Float[Tensor, "P H"], ...]:
        i, f, g, o = (from_input[0] + from_state[0]).chunk(4, dim=-1)
        cell = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
        norm = LayerNorm(getattr(self, f"gain_cell{suffix}"), getattr(self, f"bias_cell{suffix}"))
        return torch.sigmoid(o) * torch.tanh(norm(cell)), cell


class LayerNormGRU(LayerNormLayer):
    """(r, z) = σ(LN(W x) + LN(U h)); n = tanh(LN(W_n x) + r LN(U_n h)); h' = (1 - z) n + z h.

    Equations 26 to 28, with PyTorch's z, which is 1 - z there.
    """

    normalised_together = (2, 1)

    def _cell(self, from_input: Rows, from_state: Rows, state: Rows, suffix: str) -> tuple[Float[Tensor, "P H"], ...]:
        r, z = torch.sigmoid(from_input[0] + from_state[0]).chunk(2, dim=-1)
        new = torch.tanh(from_input[1] + r * from_state[1])
        return (new + z * (state[0] - new),)


LAYER_NORM_CELLS: dict[str, type[LayerNormLayer]] = {"rnn": LayerNormRNN, "lstm": LayerNormLSTM, "gru": LayerNormGRU}
