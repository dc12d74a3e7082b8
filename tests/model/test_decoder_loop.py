"""The decoder's fast loop against its plain one: features, attention and every gradient."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from seq2seq.config import Config
from seq2seq.data.batching import make_batch
from seq2seq.model import Attention, Decoder, DecoderState, Memory, build_model, decoder_loop, products
from seq2seq.training.loss import cross_entropy

E, H, M, A, VOCABULARY = 3, 8, 6, 4, 12
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
# Source lengths of the sentences, and target length.
BATCHES = {
    "equal": ([4, 4, 4], 5),
    "ragged": ([2, 5, 1, 5, 3, 4, 1, 2, 5], 4),
    "one step": ([2, 4, 3], 1),
    "one source token": ([1, 1], 3),
    "one sentence": ([4], 3),
    "one of all": ([1], 1),
}


class PlainDecoder(Decoder):
    def fits_loop(self, embedded: Tensor) -> bool:
        return False


def built(
    order: str, heads: int = 1, kind: str = "additive", dtype: torch.dtype = torch.float64, **more: Any
) -> Decoder:
    sections = {
        "decoder": {
            "embedding_size": E,
            "hidden_size": H,
            "attend": order,
            "input_feeding": order == "after",
            "embedding_dropout": 0.0,
            "dropout": 0.0,
            "tie_embeddings": False,
            **more,
        },
        "attention": {"size": A, "heads": heads, "kind": kind},
    }
    config = Config.model_validate(sections)
    decoder = Decoder(config.decoder, VOCABULARY, Attention(config.attention, H, M), M)
    # Biases start at 0, where a lost one would not show.
    for parameter in decoder.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return decoder.to(dtype)


def plain(decoder: Decoder) -> Decoder:
    """The same decoder with the same parameters, but for the loop."""
    twin = copy.copy(decoder)
    twin.__class__ = PlainDecoder
    return twin


def inputs(decoder: Decoder, lengths: list[int], steps: int) -> tuple[Tensor, DecoderState, Memory]:
    """Tokens, state and memory for a batch; all but the tokens want gradients."""
    dtype, batch, longest = decoder.output_bias.dtype, len(lengths), max(lengths)
    mask = torch.arange(longest) < torch.tensor(lengths).unsqueeze(1)
    outputs = torch.randn(batch, longest, M, dtype=dtype) * mask.unsqueeze(2)
    with torch.no_grad():
        memory = decoder.attention.prepare(outputs, mask)
        state = decoder.start(torch.randn(batch, M, dtype=dtype), memory)
    if state.fed is not None:
        state = state._replace(fed=torch.randn_like(state.fed))
    for given in (memory.keys, memory.values, state.recurrent.hidden, state.fed):
        if given is not None:
            given.requires_grad_()
    return torch.randint(VOCABULARY, (batch, steps)), state, memory


def everything(decoder: Decoder, tokens: Tensor, state: DecoderState, memory: Memory) -> dict[str, Tensor]:
    """Features, attention weights and the gradients of all that has one, by name."""
    features, weights = decoder(tokens, state, memory)
    torch.manual_seed(1)
    total = (features * torch.randn(features.shape)).sum() + (weights * torch.randn(weights.shape)).sum()
    wanted: dict[str, Tensor] = dict(decoder.named_parameters())
    wanted |= {"keys": memory.keys, "values": memory.values, "state": state.recurrent.hidden}
    if state.fed is not None:
        wanted["fed"] = state.fed
    gradients = torch.autograd.grad(total, list(wanted.values()), allow_unused=True)
    found = {name: gradient for name, gradient in zip(wanted, gradients, strict=True) if gradient is not None}
    return {"features": features, "weights": weights, **found}


def assert_alike(decoder: Decoder, tokens: Tensor, state: DecoderState, memory: Memory, tolerance: float) -> None:
    fast, slow = (everything(each, tokens, state, memory) for each in (decoder, plain(decoder)))
    assert fast.keys() == slow.keys()
    assert {"keys", "values", "state", "reproject.weight", "recurrent.layers.0.weight_ih_l0"} <= fast.keys()
    for name, expected in slow.items():
        assert torch.allclose(fast[name], expected, rtol=tolerance, atol=tolerance), name


@pytest.fixture(params=[False, True], ids=["library", "onednn"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param and not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        pytest.skip("this build of PyTorch has no oneDNN")
    monkeypatch.setattr(products, "onednn_is_faster", lambda: request.param)


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("kind", ["additive", "scaled_dot"])
@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_values_and_gradients_are_those_of_the_plain_loop(dtype, order, heads, kind, batch) -> None:
    decoder = built(order, heads, kind, dtype)
    assert_alike(decoder, *inputs(decoder, *BATCHES[batch]), TOLERANCE[dtype])


@pytest.mark.parametrize("kind", ["additive", "scaled_dot"])
@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("order", ["before", "after"])
def test_gradients_are_right(order: str, heads: int, kind: str) -> None:
    decoder = built(order, heads, kind)
    _, state, memory = inputs(decoder, [2, 3], 2)
    modules = (decoder.recurrent, decoder.attention, decoder.reproject)

    def run(embedded: Tensor, hidden: Tensor, keys: Tensor, values: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        fed = None if state.fed is None else more[0]
        return decoder_loop.teacher_forced(*modules, embedded, hidden[0], fed, Memory(keys, values, memory.mask))

    embedded = torch.randn(2, 2, E, dtype=torch.float64, requires_grad=True)
    more = [] if state.fed is None else [state.fed]
    parameters = [parameter for module in modules for parameter in module.parameters()]
    assert torch.autograd.gradcheck(
        run, (embedded, state.recurrent.hidden, memory.keys, memory.values, *more, *parameters)
    )


@pytest.mark.parametrize("order", ["before", "after"])
def test_tied_embeddings_and_variational_dropout_give_the_numbers_of_the_plain_loop(order: str) -> None:
    decoder = built(order, tie_embeddings=True, variational_dropout=True, embedding_dropout=0.5).train()
    tokens, state, memory = inputs(decoder, [2, 4, 3], 5)
    assert state.recurrent.masks is not None
    assert (state.recurrent.masks[0] == 0).any()
    assert_alike(decoder, tokens, state, memory, 1e-10)


@pytest.mark.parametrize("order", ["before", "after"])
def test_dropout_falls_on_the_features_alone(order: str) -> None:
    decoder = built(order, dropout=0.5)
    tokens, state, memory = inputs(decoder, [2, 4, 3], 20)
    whole, weights = decoder.eval()(tokens, state, memory)
    features, same_weights = decoder.train()(tokens, state, memory)
    dropped = features == 0
    assert 0.3 < dropped.double().mean() < 0.7
    assert torch.allclose(features[~dropped], 2 * whole[~dropped])
    assert torch.equal(same_weights, weights)


@pytest.mark.parametrize("order", ["before", "after"])
def test_attention_gives_padding_no_weight(order: str) -> None:
    decoder = built(order)
    tokens, state, memory = inputs(decoder, [2, 4, 1], 3)
    weights = decoder(tokens, state, memory)[1]
    assert (weights[~memory.mask.unsqueeze(1).expand_as(weights)] == 0).all()
    assert torch.allclose(weights.sum(dim=2), torch.ones(3, 3, dtype=torch.float64))


def test_gradients_may_be_asked_for_twice() -> None:
    decoder = built("before")
    features, _ = decoder(*inputs(decoder, [2, 4], 3))
    first, second = (
        torch.autograd.grad(features.sum(), decoder.reproject.weight, retain_graph=True)[0] for _ in range(2)
    )
    assert torch.equal(first, second)


def test_inference_mode_gives_the_same_features() -> None:
    decoder = built("after")
    given = inputs(decoder, [2, 4], 3)
    expected, _ = decoder(*given)
    with torch.inference_mode():
        features, _ = decoder(*given)
    assert torch.equal(features, expected)


def loops(monkeypatch: pytest.MonkeyPatch, config: Config, dtype: torch.dtype = torch.float32) -> bool:
    """Whether a decoder of this configuration takes the fast loop."""
    calls = []
    original = decoder_loop.teacher_forced

    def counted(*given: Any) -> tuple[Tensor, ...]:
        calls.append(given)
        return original(*given)

    monkeypatch.setattr(decoder_loop, "teacher_forced", counted)
    decoder = Decoder(config.decoder, VOCABULARY, Attention(config.attention, H, M), M).to(dtype)
    decoder(*inputs(decoder, [2, 4], 3))
    return bool(calls)


BEFORE = {"attend": "before"}
AFTER = {"attend": "after", "input_feeding": True}


@pytest.mark.parametrize(
    ("decoder", "attention", "expected"),
    [
        (BEFORE, {}, True),
        (AFTER, {}, True),
        (BEFORE, {"kind": "scaled_dot", "heads": 2}, True),
        (BEFORE | {"variational_dropout": True, "residual": True}, {}, True),
        ({"attend": "after"}, {}, False),
        ({"attend": "between", "cell": "cgru"}, {}, False),
        (BEFORE | {"cell": "lstm"}, {}, False),
        (BEFORE | {"layers": 2}, {}, False),
        (BEFORE | {"layer_norm": True}, {}, False),
        (BEFORE | {"self_attention": 2}, {}, False),
        (BEFORE, {"coverage": True}, False),
        (BEFORE, {"selection": "sparsemax"}, False),
        (BEFORE, {"selection": "local"}, False),
        (BEFORE, {"kind": "concat_tanh"}, False),
        (AFTER, {"kind": "cosine"}, False),
    ],
)
def test_the_fast_loop_runs_where_it_fits(monkeypatch, decoder, attention, expected) -> None:
    sections = {"decoder": {"embedding_size": E, "hidden_size": H, **decoder}, "attention": {"size": A, **attention}}
    assert loops(monkeypatch, Config.model_validate(sections)) is expected


def test_half_precision_and_autocast_take_the_plain_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config.model_validate({"decoder": {"embedding_size": E, "hidden_size": H, **BEFORE}})
    assert not loops(monkeypatch, config, torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not loops(monkeypatch, config)


def test_sampled_targets_take_the_plain_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_loop, "teacher_forced", None)
    decoder = built("before")
    assert decoder(*inputs(decoder, [2, 4], 3), teacher_forcing=0.5)[0].shape == (2, 3, H)


@pytest.mark.parametrize("order", ["before", "after"])
def test_training_gives_the_weights_of_the_plain_loop(order: str) -> None:
    settings = {"embedding_size": E, "hidden_size": H, "attend": order, "input_feeding": order == "after", "dropout": 0}
    sizes = {"encoder": {"embedding_size": E, "hidden_size": 4}, "attention": {"size": A, "heads": 2}}
    config = Config.model_validate({**sizes, "decoder": {**settings, "embedding_dropout": 0.0}})
    batch = make_batch([[5, 6, 7, 8, 9], [10, 11], [4, 5, 6]], [[4, 5], [6, 7, 8, 9], [10]])
    trained = []
    for loop in ("fast", "plain"):
        torch.manual_seed(0)
        model = build_model(config, VOCABULARY, VOCABULARY).double()
        if loop == "plain":
            model.decoder = plain(model.decoder)
        model.encoder.eval()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        losses = []
        for _ in range(10):
            loss = cross_entropy(model(batch.source, batch.target_input).logits, batch.target_output).smoothed
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < losses[0]
        trained.append(list(model.parameters()))
    for fast, slow in zip(*trained, strict=True):
        assert torch.allclose(fast, slow, atol=1e-8)
