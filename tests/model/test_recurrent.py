"""The stack of recurrent layers against the equations, PyTorch's own stacks and chains built by hand."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from seq2seq.model.recurrent import CELLS, Recurrent, RecurrentState

B, T, I, H = 3, 5, 4, 6
LENGTHS = (2, 5, 3)
MASK = torch.arange(T) < torch.tensor(LENGTHS).unsqueeze(1)


@pytest.fixture(params=CELLS)
def cell(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=[False, True], ids=["fused", "layer_norm"])
def layer_norm(request: pytest.FixtureRequest) -> bool:
    return request.param


def random_state(recurrent: Recurrent) -> RecurrentState:
    """A state with the masks zero_state draws and random numbers in place of its zeros."""
    state = recurrent.zero_state(B)
    memory = None if state.cell is None else torch.randn_like(state.cell)
    return state._replace(hidden=torch.randn_like(state.hidden), cell=memory)


def masks_of(state: RecurrentState) -> tuple[Tensor, ...]:
    assert state.masks is not None
    return state.masks


def of_layer(state: RecurrentState, index: int, directions: int = 1) -> Tensor | tuple[Tensor, Tensor]:
    """The part of a state that belongs to one layer, as PyTorch's layers want it."""
    part = slice(index * directions, (index + 1) * directions)
    return state.hidden[part] if state.cell is None else (state.hidden[part], state.cell[part])


def inputs_seen(recurrent: Recurrent) -> list[Tensor]:
    """A list that fills with the padded inputs each layer is called with, first layer first."""
    seen: list[Tensor] = []

    def note(_: nn.Module, arguments: tuple[Tensor | PackedSequence, object]) -> None:
        given = arguments[0]
        seen.append(given if isinstance(given, Tensor) else pad_packed_sequence(given, batch_first=True)[0])

    for layer in recurrent.layers:
        layer.register_forward_pre_hook(note)
    return seen


def by_equation(cell: str, layer: nn.Module, x, h, c):
    """One step, from the papers' equations (Elman 1990; Cho 2014 with the reset inside; Hochreiter 1997)."""
    gates_x = layer.weight_ih_l0 @ x + layer.bias_ih_l0
    gates_h = layer.weight_hh_l0 @ h + layer.bias_hh_l0
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
            h, c = by_equation(cell, recurrent.layers[0], inputs[b, t], h, c)
            assert torch.allclose(outputs[b, t], h, atol=1e-12)
        assert torch.allclose(state.hidden[0, b], h, atol=1e-12)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_stack_of_three_equals_the_stack_of_pytorch(cell: str, bidirectional: bool) -> None:
    recurrent = Recurrent(cell, I, H, 3, 0.5, bidirectional).double().eval()
    whole = getattr(nn, cell.upper())(I, H, 3, batch_first=True, bidirectional=bidirectional).double()
    for index, layer in enumerate(recurrent.layers):
        for name, parameter in layer.named_parameters():
            nn.init.normal_(parameter, std=0.3)
            whole.get_parameter(name.replace("_l0", f"_l{index}")).data.copy_(parameter)
    inputs, first = torch.randn(B, T, I).double(), random_state(recurrent)
    outputs, state = recurrent(inputs, first)
    expected, last = whole(inputs, first.hidden if first.cell is None else (first.hidden, first.cell))
    hidden, memory = last if cell == "lstm" else (last, None)
    assert torch.allclose(outputs, expected, atol=1e-12)
    assert torch.allclose(state.hidden, hidden, atol=1e-12)
    assert (state.cell is None) if memory is None else torch.allclose(state.cell, memory, atol=1e-12)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
def test_padding_changes_neither_outputs_nor_final_state(cell, layers, bidirectional, layer_norm) -> None:
    recurrent = Recurrent(cell, I, H, layers, 0.0, bidirectional, layer_norm=layer_norm, residual=True).double()
    inputs = torch.randn(B, T, I).double()
    outputs, state = recurrent.read(inputs, MASK)
    for b, length in enumerate(LENGTHS):
        alone, alone_state = recurrent(inputs[b : b + 1, :length], recurrent.zero_state(1))
        assert torch.allclose(outputs[b, :length], alone[0], atol=1e-12)
        assert torch.allclose(state.hidden[:, b], alone_state.hidden[:, 0], atol=1e-12)
        assert state.cell is None or torch.allclose(state.cell[:, b], alone_state.cell[:, 0], atol=1e-12)
        assert (outputs[b, length:] == 0).all()


