"""Sentences of equal or different lengths as rows: those of step 0 first, then those of step 1, and so on."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

Sentences = Float[Tensor, "B T _"] | PackedSequence
States = tuple[Float[Tensor, "L B _"], ...]


def to_rows(inputs: Sentences, states: States) -> tuple[Float[Tensor, "P _"], list[int], States]:
    """The rows of all steps, the number of rows of each step, and the states in the order of a step's rows.

    In a packed batch the longest sentence stands first, so the rows of a step are a head of those of the step before.
    """
    if isinstance(inputs, PackedSequence):
        return inputs.data, inputs.batch_sizes.tolist(), _ordered(states, inputs.sorted_indices)
    return inputs.transpose(0, 1).flatten(end_dim=1), [inputs.size(0)] * inputs.size(1), states


def from_rows(inputs: Sentences, outputs: Float[Tensor, "P _"], states: States) -> tuple[Sentences, States]:
    """Outputs in the form of the inputs, and the states in their order."""
    if isinstance(inputs, PackedSequence):
        return inputs._replace(data=outputs), _ordered(states, inputs.unsorted_indices)
    return outputs.unflatten(0, (inputs.size(1), inputs.size(0))).transpose(0, 1), states


def _ordered(states: States, order: Tensor | None) -> States:
    return states if order is None else tuple(torch.index_select(state, 1, order) for state in states)
