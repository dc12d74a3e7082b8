"""Layer normalisation inside the cell: against the equations of Ba 2016, one sentence and one step at a time."""

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from seq2seq.model.layer_norm_cells import LAYER_NORM_CELLS, LayerNormLayer

B, T, I, H = 3, 4, 3, 5
LENGTHS = (2, 4, 3)


@pytest.fixture(params=LAYER_NORM_CELLS)
def cell(request: pytest.FixtureRequest) -> str:
    return request.param


def drawn(cell: str, bidirectional: bool = False) -> LayerNormLayer:
    """A layer in float64 whose weights, gains and biases are all random."""
    layer = LAYER_NORM_CELLS[cell](I, H, bidirectional).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    return layer


def run(cell: str, layer, inputs, hidden: Tensor, memory: Tensor):
    """Outputs, hidden state and memory cell, which rnn and gru leave as it is."""
    outputs, last = layer(inputs, (hidden, memory) if cell == "lstm" else hidden)
    return outputs, *(last if cell == "lstm" else (last, memory))


def layer_normalised(a: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    """Equations 15 and 16, with the 1e-5 that keeps a constant vector from a division by zero."""
    mean = sum(a) / len(a)
    variance = sum((each - mean) ** 2 for each in a) / len(a)
    return torch.stack(
        [g * (each - mean) / (variance + 1e-5) ** 0.5 + b for each, g, b in zip(a, gain, bias, strict=True)]
    )


def by_equation(cell: str, layer: LayerNormLayer, x, h, c, suffix="_l0"):
    """One step of one sentence: equation 20 with tanh (rnn), 20 to 22 (lstm), 26 to 28 (gru; z there is 1 - z here)."""
    p = {name.removesuffix(suffix): value for name, value in layer.named_parameters() if name.endswith(suffix)}

    def normalised(which: str, value: Tensor, rows: slice) -> Tensor:
        summed = p[f"weight_{which}"][rows] @ value
        return layer_normalised(summed, p[f"gain_{which}"][rows], p[f"bias_{which}"][rows])

    if cell == "gru":
        gates, candidate = slice(0, 2 * H), slice(2 * H, 3 * H)
        r, z = torch.sigmoid(normalised("ih", x, gates) + normalised("hh", h, gates)).split(H)
        n = torch.tanh(normalised("ih", x, candidate) + r * normalised("hh", h, candidate))
        return (1 - z) * n + z * h, c
    summed = normalised("ih", x, slice(None)) + normalised("hh", h, slice(None))
    if cell == "rnn":
        return torch.tanh(summed), c
    i, f, g, o = summed.split(H)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(layer_normalised(c, p["gain_cell"], p["bias_cell"])), c


def test_each_cell_follows_its_equations(cell: str) -> None:
    layer, inputs = drawn(cell), torch.randn(B, T, I).double()
    hidden, memory = torch.randn(2, 1, B, H).double()
    outputs, last_hidden, last_memory = run(cell, layer, inputs, hidden, memory)
    for b in range(B):
        h, c = hidden[0, b], memory[0, b]
        for t in range(T):
            h, c = by_equation(cell, layer, inputs[b, t], h, c)
            assert torch.allclose(outputs[b, t], h, atol=1e-12)
        assert torch.allclose(last_hidden[0, b], h, atol=1e-12)
        assert torch.allclose(last_memory[0, b], c, atol=1e-12)


def test_both_directions_follow_the_equations_over_packed_sentences(cell: str) -> None:
    layer, inputs = drawn(cell, bidirectional=True), torch.randn(B, T, I).double()
    hidden, memory = torch.randn(2, 2, B, H).double()
    packed = pack_padded_sequence(inputs, torch.tensor(LENGTHS), batch_first=True, enforce_sorted=False)
    packed_outputs, last_hidden, last_memory = run(cell, layer, packed, hidden, memory)
    outputs, lengths = pad_packed_sequence(packed_outputs, batch_first=True)
    assert lengths.tolist() == list(LENGTHS)
    for b, length in enumerate(LENGTHS):
        for direction, suffix in enumerate(("_l0", "_l0_reverse")):
            h, c = hidden[direction, b], memory[direction, b]
            for t in reversed(range(length)) if direction else range(length):
                h, c = by_equation(cell, layer, inputs[b, t], h, c, suffix)
                assert torch.allclose(outputs[b, t, direction * H :][:H], h, atol=1e-12)
            assert torch.allclose(last_hidden[direction, b], h, atol=1e-12)
            assert torch.allclose(last_memory[direction, b], c, atol=1e-12)


def test_a_zero_state_has_finite_gradients(cell: str) -> None:
    layer, zeros = drawn(cell), torch.zeros(1, B, H).double()
    outputs, _, _ = run(cell, layer, torch.zeros(B, T, I).double(), zeros, zeros)
    outputs.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())


@pytest.mark.parametrize("packed", [False, True])
def test_gradients_are_those_of_finite_differences(cell: str, packed: bool) -> None:
    layer = drawn(cell, bidirectional=True)
    names = [name for name, _ in layer.named_parameters()]

    def results(inputs: Tensor, hidden: Tensor, memory: Tensor, *parameters: Tensor) -> tuple[Tensor, ...]:
        given = pack_padded_sequence(inputs, torch.tensor([2, 3]), batch_first=True, enforce_sorted=False)
        replaced = dict(zip(names, parameters, strict=True))

        def call(*arguments):
            return functional_call(layer, replaced, arguments)

        outputs, *last = run(cell, call, given if packed else inputs, hidden, memory)
        return (outputs.data if packed else outputs, *last)

    arguments = [torch.randn(2, 3, I), torch.randn(2, 2, H), torch.randn(2, 2, H), *layer.parameters()]
    assert torch.autograd.gradcheck(results, [each.detach().double().requires_grad_() for each in arguments])
