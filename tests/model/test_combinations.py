"""Every combination that the configuration accepts builds, trains, decodes and survives saving: pairwise."""

import itertools
import random
from typing import Any, get_args

import pytest
import safetensors.torch
import torch
from pydantic import ValidationError

from seq2seq.config import Config, dump_config, parse_config, schema
from seq2seq.data.batching import Batch, make_batch
from seq2seq.data.tokenizer import BOS, EOS, PAD
from seq2seq.inference.search import beam_search, greedy
from seq2seq.inference.translator import DecoderSteps
from seq2seq.model import Seq2Seq, build_model
from seq2seq.training.loss import coverage_penalty, cross_entropy

VOCABULARY = 20
SOURCES = [[5, 6, 7, 8, 9], [10, 11], [12, 13, 14]]
TARGETS = [[4, 5], [6, 7, 8, 9], [10]]
SIZES: dict[str, dict[str, Any]] = {
    "encoder": {"embedding_size": 6},
    "decoder": {"embedding_size": 6, "hidden_size": 8},
    "attention": {"size": 8},
}

FLAG = (False, True)
AXES: dict[str, tuple[Any, ...]] = {
    "encoder.cell": get_args(schema.CellKind),
    "encoder.hidden_size": (4, 8),
    "encoder.layers": (1, 2, 3),
    "encoder.bidirectional": FLAG,
    "encoder.layer_norm": FLAG,
    "encoder.residual": FLAG,
    "encoder.variational_dropout": FLAG,
    "encoder.self_attention": (0, 2),
    "decoder.cell": get_args(schema.DecoderCellKind),
    "decoder.attend": ("before", "between", "after"),
    "decoder.input_feeding": FLAG,
    "decoder.layers": (1, 2, 3),
    "decoder.layer_norm": FLAG,
    "decoder.residual": FLAG,
    "decoder.variational_dropout": FLAG,
    "decoder.self_attention": (0, 2),
    "decoder.initial_state": ("encoder", "zero"),
    "decoder.tie_embeddings": FLAG,
    "attention.kind": get_args(schema.AttentionKind),
    "attention.selection": get_args(schema.SelectionKind),
    "attention.centre": ("predicted", "monotonic"),
    "attention.heads": (1, 2),
    "attention.coverage": FLAG,
    "attention.max_length": (3, 50),
}


def accepted(choice: dict[str, Any]) -> Config | None:
    """The configuration of a choice, None where the schema refuses it."""
    sections = {name: dict(sizes) for name, sizes in SIZES.items()}
    for key, value in choice.items():
        section, name = key.split(".")
        sections[section][name] = value
    try:
        return Config.model_validate(sections)
    except ValidationError:
        return None


def pairwise(seed: int = 1) -> list[Config]:
    """Configurations in which every accepted pair of values of two keys occurs at least once."""
    draw = random.Random(seed)
    open_pairs = {((a, x), (b, y)) for a, b in itertools.combinations(AXES, 2) for x in AXES[a] for y in AXES[b]}
    found = []
    while open_pairs:
        pair = min(open_pairs, key=str)
        tries = (dict({key: draw.choice(values) for key, values in AXES.items()}, **dict(pair)) for _ in range(60))
        choices = [(choice, config) for choice in tries if (config := accepted(choice))]
        covered = [(open_pairs & set(itertools.combinations(choice.items(), 2)), config) for choice, config in choices]
        if not covered:  # the schema refuses the pair itself
            open_pairs.remove(pair)
            continue
        pairs, config = max(covered, key=lambda each: len(each[0]))
        open_pairs -= pairs
        found.append(config)
    # Those whose decoder runs in the fast loop, which needs several keys at their plainest at once.
    orders: tuple[dict[str, Any], ...] = ({"attend": "before"}, {"attend": "after", "input_feeding": True})
    found += [Config.model_validate({**SIZES, "decoder": {**SIZES["decoder"], **order}}) for order in orders]
    return found


def named(config: Config) -> str:
    sections = (config.encoder, config.attention, config.decoder)
    differing = (f"{key}={value}" for each in sections for key, value in each.model_dump(exclude_defaults=True).items())
    return ",".join(differing)


@pytest.fixture(params=pairwise(), ids=named, scope="module")
def config(request: pytest.FixtureRequest) -> Config:
    return request.param


@pytest.fixture
def model(config: Config) -> Seq2Seq:
    return build_model(config, VOCABULARY, VOCABULARY).eval()


@pytest.fixture
def batch() -> Batch:
    return make_batch(SOURCES, TARGETS)


