"""The whole model: every cell, kind and order."""

import itertools
from typing import Any

import pytest
import torch

from seq2seq.config import Config, parse_config
from seq2seq.data.batching import make_batch
from seq2seq.data.tokenizer import BOS
from seq2seq.model import CELLS, SCORES, build_model
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.training.loss import cross_entropy

VOCABULARY = 20
SOURCES = [[5, 6, 7, 8, 9], [10, 11], [12, 13, 14]]
TARGETS = [[4, 5], [6, 7, 8, 9], [10]]
ORDERS = ("before", "after", "after with input feeding")


def tiny(cell: str = "gru", kind: str = "additive", order: str = "after", layers: int = 1, **more: str) -> Config:
    sets = {
        "encoder.cell": cell,
        "decoder.cell": cell,
        "encoder.layers": layers,
        "decoder.layers": layers,
        "encoder.embedding_size": 6,
        "encoder.hidden_size": 5,
        "decoder.embedding_size": 6,
        "decoder.hidden_size": 10,
        "attention.kind": kind,
        "decoder.attend": order.split()[0],
        "decoder.input_feeding": str("feeding" in order).lower(),
        **more,
    }
    return parse_config("", [f"{key}={value}" for key, value in sets.items()])


def built(*args: Any, **kwargs: Any) -> Seq2Seq:
    return build_model(tiny(*args, **kwargs), VOCABULARY, VOCABULARY).eval()


ALL = [pytest.param(*case, id="-".join(map(str, case))) for case in itertools.product(CELLS, SCORES, ORDERS, (1, 2))]


@pytest.mark.parametrize(("cell", "kind", "order", "layers"), ALL)
def test_a_sentence_alone_gives_the_same_logits_as_in_a_padded_batch(cell, kind, order, layers) -> None:
    model = built(cell, kind, order, layers)
    batch = make_batch(SOURCES, TARGETS)
    logits = model(batch.source, batch.target_input).logits
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        alone = make_batch([source], [target])
        expected = model(alone.source, alone.target_input).logits[0]
        assert torch.allclose(logits[row, : len(target) + 1], expected, atol=1e-5)


@pytest.mark.parametrize(("cell", "kind", "order", "layers"), ALL)
def test_teacher_forced_forward_equals_step_by_step(cell, kind, order, layers) -> None:
    model = built(cell, kind, order, layers)
    batch = make_batch(SOURCES, TARGETS)
    memory, state = model.encode(batch.source)
    logits = []
    for tokens in batch.target_input.unbind(dim=1):
        features, state, _ = model.decoder.step(tokens, state, memory)
        logits.append(model.decoder.output(features))
    assert torch.allclose(torch.stack(logits, dim=1), model(batch.source, batch.target_input).logits, atol=1e-5)


@pytest.mark.parametrize(("cell", "kind", "order", "layers"), ALL)
def test_every_parameter_that_can_matter_gets_a_gradient(cell, kind, order, layers) -> None:
    model = built(cell, kind, order, layers)
    batch = make_batch(SOURCES, TARGETS)
    cross_entropy(model(batch.source, batch.target_input).logits, batch.target_output).smoothed.backward()
    # Formula 1's query term is cancelled by the softmax, so its gradient is 0 up to rounding.
    silent = {name for name, p in model.named_parameters() if p.grad is None or float(p.grad.abs().max()) < 1e-7}
    prefix = "decoder.attention.score."
    allowed = {f"{prefix}query.weight", f"{prefix}key.bias"} if kind == "concat" else set()
    assert silent <= allowed


@pytest.mark.parametrize("order", ORDERS)
def test_a_later_token_changes_no_earlier_logits(order: str) -> None:
    model = built(order=order)
    batch = make_batch(SOURCES, TARGETS)
    before = model(batch.source, batch.target_input).logits
    changed = batch.target_input.clone()
    changed[:, 2] = 15
    after = model(batch.source, changed).logits
    assert torch.equal(before[:, :2], after[:, :2])
    assert not torch.allclose(before[:, 2], after[:, 2])


@pytest.mark.parametrize("order", ORDERS)
def test_without_teacher_forcing_the_model_reads_its_own_last_token(order: str) -> None:
    model = built(order=order)
    batch = make_batch(SOURCES, TARGETS)
    logits = model(batch.source, batch.target_input, 0.0).logits
    memory, state = model.encode(batch.source)
    tokens = torch.full((len(SOURCES),), BOS)
    for step in range(batch.target_input.size(1)):
        features, state, _ = model.decoder.step(tokens, state, memory)
        expected = model.decoder.output(features)
        assert torch.allclose(logits[:, step], expected, atol=1e-5)
        tokens = expected.argmax(dim=-1)


def test_teacher_forcing_ratio_mixes_by_a_seeded_coin_for_each_token() -> None:
    model = built()
    source, target = [[5, 6, 7]] * 64, [[4, 5, 6, 7, 8]] * 64
    batch = make_batch(source, target)
    runs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        runs.append(model(batch.source, batch.target_input, 0.5).logits)
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])
    assert any(not torch.allclose(row, runs[0][0]) for row in runs[0]), "equal sentences draw coins of their own"


def test_tied_embeddings_are_one_tensor_and_untied_ones_two() -> None:
    tied, untied = built(), built(**{"decoder.tie_embeddings": "false"})
    assert not any("untied" in name for name, _ in tied.named_parameters())
    assert untied.decoder.untied.weight.shape == (VOCABULARY, 10)


def test_the_decoder_starts_from_the_encoder_unless_told_otherwise() -> None:
    batch = make_batch(SOURCES, TARGETS)
    assert built().encode(batch.source)[1].recurrent.hidden.abs().sum() > 0
    assert built(**{"decoder.initial_state": "zero"}).encode(batch.source)[1].recurrent.hidden.abs().sum() == 0


def test_word_dropout_replaces_words_but_never_special_tokens() -> None:
    embedding = built(**{"decoder.word_dropout": "0.5"}).decoder.embedding.train()
    embedding.dropout.p = 0.0
    tokens = torch.tensor([[0, 2, 3, 9] * 500])
    out, table = embedding(tokens), embedding.table.weight
    assert torch.equal(out[:, 0::4], table[0].expand_as(out[:, 0::4]))
    assert torch.equal(out[:, 1::4], table[2].expand_as(out[:, 1::4]))
    assert torch.equal(out[:, 2::4], table[3].expand_as(out[:, 2::4]))
    dropped = (out[:, 3::4] == table[1]).all(dim=-1).float().mean()
    assert 0.4 < dropped < 0.6
    assert torch.equal(embedding.eval()(tokens), table[tokens])
