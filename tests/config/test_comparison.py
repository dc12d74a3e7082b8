"""The YAML of a comparison becomes a Comparison, or one line that says what is wrong and where."""

import os
from pathlib import Path

import pytest

from seq2seq.config.comparison import Comparison, load_comparison
from seq2seq.config.differences import flat
from seq2seq.config.loading import load_config
from seq2seq.config.yaml_text import parse_yaml
from seq2seq.errors import UserError

BASE = "training: {max_steps: 20}\nencoder: {hidden_size: 32}\n"
GOOD = """
base: ../base.yaml
seeds: [3, 1]
variants:
  none: {attention.kind: none}
  dot: {attention.kind: scaled_dot, decoder.layers: 2, tokenizer.source: {kind: words, vocabulary_size: 99}}
  base:
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


@pytest.mark.parametrize("variant", ["none", "dot", "base"])
def test_the_training_is_given_the_very_configuration_that_was_checked(variant: str, tmp_path: Path) -> None:
    comparison = load_comparison(write(tmp_path, GOOD))
    given = ["decoder.hidden_size=64"]
    overrides = comparison.overrides(variant, 3, given)
    assert comparison.config(variant, 3, given) == load_config(comparison.base, overrides)


def test_a_variant_outdoes_what_is_given_for_all(tmp_path: Path) -> None:
    comparison = load_comparison(write(tmp_path, GOOD))
    given = ["decoder.layers=5", "tokenizer.source.vocabulary_size=500", "encoder={layers: 3}", "encoder.cell=lstm"]
    overrides = comparison.overrides("dot", 3, given)
    assert comparison.config("dot", 3, given) == load_config(comparison.base, overrides)
    assert [each for each in overrides if each.startswith(("decoder", "encoder"))] == [*given[2:], "decoder.layers=2"]


def test_a_value_reaches_the_training_as_it_is_written(tmp_path: Path) -> None:
    text = 'base: ../base.yaml\nvariants: {a: {training.learning_rate: 1e-5, encoder.x: "é\\n\\x85\\u2028😀 \\"no\\""}}'
    comparison = load_comparison(write(tmp_path, text))
    value = parse_yaml(comparison.overrides("a", 1)[-1].partition("=")[2], "")[0]
    assert value == comparison.variants["a"]["encoder.x"] == 'é\n\x85\u2028😀 "no"'


def test_a_section_of_a_variant_takes_the_place_of_the_base_s_and_stays_as_written(tmp_path: Path) -> None:
    text = "base: ../base.yaml\nvariants: {a: {encoder: {layers: 2}, encoder.cell: lstm}}"
    comparison = load_comparison(write(tmp_path, text))
    config = comparison.config("a", 1)
    assert (config.encoder.layers, config.encoder.cell, config.encoder.hidden_size) == (2, "lstm", 192)
    assert comparison.variants["a"] == {"encoder": {"layers": 2}, "encoder.cell": "lstm"}
    assert config == load_config(comparison.base, comparison.overrides("a", 1))


def test_nested_settings_are_told_by_their_dotted_keys() -> None:
    assert flat({"seed": 1, "data": {"dev": {"source": "x"}, "extra": []}}) == {
        "seed": 1,
        "data.dev.source": "x",
        "data.extra": [],
    }


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
    ("base: b\nvariants: {}", "line 2: variants is {}: give one variant or more, each a name with the keys it changes"),
    ("base: b\nvariants:", "line 2: variants is null: give one variant or more"),
    ("base: b\nvariants: dot", "line 2: variants is dot: give one variant or more"),
    ("base: b\nvariants:\n  a: dot", "line 3: variants.a is dot: give the keys that this variant changes"),
    ("base: b\nvariants:\n  1: {}", "line 3: not valid YAML: a key is text: put 1 in quotes"),
    ("base: b\nvariants:\n  b: {1: 2}", "line 3: not valid YAML: a key is text: put 1 in quotes"),
    ("base: b\nvariants:\n  b: {a..b: 2}", "line 3: variants.b.a..b is 2: write the key as section.key"),
    (
        f"base: b\nvariants: {{a: {{attention.kind{'.x' * 400}: 1}}}}",
        f"line 2: variants.a.attention.kind{'.x' * 36}... is 1: write the key as section.key, such as attention.kind",
    ),
    ("base: ''\nvariants: {a: {}}", 'line 1: base is "": name a configuration file'),
    ("base:\nvariants: {a: {}}", "line 1: base is null: name a configuration file"),
    ("base: nothere\nvariants: {a: {}}", f"line 1: base: {{folder}}{os.sep}nothere: no such config file"),
    ("base: .\nvariants: {a: {}}", "line 1: base: {folder}: is a folder, not a config file"),
    ("base: b\nvariants: {a: {}}\nsentence: ''", 'line 3: sentence is "": write a sentence'),
    ("base: b\nvariants: {a: {}}\nsentence: ' \u3000'", 'line 3: sentence is " \\u3000": write a sentence'),
    ("base: b\nvariants: {a: {}}\nsentence: 5", "line 3: sentence is 5: write a sentence, in quotes"),
    ("base: b\nvariants: {a: {}}\nseed: 1", "line 3: unknown key seed; did you mean seeds?"),
    ("base: b\nvariants:\n  a/b: {}", "line 3: variants.a/b is {}: a variant's name is letters"),
    ("base: b\nvariants: {a: {}, A: {}}", "two names differ in case alone"),
    ("base: b\nvariants:\n  a:\n    seed: 2", "line 4: variants.a.seed is 2: seed is the same for all variants"),
    ("base: b\nvariants: {a: {data.train: x}}", "variants.a.data.train is x: data is the same for all variants"),
    ("base: b\nvariants: {a: {data.extra: [x]}}", "variants.a.data.extra is [x]: data is the same"),
    ("base: b\nvariants: {a: {training.max_steps: 2}}", "training.max_steps is the same for all variants"),
    ("base: b\nvariants: {a: {training: {}}}", "training.max_minutes is the same for all variants"),
    (
        "base: b\nvariants: {a: {}}\nminutes: 0",
        "line 3: minutes is 0: write a number above 0 and at most 525600, or null",
    ),
    ("base: b\nvariants: {a: {}}\nseeds: [1, 1]", "line 3: seeds is [1, 1]: a seed stands twice; leave one out"),
    ("base: b\nvariants: {a: {}}\nseeds: []", "line 3: seeds is []: give one seed or more"),
    ("base: b\nvariants: {a: {}}\nseeds: 1", "line 3: seeds is 1: give one seed or more, such as [1, 2, 3]"),
    ("- a", "x.yaml: holds a list, not keys with values"),
]


@pytest.mark.parametrize(("text", "message"), FAULTS, ids=[fault[1][:50] for fault in FAULTS])
def test_a_fault_is_one_line_that_names_file_and_key(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        load_comparison(write(tmp_path, text))
    folder = tmp_path / "compare"
    assert message.replace("{folder}", str(folder)) in str(caught.value)
    assert str(caught.value).startswith(str(folder / "x.yaml"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ("{attention.kindd: none}", "3: variants.a.attention.kindd: unknown key attention.kindd; did you mean kind?"),
        ("{attention.kind: nonee}", "3: variants.a.attention.kind: attention.kind is nonee: write none, concat"),
        ("{attention: {kind: nonee}}", "3: variants.a.attention.kind: attention.kind is nonee"),
        ("\n    attention:\n      kind: nonee", "5: variants.a.attention.kind: attention.kind is nonee"),
        ("{attention.kind.x: 1}", "3: variants.a.attention.kind.x: attention.kind is {x: 1}: write none, concat"),
        (
            "{attention.kind: dot}",
            "3: variants.a.attention.kind: attention.kind: dot needs queries and keys of one size",
        ),
    ],
)
def test_a_key_or_value_the_base_does_not_take_names_file_line_and_variant(
    variant: str, message: str, tmp_path: Path
) -> None:
    path = write(tmp_path, f"base: ../base.yaml\nvariants:\n  a: {variant}")
    with pytest.raises(UserError) as caught:
        load_comparison(path).config("a", 1)
    assert str(caught.value).startswith(f"{path}, line {message}")


def test_a_fault_of_the_base_names_the_base(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    (tmp_path / "base.yaml").write_text("encoder:\n  layers: 0\n", encoding="utf-8")
    with pytest.raises(UserError) as caught:
        load_comparison(path).config("none", 1)
    assert str(caught.value).startswith(f"{tmp_path / 'base.yaml'}, line 2: encoder.layers is 0")


def test_every_field_is_documented() -> None:
    assert [name for name, field in Comparison.model_fields.items() if not field.description] == []
