"""The teacher-forced loop of a decoder whose cell reads [Q;C], with a backward pass of its own on the CPU."""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.autograd.function import Function, once_differentiable
from torch.nn import functional as F

from seq2seq.model.attention import Attention, Memory
from seq2seq.model.attention.scores import Additive, ScaledDot
from seq2seq.model.attention.selection import Soft
from seq2seq.model.gru import GRU
from seq2seq.model.products import linear, product, rounded
from seq2seq.model.recurrent import Recurrent

_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.grad_input


def fits(recurrent: Recurrent, attention: Attention, inputs: Tensor) -> bool:
    """Whether `teacher_forced` can stand in for the steps of these modules.

    It can for one layer of GRU, an additive or scaled dot score, soft selection and no coverage, in float32 or float64
    on the CPU, without autocast.
    """
    return (
        len(recurrent.layers) == 1
        and isinstance(recurrent.layers[0], GRU)
        and isinstance(attention.score, Additive | ScaledDot)
        and isinstance(attention.selection, Soft)
        and not attention.stepwise
        and inputs.device.type == "cpu"
        and inputs.dtype in (torch.float32, torch.float64)
        and not torch.is_autocast_enabled("cpu")
    )


def teacher_forced(
    recurrent: Recurrent,
    attention: Attention,
    reproject: nn.Linear,
    embedded: Float[Tensor, "B T E"],
    state: Float[Tensor, "B H"],
    fed: Float[Tensor, "B R"] | None,
    memory: Memory,
) -> tuple[Float[Tensor, "B T H"], Float[Tensor, "B T R"], Float[Tensor, "B T S"]]:
    """States, reprojected [Q;C] and attention weights (the mean over the heads) of all steps.

    With A[Q] = tanh(reproject([Q; C])), where Q attends to C, and x_t what `embedded` has of step t:
    a_t = A[s_{t-1}];  s_t = cell([x_t; a_t], s_{t-1})  where `fed` is None (attend: before);
    s_t = cell([x_t; a_{t-1}], s_{t-1});  a_t = A[s_t]  with a_0 = `fed` (attend: after, with input feeding).

    Products that do not wait for a step are made before the loop: those of the cell with x_t, and those of reproject
    with the values, for a product with their weighted sum is the weighted sum of their products.
    """
    gru, score, heads = recurrent.layers[0], attention.score, attention.heads
    assert isinstance(gru, GRU)
    assert isinstance(score, Additive | ScaledDot)
    weight_ih, weight_hh, bias_ih, bias_hh = gru.all_weights[0]
    hidden = gru.hidden_size
    of_embedded, of_fed = weight_ih.split([embedded.size(2), reproject.out_features], dim=1)
    of_query, *of_values = reproject.weight.split([hidden] + [memory.values.size(3)] * heads, dim=1)
    of_gates, of_candidate = bias_hh.split([2 * hidden, hidden])
    # Made contiguous: oneDNN has no fast kernel for some of the columns of a weight.
    projected = linear(embedded.transpose(0, 1), of_embedded.contiguous(), bias_ih + F.pad(of_gates, (0, hidden)))
    # The weights of a head sum to 1: what is added to all of its values is added to their weighted sum.
    biases = [reproject.bias] + [None] * (heads - 1)
    parts = zip(memory.values.unbind(dim=1), of_values, biases, strict=True)
    values = torch.stack([linear(each, weight.contiguous(), bias) for each, weight, bias in parts], dim=1)
    keys, of_score, v = memory.keys, score.query.weight, None
    if isinstance(score, Additive):
        # tanh(x) is 2 sigmoid(2x) - 1. The softmax takes no notice of the -1, and sigmoid is several times faster.
        keys, of_score, v = 2 * keys, 2 * of_score, 2 * score.v.weight
    else:
        of_score = of_score / score.key_size**0.5
    outputs, reprojected, weights = _Loop.apply(
        projected,
        state,
        fed,
        keys.transpose(0, 1).contiguous(),
        values.flatten(1, 2),
        memory.mask,
        v,
        weight_hh,
        of_score,
        of_query,
        of_fed,
        of_candidate,
    )
    return outputs, reprojected, weights.mean(dim=2)


