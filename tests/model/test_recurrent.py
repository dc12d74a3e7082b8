"""The recurrent layers against their equations, and padding that changes nothing."""

import pytest
import torch

from seq2seq.model.recurrent import CELLS, Recurrent, RecurrentState

B, T, I, H = 3, 5, 4, 6


@pytest.fixture(params=CELLS)
def cell(request: pytest.FixtureRequest) -> str:
    return request.param


def by_equation(cell: str, layers: torch.nn.RNNBase, x, h, c):
    """One step, from the papers' equations (Elman 1990; Cho 2014 with the reset inside; Hochreiter 1997)."""
    gates_x = layers.weight_ih_l0 @ x + layers.bias_ih_l0
    gates_h = layers.weight_hh_l0 @ h + layers.bias_hh_l0
    if cell == "rnn":
        return torch.tanh(gates_x + gates_h), c
    if cell == "gru":
        (rx, zx, nx), (rh, zh, nh) = gates_x.split(H), gates_h.split(H)
        r, z = torch.sigmoid(rx + rh), torch.sigmoid(zx + zh)
        n = torch.tanh(nx + r * nh)
        return (1 - z) * n + z * h, c
    i, f, g, o = (gates_x + gates_h).split(H)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def test_each_cell_follows_its_equations(cell: str) -> None:
    recurrent = Recurrent(cell, I, H, layers=1, dropout=0.0).double()
    inputs = torch.randn(B, T, I).double()
    outputs, state = recurrent(inputs, recurrent.zero_state(B))
    for b in range(B):
        h, c = torch.zeros(H).double(), torch.zeros(H).double()
        for t in range(T):
            h, c = by_equation(cell, recurrent.layers, inputs[b, t], h, c)
            assert torch.allclose(outputs[b, t], h, atol=1e-12)
        assert torch.allclose(state.hidden[0, b], h, atol=1e-12)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
def test_padding_changes_neither_outputs_nor_final_state(cell: str, layers: int, bidirectional: bool) -> None:
    recurrent = Recurrent(cell, I, H, layers, 0.0, bidirectional)
    inputs, lengths = torch.randn(B, T, I), (5, 2, 3)
    mask = torch.arange(T) < torch.tensor(lengths).unsqueeze(1)
    outputs, state = recurrent.read(inputs, mask)
    for b, length in enumerate(lengths):
        alone, alone_state = recurrent.read(inputs[b : b + 1, :length], mask[b : b + 1, :length])
        assert torch.allclose(outputs[b, :length], alone[0], atol=1e-6)
        assert torch.allclose(state.hidden[:, b], alone_state.hidden[:, 0], atol=1e-6)
        assert (outputs[b, length:] == 0).all()


def test_only_the_state_knows_its_batch_axis(cell: str) -> None:
    recurrent = Recurrent(cell, I, H, 2, 0.0)
    state = RecurrentState(torch.randn(2, B, H), torch.randn(2, B, H) if cell == "lstm" else None)
    rows = torch.tensor([2, 0, 2, 1])
    inputs = torch.randn(B, 1, I)
    whole, _ = recurrent(inputs, state)
    selected, _ = recurrent(inputs[rows], state.select(rows))
    assert torch.allclose(whole[rows], selected, atol=1e-6)


def test_recurrent_weights_start_orthogonal(cell: str) -> None:
    weight = Recurrent(cell, I, H, 1, 0.0).layers.weight_hh_l0
    for gate in weight.split(H):
        assert torch.allclose(gate @ gate.T, torch.eye(H), atol=1e-5)