def test_a_sentence_alone_gives_the_same_logits_as_in_a_padded_batch(model: Seq2Seq, batch: Batch) -> None:
    logits = model(batch.source, batch.target_input).logits
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        alone = make_batch([source], [target])
        expected = model(alone.source, alone.target_input).logits[0]
        assert torch.allclose(logits[row, : len(target) + 1], expected, atol=1e-5)


def test_teacher_forced_forward_equals_step_by_step(model: Seq2Seq, batch: Batch) -> None:
    memory, state = model.encode(batch.source)
    logits, attention = [], []
    for tokens in batch.target_input.unbind(dim=1):
        features, state, weights = model.decoder.step(tokens, state, memory)
        logits.append(model.decoder.output(features))
        attention.append(weights)
    whole = model(batch.source, batch.target_input)
    assert torch.allclose(torch.stack(logits, dim=1), whole.logits, atol=1e-5)
    assert torch.allclose(torch.stack(attention, dim=1), whole.attention, atol=1e-5)


def test_a_later_token_changes_no_earlier_logits(model: Seq2Seq, batch: Batch) -> None:
    before = model(batch.source, batch.target_input).logits
    changed = batch.target_input.clone()
    changed[:, 2] = 15
    after = model(batch.source, changed).logits
    assert torch.allclose(before[:, :2], after[:, :2], atol=1e-6)
    assert not torch.allclose(before[:, 2], after[:, 2])


def test_training_steps_lower_the_loss_and_keep_it_finite(config: Config, batch: Batch) -> None:
    model = build_model(config, VOCABULARY, VOCABULARY)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def measured() -> float:
        model.eval()
        with torch.no_grad():
            return float(cross_entropy(model(batch.source, batch.target_input).logits, batch.target_output).smoothed)

    first = measured()
    for ratio in (1.0, 0.5) * 4:
        model.train()
        predictions = model(batch.source, batch.target_input, ratio)
        loss = cross_entropy(predictions.logits, batch.target_output).smoothed
        loss = loss + coverage_penalty(predictions.attention, batch.target_output != PAD)
        optimizer.zero_grad()
        loss.backward()
        assert all(p.grad is None or torch.isfinite(p.grad).all() for p in model.parameters())
        optimizer.step()
    assert measured() < first


def test_every_parameter_that_can_matter_gets_a_gradient(config: Config, model: Seq2Seq, batch: Batch) -> None:
    predictions = model.train()(batch.source, batch.target_input)
    penalty = coverage_penalty(predictions.attention, batch.target_output != PAD)
    (cross_entropy(predictions.logits, batch.target_output).smoothed + penalty).backward()
    silent = {name for name, p in model.named_parameters() if p.grad is None}
    assert silent == set()


def test_beam_one_is_greedy_and_the_batch_changes_no_translation(model: Seq2Seq, batch: Batch) -> None:
    steps = DecoderSteps(model)
    limits = torch.full((len(SOURCES),), 6)

    def tokens(source: torch.Tensor, beam: int) -> list[list[int]]:
        found = beam_search(steps, steps.start(source), limits[: len(source)], BOS, EOS, beam=beam, length_penalty=1.0)
        return [each[0].tokens for each in found]

    once = [each.tokens for each in greedy(steps, steps.start(batch.source), limits, BOS, EOS)]
    assert tokens(batch.source, 1) == once
    alone = [tokens(make_batch([source], [[4]]).source, 3)[0] for source in SOURCES]
    assert tokens(batch.source, 3) == alone


def test_a_saved_model_predicts_the_same(config: Config, model: Seq2Seq, batch: Batch) -> None:
    again = build_model(parse_config(dump_config(config), []), VOCABULARY, VOCABULARY).eval()
    again.load_state_dict(safetensors.torch.load(safetensors.torch.save(model.state_dict())))
    expected = model(batch.source, batch.target_input).logits
    assert torch.equal(again(batch.source, batch.target_input).logits, expected)


def test_the_pairs_that_the_schema_refuses_are_these() -> None:
    met = {pair for config in pairwise() for pair in itertools.combinations(_values(config).items(), 2)}
    everything = {((a, x), (b, y)) for a, b in itertools.combinations(AXES, 2) for x in AXES[a] for y in AXES[b]}
    reasons = {"none", "cgru", "between", "dot", "decoder.input_feeding"}
    assert all(reasons & {part for key_and_value in pair for part in key_and_value} for pair in everything - met)


def _values(config: Config) -> dict[str, Any]:
    return {key: getattr(getattr(config, key.split(".")[0]), key.split(".")[1]) for key in AXES}