@pytest.mark.parametrize("bidirectional", [False, True])
def test_residual_adds_a_layers_input_as_it_was_before_dropout(cell: str, bidirectional: bool, layer_norm) -> None:
    recurrent = Recurrent(cell, I, H, 3, 0.4, bidirectional, layer_norm=layer_norm, residual=True)
    inputs, first, directions = torch.randn(B, T, I), random_state(recurrent), 2 if bidirectional else 1
    torch.manual_seed(1)
    outputs, state = recurrent(inputs, first)
    torch.manual_seed(1)
    expected, last = recurrent.layers[0](inputs, of_layer(first, 0, directions))
    for index in (1, 2):
        added, last = recurrent.layers[index](F.dropout(expected, 0.4), of_layer(first, index, directions))
        expected = expected + added
    assert torch.allclose(outputs, expected, atol=1e-6)
    assert torch.allclose(state.hidden[-directions:], last[0] if cell == "lstm" else last, atol=1e-6)


@pytest.mark.parametrize("more", [{}, {"residual": True, "variational_dropout": True, "input_dropout": 0.5}])
def test_one_step_at_a_time_equals_all_steps_at_once_even_in_training(cell, layer_norm, more) -> None:
    dropout = 0.5 if more else 0.0
    recurrent = Recurrent(cell, I, H, 3, dropout, layer_norm=layer_norm, **more).double()
    inputs, state = torch.randn(B, T, I).double(), random_state(recurrent)
    outputs, last = recurrent(inputs, state)
    for t in range(T):
        output, state = recurrent(inputs[:, t : t + 1], state)
        assert torch.allclose(output[:, 0], outputs[:, t], atol=1e-12)
    assert torch.allclose(state.hidden, last.hidden, atol=1e-12)
    assert state.cell is None or torch.allclose(state.cell, last.cell, atol=1e-12)


def test_only_the_state_knows_its_batch_axis_and_selects_its_masks_too(cell: str, layer_norm: bool) -> None:
    recurrent = Recurrent(cell, I, H, 2, 0.5, layer_norm=layer_norm, variational_dropout=True, input_dropout=0.5)
    state, rows, inputs = random_state(recurrent), torch.tensor([2, 0, 2, 1]), torch.randn(B, 1, I)
    whole, last = recurrent(inputs, state)
    selected, selected_last = recurrent(inputs[rows], state.select(rows))
    assert torch.allclose(whole[rows], selected, atol=1e-6)
    assert torch.allclose(last.hidden[:, rows], selected_last.hidden, atol=1e-6)
    assert last.cell is None or torch.allclose(last.cell[:, rows], selected_last.cell, atol=1e-6)
    assert all(
        torch.equal(mask[rows], chosen) for mask, chosen in zip(masks_of(last), masks_of(selected_last), strict=True)
    )


def test_variational_dropout_multiplies_every_position_of_a_sentence_by_one_mask(cell: str, layer_norm: bool) -> None:
    recurrent = Recurrent(
        cell, 40, 30, 2, 0.5, bidirectional=True, layer_norm=layer_norm, variational_dropout=True, input_dropout=0.2
    )
    seen, inputs = inputs_seen(recurrent), torch.randn(B, T, 40)
    _, state = recurrent.read(inputs, MASK)
    first, second = masks_of(state)
    assert first.shape == (B, 40)
    assert second.shape == (B, 60)
    assert first.unique().tolist() == [0.0, 1.25]
    assert second.unique().tolist() == [0.0, 2.0]
    assert torch.equal(seen[0], inputs * first.unsqueeze(1) * MASK.unsqueeze(2))
    for mask, given in ((first, seen[0]), (second, seen[1])):
        assert not torch.equal(mask[0], mask[1]), "sentences have masks of their own"
        for b, length in enumerate(LENGTHS):
            assert torch.equal(given[b, :length] != 0, (mask[b] != 0).expand(length, -1))
    assert not torch.equal(first, masks_of(recurrent.read(inputs, MASK)[1])[0]), "each call draws anew"


def test_variational_masks_preserve_the_expectation_at_their_own_rates() -> None:
    recurrent = Recurrent("gru", I, H, 2, 0.6, variational_dropout=True, input_dropout=0.2)
    first, second = masks_of(recurrent.zero_state(20_000))
    for mask, rate in ((first, 0.2), (second, 0.6)):
        assert float((mask == 0).float().mean()) == pytest.approx(rate, abs=0.01)
        assert torch.allclose(mask.mean(dim=0), torch.ones(mask.size(1)), atol=0.06)


