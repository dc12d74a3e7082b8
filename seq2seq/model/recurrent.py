"""Deep stacks of rnn, lstm or gru behind one module and one state type."""

from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from seq2seq.model.gru import GRU
from seq2seq.model.layer_norm_cells import LAYER_NORM_CELLS

CELLS: dict[str, type[nn.RNN] | type[nn.LSTM] | type[nn.GRU]] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": GRU}


class RecurrentState(NamedTuple):
    """State of all layers (L: layers, times directions); only lstm has a second tensor, its memory cell."""

    hidden: Float[Tensor, "L B H"]
    cell: Float[Tensor, "L B H"] | None
    masks: tuple[Float[Tensor, "B _"], ...] | None = None
    """Variational dropout: what the inputs of each layer are multiplied by at every step; None drops nothing."""

    def select(self, rows: Int[Tensor, "N"]) -> "RecurrentState":
        """The states of the given sentences: repeated, reordered or dropped."""
        cell = None if self.cell is None else self.cell.index_select(1, rows)
        masks = None if self.masks is None else tuple(mask.index_select(0, rows) for mask in self.masks)
        return RecurrentState(self.hidden.index_select(1, rows), cell, masks)


class Recurrent(nn.Module):
    """Stacked recurrent layers (GRU: Cho 2014; LSTM: Hochreiter & Schmidhuber 1997; rnn: Elman 1990, tanh).

    Args:
        cell: a key of CELLS.
        input_size: size of an input, I.
        hidden_size: size of the state of each direction, H.
        layers: stacked layers.
        dropout: dropout on the inputs of each layer but the first.
        bidirectional: outputs are [forward; backward], D = 2H instead of H.
        layer_norm: layer normalisation inside the cell (Ba 2016; layer_norm_cells.py), in a loop over the steps.
        residual: from the second layer on, a layer's inputs, as they were before dropout, are added to its outputs
            (Wu 2016, equation 6).
        variational_dropout: one dropout mask for all positions of a sentence (Gal & Ghahramani 2016). Of their masks
            those on the inputs of each layer; one on the recurrent state would rule out PyTorch's fused layers.
        input_dropout: dropout on the inputs of the first layer; needs variational_dropout.
        dropped_inputs: how many of the first layer's leading features it may drop; None: all.

    Raises:
        ValueError: input_dropout without variational_dropout.
    """

    def __init__(
        self,
        cell: str,
        input_size: int,
        hidden_size: int,
        layers: int,
        dropout: float,
        bidirectional: bool = False,
        *,
        layer_norm: bool = False,
        residual: bool = False,
        variational_dropout: bool = False,
        input_dropout: float = 0.0,
        dropped_inputs: int | None = None,
    ) -> None:
        super().__init__()
        if input_dropout and not variational_dropout:
            raise ValueError("input_dropout needs variational_dropout; without it, the embedding does its own dropout")
        self.has_cell = cell == "lstm"
        self.hidden_size = hidden_size
        self.directions = 2 if bidirectional else 1
        self.residual = residual
        self.variational_dropout = variational_dropout
        self.input_sizes = [input_size] + [hidden_size * self.directions] * (layers - 1)
        self.input_dropout = input_dropout
        self.dropped_inputs = input_size if dropped_inputs is None else dropped_inputs
        self.dropout = nn.Dropout(dropout)
        layer = LAYER_NORM_CELLS[cell] if layer_norm else partial(CELLS[cell], batch_first=True)
        self.layers = nn.ModuleList(layer(size, hidden_size, bidirectional=bidirectional) for size in self.input_sizes)
        for name, parameter in self.layers.named_parameters():
            if "weight_hh" in name:
                for gate in parameter.split(hidden_size):
                    nn.init.orthogonal_(gate)
            elif "weight_ih" in name:
                for gate in parameter.split(hidden_size):
                    nn.init.xavier_uniform_(gate)
            elif "bias" in name:
                nn.init.zeros_(parameter)

    def zero_state(self, batch: int) -> RecurrentState:
        """Zeros for `batch` sentences, and in training mode the masks of variational dropout, newly drawn."""
        weight = next(self.parameters())
        zeros = weight.new_zeros(len(self.layers) * self.directions, batch, self.hidden_size)
        masks = None
        if self.training and self.variational_dropout:
            rates = [self.input_dropout] + [self.dropout.p] * (len(self.layers) - 1)
            sized = zip(self.input_sizes, rates, strict=True)
            masks = tuple(F.dropout(weight.new_ones(batch, size), rate) for size, rate in sized)
            masks[0][:, self.dropped_inputs :] = 1
        return RecurrentState(zeros, torch.zeros_like(zeros) if self.has_cell else None, masks)

    def forward(
        self, inputs: Float[Tensor, "B T I"], state: RecurrentState
    ) -> tuple[Float[Tensor, "B T D"], RecurrentState]:
        """Outputs of the top layer at each step, and the state after the last one."""
        masks = None if state.masks is None else [mask.unsqueeze(1) for mask in state.masks]
        return self._run(inputs, state, masks)

    def read(
        self, inputs: Float[Tensor, "B S I"], mask: Bool[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "B S D"], RecurrentState]:
        """From a zero state over sentences of different lengths: padding changes nothing, its outputs are 0."""
        pack = partial(pack_padded_sequence, lengths=mask.sum(dim=1).cpu(), batch_first=True, enforce_sorted=False)
        state = self.zero_state(inputs.size(0))
        masks = None
        if state.masks is not None:
            sentences = torch.arange(inputs.size(0), device=inputs.device).unsqueeze(1).expand(mask.shape)
            rows = pack(sentences).data
            masks = [each.index_select(0, rows) for each in state.masks]
        packed = pack(inputs)
        outputs, state = self._run(packed.data, state, masks, packed)
        padded, _ = pad_packed_sequence(packed._replace(data=outputs), batch_first=True, total_length=inputs.size(1))
        return padded, state

    def _run(
        self,
        data: Float[Tensor, "*P I"],
        state: RecurrentState,
        masks: list[Tensor] | None,
        packed: PackedSequence | None = None,
    ) -> tuple[Float[Tensor, "*P D"], RecurrentState]:
        """All layers over [B, T, I], or over the data of `packed`, which stays packed between the layers."""
        hidden = state.hidden.split(self.directions)
        cells = [] if state.cell is None else state.cell.split(self.directions)
        finals = []
        for index, layer in enumerate(self.layers):
            given = self._dropped(data, index, masks)
            outputs, final = layer(
                given if packed is None else packed._replace(data=given),
                (hidden[index], cells[index]) if self.has_cell else hidden[index],
            )
            outputs = outputs if packed is None else outputs.data
            data = outputs + data if self.residual and index else outputs
            finals.append(final if self.has_cell else (final,))
        last = [torch.cat(each) if len(each) > 1 else each[0] for each in zip(*finals, strict=True)]
        return data, RecurrentState(last[0], last[1] if self.has_cell else None, state.masks)

    def _dropped(self, data: Float[Tensor, "*P I"], index: int, masks: list[Tensor] | None) -> Float[Tensor, "*P I"]:
        if masks is not None:
            return data * masks[index]
        return self.dropout(data) if index and not self.variational_dropout else data