class _Loop(Function):
    """From s_0 on: weights_k = softmax(score(U s_k, keys));  a_k = tanh(V s_k + weights_k values);  s_{k+1} is the
    GRU's next state, with projected_k + F a_k for its inputs' part.

    There is an a_0 to a_{T-1}, or, where a_0 is given, an a_1 to a_T. U, V and the GRU's recurrent weights multiply
    the same state: one product. Backwards, only the states' gradient waits for the step after; that of each weight and
    of the values is one product after the loop.
    """

    @staticmethod
    def forward(
        ctx: Any,
        projected: Float[Tensor, "T B _"],
        first: Float[Tensor, "B H"],
        given: Float[Tensor, "B R"] | None,
        keys: Float[Tensor, "G B S A"],
        values: Float[Tensor, "B _ R"],
        mask: Bool[Tensor, "B S"],
        v: Float[Tensor, "G A"] | None,
        recurrent: Float[Tensor, "_ H"],
        of_score: Float[Tensor, "_ H"],
        of_query: Float[Tensor, "R H"],
        of_fed: Float[Tensor, "_ R"],
        bias: Float[Tensor, "H"],
    ) -> tuple[Float[Tensor, "B T H"], Float[Tensor, "B T R"], Float[Tensor, "B T G S"]]:
        (steps, batch, _), hidden, scored = projected.shape, first.size(1), len(of_score)
        ahead = int(given is not None)
        parts = (2 * hidden, hidden + scored, len(of_query))
        # Transposed, oneDNN multiplies faster by them.
        of_state = torch.cat([recurrent, of_score, of_query]).t().contiguous()
        of_fed = of_fed.t().contiguous()
        state_rows, states = _rows_and_steps(first, steps + 1, batch, hidden)
        fed_rows, feds = _rows_and_steps(first, steps + ahead, batch, len(of_query))
        states[0] = first
        if given is not None:
            feds[0] = given
        gates = torch.empty_like(projected)  # r, z, n
        kept = first.new_empty(steps + ahead, batch, hidden + scored)  # n's part of U h + c, and the query
        kept_bias = F.pad(bias, (0, scored))
        weights = first.new_empty(steps, batch, len(keys), keys.size(2))
        score = _score(keys, mask, v)
        for k in range(steps + ahead):
            rows = slice(k * batch, k * batch + rounded(batch))
            r_z, n_query, a = product(state_rows[rows], of_state.t())[:batch].split(parts, dim=1)
            torch.add(n_query, kept_bias, out=kept[k])
            if k >= ahead:
                scores = score.forward(kept[k, :, hidden:])
                weight = torch.softmax(scores.transpose(0, 1), dim=-1, out=weights[k - ahead])
                fed = feds[k].unsqueeze(1)
                _tanh_(torch.baddbmm(a.unsqueeze(1), weight.view(batch, 1, -1), values, out=fed))
            if k < steps:
                torch.add(projected[k], product(fed_rows[rows], of_fed.t())[:batch], out=gates[k])
                gates[k, :, : 2 * hidden].add_(r_z).sigmoid_()
                r, z, n = gates[k].chunk(3, dim=1)
                _tanh_(n.addcmul_(r, kept[k, :, :hidden]))
                torch.lerp(n, states[k], z, out=states[k + 1])
        ctx.save_for_backward(keys, values, mask, v, of_state, of_fed, state_rows, fed_rows, gates, kept, weights)
        return states[1:].transpose(0, 1), feds[ahead:].transpose(0, 1), weights.transpose(0, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor, d_reprojected: Tensor, d_weights: Tensor) -> tuple[Tensor | None, ...]:
        keys, values, mask, v, of_state, of_fed, state_rows, fed_rows, gates, kept, weights = ctx.saved_tensors
        (steps, batch, *_), count = weights.shape, len(kept)
        hidden, reprojected, ahead = state_rows.size(1), fed_rows.size(1), count - steps
        candidate, query = kept.split([hidden, kept.size(2) - hidden], dim=2)
        states, feds = _steps(state_rows, steps, batch), _steps(fed_rows, count, batch)
        (r, z, n), score = gates.chunk(3, dim=2), _score(keys, mask, v)
        summed_rows, d_summed = _rows_and_steps(gates, count, batch, of_state.size(1))
        read_rows, d_read = _rows_and_steps(gates, steps, batch, 3 * hidden)
        d_r, d_z, d_n, d_query, d_sum = d_summed.split([hidden] * 3 + [query.size(2), reprojected], dim=2)
        d_candidate = d_read[:, :, 2 * hidden :]
        # A state that nothing attends to, or that the cell does not read.
        d_summed[:ahead, :, 3 * hidden :] = 0
        d_summed[steps:, :, : 3 * hidden] = 0
        d_state, d_fed = gates.new_zeros(batch, hidden), gates.new_zeros(batch, reprojected)
        for k in reversed(range(count)):
            rows = slice(k * batch, k * batch + rounded(batch))
            if k < steps:
                d_state.add_(d_outputs[:, k])
                _sigmoid_backward((states[k] - n[k]).mul_(d_state), z[k], grad_input=d_z[k])
                _tanh_backward(torch.addcmul(d_state, d_state, z[k], value=-1), n[k], grad_input=d_candidate[k])
                torch.mul(d_candidate[k], r[k], out=d_n[k])
                _sigmoid_backward(d_candidate[k] * candidate[k], r[k], grad_input=d_r[k])
                d_read[k, :, : 2 * hidden] = d_summed[k, :, : 2 * hidden]
                d_fed = product(read_rows[rows], of_fed)[:batch]
            if k >= ahead:
                d_fed.add_(d_reprojected[:, k - ahead])
                _tanh_backward(d_fed, feds[k], grad_input=d_sum[k])
                weight = weights[k - ahead]
                d_weight = torch.bmm(d_sum[k].unsqueeze(1), values.transpose(1, 2)).view_as(weight)
                d_scores = d_weight.add_(d_weights[:, k - ahead]).mul_(weight)
                d_scores.addcmul_(weight, d_scores.sum(dim=-1, keepdim=True), value=-1)
                d_query[k] = score.backward(query[k], d_scores.transpose(0, 1).contiguous())
            through = product(summed_rows[rows], of_state)[:batch]
            d_state = through if k == steps else through.addcmul_(d_state, z[k])
        # Transposed: the smaller factor is the one that oneDNN has to have copied.
        d_of_state = product(state_rows[: len(summed_rows)].t(), summed_rows.t()).t()
        d_of_fed = product(fed_rows[: len(read_rows)].t(), read_rows.t()).t()
        d_values = torch.bmm(weights.flatten(2).permute(1, 2, 0), d_sum[ahead:].transpose(0, 1))
        d_keys, d_v = score.gradients()
        d_given = d_fed if ahead else None
        d_of_state = d_of_state.split([3 * hidden, query.size(2), reprojected])
        return d_read, d_state, d_given, d_keys, d_values, None, d_v, *d_of_state, d_of_fed, d_n.sum(dim=(0, 1))


