"""rnn, gru and lstm behind one module and one state type."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

CELLS: dict[str, type[nn.RNN] | type[nn.LSTM] | type[nn.GRU]] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


class RecurrentState(NamedTuple):
    """State of all layers (L: layers, times directions); only lstm has a second tensor, its memory cell."""

    hidden: Float[Tensor, "L B H"]
    cell: Float[Tensor, "L B H"] | None

    def select(self, rows: Int[Tensor, "N"]) -> "RecurrentState":
        """The states of the given sentences: repeated, reordered or dropped."""
        cell = None if self.cell is None else self.cell.index_select(1, rows)
        return RecurrentState(self.hidden.index_select(1, rows), cell)


class Recurrent(nn.Module):
    """Stacked recurrent layers (GRU: Cho 2014; LSTM: Hochreiter & Schmidhuber 1997; rnn: Elman 1990, tanh).

    Args:
        cell: a key of CELLS.
        input_size: size of an input, I.
        hidden_size: size of the state of each direction, H.
        layers: stacked layers.
        dropout: dropout between layers.
        bidirectional: outputs are [forward; backward], D = 2H instead of H.
    """

    def __init__(
        self, cell: str, input_size: int, hidden_size: int, layers: int, dropout: float, bidirectional: bool = False
    ) -> None:
        super().__init__()
        self.layers = CELLS[cell](
            input_size,
            hidden_size,
            layers,
            batch_first=True,
            dropout=dropout if layers > 1 else 0.0,
            bidirectional=bidirectional,
        )
        for name, parameter in self.layers.named_parameters():
            if name.startswith("weight_hh"):
                for gate in parameter.split(hidden_size):
                    nn.init.orthogonal_(gate)
            elif name.startswith("weight_ih"):
                for gate in parameter.split(hidden_size):
                    nn.init.xavier_uniform_(gate)
            else:
                nn.init.zeros_(parameter)

    @property
    def has_cell(self) -> bool:
        """Whether the state has a second tensor."""
        return isinstance(self.layers, nn.LSTM)

    def forward(
        self, inputs: Float[Tensor, "B T I"], state: RecurrentState
    ) -> tuple[Float[Tensor, "B T D"], RecurrentState]:
        """Outputs of the top layer at each step, and the state after the last one."""
        return self._unpack(*self.layers(inputs, state if self.has_cell else state.hidden))

    def read(
        self, inputs: Float[Tensor, "B S I"], mask: Bool[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "B S D"], RecurrentState]:
        """From a zero state over sentences of different lengths: padding changes nothing, its outputs are 0."""
        packed = pack_padded_sequence(inputs, mask.sum(dim=1).cpu(), batch_first=True, enforce_sorted=False)
        outputs, state = self._unpack(*self.layers(packed))
        return pad_packed_sequence(outputs, batch_first=True, total_length=inputs.size(1))[0], state

    def _unpack(self, outputs, state):  # type: ignore[no-untyped-def]  # nn.GRU and nn.LSTM differ in what they return
        return outputs, RecurrentState(*state) if self.has_cell else RecurrentState(state, None)

    def zero_state(self, batch: int) -> RecurrentState:
        """Zeros for `batch` sentences (one direction)."""
        weight = next(self.parameters())
        zeros = weight.new_zeros(self.layers.num_layers, batch, self.layers.hidden_size)
        return RecurrentState(zeros, torch.zeros_like(zeros) if self.has_cell else None)