def test_masks_are_drawn_in_training_and_with_variational_dropout_only() -> None:
    variational = Recurrent("gru", I, H, 2, 0.5, variational_dropout=True, input_dropout=0.5)
    assert variational.zero_state(B).masks is not None
    inputs = torch.randn(B, T, I)
    variational.eval()
    assert variational.read(inputs, MASK)[1].masks is None
    assert torch.equal(variational.read(inputs, MASK)[0], variational.read(inputs, MASK)[0])
    assert Recurrent("gru", I, H, 2, 0.5).zero_state(B).masks is None


def test_with_variational_dropout_a_state_without_masks_drops_nothing() -> None:
    recurrent = Recurrent("gru", I, H, 3, 0.5, variational_dropout=True, input_dropout=0.5)
    inputs, state = torch.randn(B, T, I), random_state(recurrent)._replace(masks=None)
    trained, _ = recurrent(inputs, state)
    assert torch.equal(trained, recurrent.eval()(inputs, state)[0])


def test_ordinary_dropout_falls_between_layers_and_differs_from_step_to_step(cell: str, layer_norm: bool) -> None:
    recurrent = Recurrent(cell, I, 50, 3, 0.5, layer_norm=layer_norm)
    seen, inputs = inputs_seen(recurrent), torch.randn(B, T, I)
    outputs, _ = recurrent(inputs, recurrent.zero_state(B))
    assert torch.equal(seen[0], inputs)
    for given in seen[1:]:
        assert float((given == 0).float().mean()) == pytest.approx(0.5, abs=0.1)
        assert not torch.equal(given[:, 0] == 0, given[:, 1] == 0)
    assert (outputs != 0).all()
    recurrent.eval()
    evaluated = [recurrent(inputs, recurrent.zero_state(B))[0] for _ in range(2)]
    assert torch.equal(*evaluated)


def test_dropout_on_the_first_input_needs_variational_dropout() -> None:
    with pytest.raises(ValueError, match="input_dropout needs variational_dropout"):
        Recurrent("gru", I, H, 1, 0.0, input_dropout=0.1)


def test_a_zero_state_fits_every_stack(cell: str, layer_norm: bool) -> None:
    recurrent = Recurrent(cell, I, H, 3, 0.0, bidirectional=True, layer_norm=layer_norm)
    outputs, state = recurrent(torch.randn(B, T, I), recurrent.zero_state(B))
    assert outputs.shape == (B, T, 2 * H)
    assert state.hidden.shape == (6, B, H)
    assert (state.cell is not None) == (cell == "lstm") == recurrent.has_cell


def test_weights_start_orthogonal_or_uniform_gate_by_gate_and_biases_at_zero(cell: str, layer_norm: bool) -> None:
    for name, parameter in Recurrent(cell, I, H, 2, 0.0, True, layer_norm=layer_norm).layers.named_parameters():
        if "weight_hh" in name:
            for gate in parameter.split(H):
                assert torch.allclose(gate @ gate.T, torch.eye(H), atol=1e-5)
        elif "weight_ih" in name:
            bound = (6 / (H + parameter.size(1))) ** 0.5
            assert 0.7 * bound < float(parameter.detach().abs().max()) <= bound
        else:
            assert (parameter == (1.0 if "gain" in name else 0.0)).all()


def test_both_paths_name_the_parameters_they_share_alike(cell: str) -> None:
    fused, own = (
        {name: tensor.shape for name, tensor in Recurrent(cell, I, H, 2, 0.0, True, layer_norm=norm).named_parameters()}
        for norm in (False, True)
    )
    assert fused.items() <= own.items()
    added = {name.split(".")[-1].split("_l0")[0] for name in own.keys() - fused.keys()}
    assert added == {"gain_ih", "gain_hh"} | ({"gain_cell", "bias_cell"} if cell == "lstm" else set())


def test_a_state_dict_makes_another_stack_the_same(cell: str, layer_norm: bool) -> None:
    one, other = (Recurrent(cell, I, H, 3, 0.0, True, layer_norm=layer_norm, residual=True) for _ in range(2))
    inputs = torch.randn(B, T, I)
    assert not torch.allclose(one.read(inputs, MASK)[0], other.read(inputs, MASK)[0])
    other.load_state_dict(one.state_dict())
    assert torch.equal(one.read(inputs, MASK)[0], other.read(inputs, MASK)[0])


def test_input_dropout_can_be_kept_to_the_leading_features() -> None:
    recurrent = Recurrent("gru", I, H, 1, 0.0, variational_dropout=True, input_dropout=0.5, dropped_inputs=1).train()
    masks = recurrent.zero_state(200).masks
    assert masks is not None
    assert set(masks[0][:, 0].tolist()) == {0.0, 2.0}
    assert (masks[0][:, 1:] == 1).all()