class _AdditiveScore:
    """v sigmoid(Q + K), -inf on padding, one query of each sentence at a time; gradients add up over the queries.

    The sigmoid is computed again for its gradient: that takes no longer than reading what would be T B S A numbers.
    """

    def __init__(self, keys: Float[Tensor, "G B S A"], mask: Bool[Tensor, "B S"], v: Float[Tensor, "G A"]) -> None:
        self.keys, self.v = keys, v
        self.padding = _padding(keys, mask).view(1, -1, 1).expand(len(keys), -1, -1)
        self.hidden = torch.empty_like(keys)
        self.d_keys, self.d_v = torch.zeros_like(keys), torch.zeros_like(v).unsqueeze(1)

    def _hidden(self, query: Float[Tensor, "B _"]) -> Float[Tensor, "G B S A"]:
        return torch.add(self.keys, _by_head(query, self.keys).unsqueeze(2), out=self.hidden).sigmoid_()

    def forward(self, query: Float[Tensor, "B _"]) -> Float[Tensor, "G B S"]:
        hidden = self._hidden(query).flatten(1, 2)
        return torch.baddbmm(self.padding, hidden, self.v.unsqueeze(2)).view(self.keys.shape[:3])

    def backward(self, query: Float[Tensor, "B _"], d_scores: Float[Tensor, "G B S"]) -> Float[Tensor, "B _"]:
        hidden = self._hidden(query)
        self.d_v.baddbmm_(d_scores.flatten(1).unsqueeze(1), hidden.flatten(1, 2))
        slope = hidden.addcmul_(hidden, hidden, value=-1)
        self.d_keys.addcmul_(slope, d_scores.unsqueeze(3))
        summed = torch.bmm(d_scores.flatten(0, 1).unsqueeze(1), slope.flatten(0, 1)).view(*self.keys.shape[:2], -1)
        return summed.mul_(self.v.unsqueeze(1)).transpose(0, 1).flatten(1)

    def gradients(self) -> tuple[Float[Tensor, "G B S A"], Float[Tensor, "G A"]]:
        """Of the keys and of v."""
        return self.d_keys.mul_(self.v[:, None, None]), self.d_v.squeeze(1)


