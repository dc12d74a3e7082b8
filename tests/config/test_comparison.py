"""The YAML of a comparison becomes a Comparison, or one line that says what is wrong and where."""

from pathlib import Path

import pytest

from seq2seq.config.comparison import Comparison, load_comparison
from seq2seq.errors import UserError

BASE = "training: {max_steps: 20}\nencoder: {hidden_size: 32}\n"
GOOD = """
base: ../base.yaml
seeds: [3, 1]
variants:
  none: {attention.kind: none}
  dot: {attention.kind: scaled_dot, decoder.layers: 2, tokenizer.source: {kind: words, vocabulary_size: 99}}
  base: {}
"""


def write(folder: Path, text: str) -> Path:
    """The text as compare/x.yaml, with a base beside it."""
    (folder / "compare").mkdir()
    (folder / "base.yaml").write_text(BASE, encoding="utf-8")
    path = folder / "compare" / "x.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_variant_is_the_base_with_its_keys_the_seed_and_the_budget(tmp_path: Path) -> None:
    comparison = load_comparison(write(tmp_path, GOOD)).model_copy(update={"minutes": 2.5})
    config = comparison.config("dot", 3, ["decoder.hidden_size=64", "decoder.layers=5"])
    assert (config.attention.kind, config.decoder.hidden_size, config.decoder.layers) == ("scaled_dot", 64, 2)
    assert (config.seed, config.training.max_minutes, config.training.max_steps) == (3, 2.5, 20)
    assert (config.encoder.hidden_size, config.tokenizer.source.kind) == (32, "words")
    assert comparison.seeds == [3, 1]


def test_without_minutes_the_budget_is_that_of_the_base(tmp_path: Path) -> None:
    assert load_comparison(write(tmp_path, GOOD)).config("base", 1).training.max_minutes is None


def test_only_keeps_the_order_of_the_file(tmp_path: Path) -> None:
    comparison = load_comparison(write(tmp_path, GOOD))
    assert list(comparison.only(["base", "none"]).variants) == ["none", "base"]
    with pytest.raises(UserError, match="--only nnoe: no such variant; did you mean none"):
        comparison.only(["nnoe"])


FAULTS = [
    ("variants: {a: {}}", "x.yaml: base is missing"),
    ("base: b", "x.yaml: variants is missing"),
    ("base: b\nvariants: {}", "line 2: variants is {}: dictionary should have at least 1 item"),
    ("base: b\nvariants: {a: {}}\nseed: 1", "line 3: unknown key seed; did you mean seeds?"),
    ("base: b\nvariants:\n  a:", "line 3: variants.a is None: input should be a valid dictionary"),
    ("base: b\nvariants:\n  a/b: {}", "line 3: variants.a/b: a variant's name is letters"),
    ("base: b\nvariants: {a: {}, A: {}}", "two names differ in case alone"),
    ("base: b\nvariants:\n  a:\n    seed: 2", "line 4: variants.a.seed is 2: seed is the same for all variants"),
    ("base: b\nvariants: {a: {data.train: x}}", "variants.a.data.train is 'x': data is the same for all variants"),
    ("base: b\nvariants: {a: {data.extra: [x]}}", "variants.a.data.extra is ['x']: data is the same"),
    ("base: b\nvariants: {a: {training.max_steps: 2}}", "training.max_steps is the same for all variants"),
    ("base: b\nvariants: {a: {training: {}}}", "training.max_minutes is the same for all variants"),
    ("base: b\nvariants: {a: {}}\nminutes: 0", "line 3: minutes is 0: input should be greater than 0"),
    ("base: b\nvariants: {a: {}}\nseeds: [1, 1]", "line 3: seeds is [1, 1]: a seed stands twice"),
    ("base: b\nvariants: {a: {}}\nseeds: []", "line 3: seeds is []: list should have at least 1 item"),
    ("- a", "x.yaml: holds a list, not keys with values"),
]


@pytest.mark.parametrize(("text", "message"), FAULTS, ids=[fault[1][:50] for fault in FAULTS])
def test_a_fault_is_one_line_that_names_file_and_key(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        load_comparison(write(tmp_path, text))
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "compare" / "x.yaml"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ("{attention.kindd: none}", 'variant a: --set attention.kindd="none": unknown key attention.kindd; did you'),
        ("{attention.kind: soft}", "variant a: --set attention.kind=\"soft\": attention.kind is 'soft'"),
    ],
)
def test_a_key_or_value_the_base_does_not_take_names_the_variant(variant: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        load_comparison(write(tmp_path, f"base: ../base.yaml\nvariants: {{a: {variant}}}")).config("a", 1)
    assert message in str(caught.value)


def test_every_field_is_documented() -> None:
    assert [name for name, field in Comparison.model_fields.items() if not field.description] == []