class _DotScore:
    """Q . K, -inf on padding, one query of each sentence at a time; gradients add up over the queries."""

    def __init__(self, keys: Float[Tensor, "G B S A"], mask: Bool[Tensor, "B S"]) -> None:
        self.keys = keys
        self.padding = _padding(keys, mask).expand(len(keys), -1, -1).flatten(0, 1).unsqueeze(1)
        self.d_keys = torch.zeros_like(keys)

    def forward(self, query: Float[Tensor, "B _"]) -> Float[Tensor, "G B S"]:
        rows = _by_head(query, self.keys).flatten(0, 1).unsqueeze(1)
        return torch.baddbmm(self.padding, rows, self.keys.flatten(0, 1).transpose(1, 2)).view(self.keys.shape[:3])

    def backward(self, query: Float[Tensor, "B _"], d_scores: Float[Tensor, "G B S"]) -> Float[Tensor, "B _"]:
        self.d_keys.addcmul_(_by_head(query, self.keys).unsqueeze(2), d_scores.unsqueeze(3))
        summed = torch.bmm(d_scores.flatten(0, 1).unsqueeze(1), self.keys.flatten(0, 1))
        return summed.view(*self.keys.shape[:2], -1).transpose(0, 1).flatten(1)

    def gradients(self) -> tuple[Float[Tensor, "G B S A"], None]:
        """Of the keys; there is no v."""
        return self.d_keys, None


def _score(keys: Tensor, mask: Tensor, v: Tensor | None) -> _AdditiveScore | _DotScore:
    return _DotScore(keys, mask) if v is None else _AdditiveScore(keys, mask, v)


def _by_head(query: Float[Tensor, "B _"], keys: Float[Tensor, "G B S A"]) -> Float[Tensor, "G B A"]:
    return query.unflatten(1, (len(keys), -1)).transpose(0, 1)


def _padding(keys: Float[Tensor, "G B S A"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S"]:
    return keys.new_zeros(mask.shape).masked_fill_(~mask, -torch.inf)


def _rows_and_steps(
    like: Tensor, steps: int, batch: int, size: int
) -> tuple[Float[Tensor, "P _"], Float[Tensor, "T B _"]]:
    """Room for `batch` rows of each step, and after them zeros for products of `rounded` sizes; as rows and by step.

    A product of a step's rows reads on into the next step's, but nothing comes of what it finds there.
    """
    count = steps * batch
    rows = like.new_empty(rounded(count + rounded(batch) - batch), size)
    rows[count:] = 0
    return rows, _steps(rows, steps, batch)


def _steps(rows: Float[Tensor, "P _"], steps: int, batch: int) -> Float[Tensor, "T B _"]:
    return rows[: steps * batch].view(steps, batch, rows.size(1))


def _tanh_(vectors: Tensor) -> Tensor:
    """tanh in place, as 2 sigmoid(2x) - 1: PyTorch's sigmoid is several times faster than its tanh."""
    return vectors.mul_(2).sigmoid_().mul_(2).sub_(1)
