"""YAML and --set become a Config, or one line that says what is wrong, where, and what would do."""

from pathlib import Path

import pytest

from seq2seq.config import Config, dump_config, load_config, parse_config
from seq2seq.errors import UserError


@pytest.mark.parametrize(
    ("text", "value"),
    [("3e-4", 3e-4), ("3.0e-4", 3e-4), ("1E-3", 1e-3), (".001", 1e-3), ("1", 1.0), ("0o10", 8.0), ("010", 10.0)],
)
def test_numbers_are_read_as_a_person_means_them(text: str, value: float) -> None:
    config = parse_config(f"training:\n  max_steps: 1\n  learning_rate: {text}")
    assert config.training.learning_rate == value


@pytest.mark.parametrize("word", ["no", "on", "yes", "off"])
def test_norwegian_and_other_short_words_are_text(word: str) -> None:
    if len(word) == 2:
        assert parse_config(f"data: {{source_language: {word}}}").data.source_language == word
    with pytest.raises(UserError, match=f"tie_embeddings is {word}: write true or false"):
        parse_config(f"decoder: {{tie_embeddings: {word}}}")


def test_an_empty_file_is_the_default_configuration() -> None:
    assert parse_config("") == parse_config("# nothing") == Config()


def test_what_is_dumped_reads_back_equal() -> None:
    config = parse_config("data: {train: {source: a.zh, target: a.en}, dev: 'no'}\nseed: 7\ntraining: {max_steps: 3}")
    assert parse_config(dump_config(config)) == config


def test_set_overrides_the_file_and_may_reach_what_the_file_leaves_out(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("training: {max_minutes: 3}\n", encoding="utf-8")
    config = load_config(path, ["training.max_minutes=15", "data.train=x=y.tsv", "training.learning_rate=3e-4"])
    assert (config.training.max_minutes, config.data.train, config.training.learning_rate) == (15, "x=y.tsv", 3e-4)


def test_set_reads_null_and_nested_values() -> None:
    config = parse_config("training: {max_steps: 1}", ["training.clip_norm=null", "data.dev={source: a, target: b}"])
    assert config.training.clip_norm is None
    assert config.data.dev is not None and config.data.dev.target == "b"


FAULTS = [
    ("trainin: {}", [], "config, line 1: unknown key trainin; did you mean training?"),
    ("training:\n  max_steps: 1\n  learning_rat: 1", [], "config, line 3: unknown key training.learning_rat; did you"),
    ("encoder:\n  zzzz: 1", [], "config, line 2: unknown key encoder.zzzz; known here: cell, embedding_size"),
    ("", ["encoder.layer=2"], "--set encoder.layer=2: unknown key encoder.layer; did you mean layers?"),
    ("", ["data.train={source: a, target: b, c: d}"], "unknown key data.train.c; known here: source, target"),
    ("data:\n  extra: [a, {source: b, target: c, x: d}]", [], "line 2: unknown key data.extra.1.x; known here: source"),
    ("encoder: 3", [], "encoder is 3: write keys with values below it, or leave it out"),
    ("encoder: {layers: 0}", [], "config, line 1: encoder.layers is 0: write a whole number from 1 to 64"),
    ("attention:\n  size: 0", [], "config, line 2: attention.size is 0: write a whole number from 1 to 65536, or null"),
    ("training:\n  learning_rate: .nan", [], "training.learning_rate is .nan: write a number above 0 and at most 100"),
    ("data: {cleaning: {max_ratio: 1}}", [], "data.cleaning.max_ratio is 1: write a number above 1, or null"),
    ("encoder: {dropout: 1.0}", [], "encoder.dropout is 1.0: write a number of at least 0 and below 1"),
    ("data: {extra: hsk}", [], "data.extra is hsk: write a list such as [a, b]"),
    ("data:\n  extra:\n    - hsk\n    - 3", [], "config, line 4: data.extra.1 is 3: give a path, a named corpus"),
    ("data: {train: {source: a, target: 3}}", [], "data.train.target is 3: name a file"),
    ('data: {train: "a\\0b"}', [], 'data.train is "a\\x00b": give a path'),
    ('seed: "1\\n2\\e[31m"', [], 'seed is "1\\n2\\x1b[31m": write a whole number from 0 to 4294967295'),
    ("seed: " + "x" * 5000, [], f"seed is {'x' * 97}...: write a whole number"),
    (f"{'x' * 500}: 1", [], f"unknown key {'x' * 97}...; known here: seed"),
    ('"a\\nb": 1', [], "unknown key a\\nb; known here: seed"),
    ("<<: {seed: 1}", [], "config, line 1: unknown key <<; known here: seed"),
    ("encoder: {bidirectional: no}", [], "encoder.bidirectional is no: write true or false"),
    ("decoder:\n  attend: befor", [], "config, line 2: decoder.attend is befor: write before, between or after"),
    (
        "decoder: {hidden_size: 100}\nattention: {kind: dot}",
        [],
        "config, line 2: attention.kind: dot needs queries and keys",
    ),
    (
        "encoder: {self_attention: 5}",
        [],
        "encoder.self_attention: 5 heads do not divide the size of an annotation, 384",
    ),
    ("attention: {kind: none, coverage: true}", [], "config, line 1: attention.kind: none scores nothing"),
    ("attention: {coverage_loss: 1}", [], "attention.coverage_loss: 1 needs coverage: true; or set it to 0"),
    ("tokenizer: {target: {kind: words, sampling_alpha: 0.1}}", [], "target.sampling_alpha: 0.1 goes with kind: unigr"),
    (
        "decoder:\n  layers: 1\n  cell: cgru",
        [],
        "config, line 3: decoder.cell: cgru attends between its two steps: set",
    ),
    ("decoder: {attend: between}", [], "decoder.attend: between needs the two steps of cell: cgru, not cell: gru"),
    (
        "decoder: {attend: before, input_feeding: true}",
        [],
        "decoder.input_feeding: true goes with attend: after; attend",
    ),
    ("training: {max_minutes: null}", [], "training.max_minutes: null, like max_steps, max_epochs and patience: tr"),
    ("training: {patience: 3}", [], "training.schedule: cosine needs an end: set max_minutes"),
    ("training: {max_minutes: .inf}", [], "max_minutes is .inf: write a number above 0 and at most 525600, or null"),
    ("tokenizer: {source: {kind: bp}}", [], "tokenizer.source.kind is bp: write unigram, bpe, characters or words"),
    ("data:\n  train: 3", [], "config, line 2: data.train is 3: give a path, a named corpus, or {source: PATH, target"),
    ("data:\n  train: {source: a}", [], "config, line 2: data.train.target is missing; add it"),
    ("data: {train: ''}", [], 'data.train is "": give a path, a named corpus, or {source: PATH, target: PATH}'),
    ("device: gpu", [], "device is gpu: use auto, cpu, cuda, cuda:N or mps"),
    ("data: {source_language: Chinese}", [], "data.source_language is Chinese: use an ISO 639 code such as zh or en"),
    ("- 1", [], "config: holds a list, not keys with values"),
    ("3", [], "config: holds the value 3, not keys with values"),
    ("", ["training"], "--set training: write it as key.path=value"),
    ("", ["=3"], "--set =3: write it as key.path=value"),
    ("", ["training..max_steps=3"], "--set training..max_steps=3: write it as key.path=value"),
    ("", ["data.dev="], "--set data.dev=: the value is missing; write data.dev=null for none"),
    ("", ["training.max_step=3"], "--set training.max_step=3: unknown key training.max_step; did you mean max_steps?"),
    ("", ["encoder=3"], "--set encoder=3: encoder is 3: write keys with values below it"),
    ("", ["encoder.layers.x=3"], "--set encoder.layers.x=3: encoder.layers is {x: 3}: write a whole number"),
    ("seed: 1", ["seed.x=3"], "--set seed.x=3: seed holds the value 1, not keys; set seed as a whole"),
    (
        "data: {extra: [a]}",
        ["data.extra.0=b"],
        "--set data.extra.0=b: data.extra holds a list, not keys; set data.extra",
    ),
    ("", ["data.extra.0=b"], '--set data.extra.0=b: data.extra is {"0": b}: write a list such as [a, b]'),
    ("", ["seed=x", "seed=y"], "--set seed=y: seed is y: write"),
    ("", ["seed=["], "--set seed, line 1: not valid YAML"),
    ("", ["seed=1\n2"], "--set seed=1\\n2: seed is"),
    ("", [f"seed={'9' * 5000}"], "--set seed, line 1: not valid YAML: a number of 5000 digits"),
    ("", [f"seed={'x' * 5000}"], f"--set seed={'x' * 92}...: seed is {'x' * 97}...: write a whole number"),
    ("", [f"data.train{'.a' * 5000}=1"], "5002 keys below one another, which no setting has"),
    (
        "",
        ["data.train=\udcff"],
        "--set data.train, line 1: not valid YAML: character U+DCFF is not allowed; take it out",
    ),
]


@pytest.mark.parametrize(("text", "overrides", "message"), FAULTS, ids=[fault[2][:60] for fault in FAULTS])
def test_a_fault_is_one_line_that_names_the_key(text: str, overrides: list[str], message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_config(text, overrides)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


DECODER = "encoder:\n  layers: 1\ndecoder:\n  layers: 1\n"
SIZES = "encoder: {hidden_size: 100}\ndecoder: {hidden_size: 200}\nattention: {kind: dot}"
# The last --set is not always to blame: seed, layers and beam change nothing in the matter.
FAULTS_OF_SEVERAL_KEYS = [
    (DECODER, ["decoder.cell=cgru", "seed=1"], "--set decoder.cell=cgru: decoder.cell: cgru attends"),
    ("", ["decoder.cell=cgru", "decoder.layers=2"], "--set decoder.cell=cgru: decoder.cell: cgru"),
    ("", ["decoder={cell: cgru}"], "--set decoder={cell: cgru}: decoder.cell: cgru"),
    (
        "",
        ["decoder.input_feeding=true", "decoder.attend=before"],
        "--set decoder.attend=before: decoder.input_feeding",
    ),
    (
        "",
        ["attention.heads=5", "decoder.cell=cgru", "decoder.attend=between"],
        "--set attention.heads=5: attention.heads",
    ),
    ("", ["attention.kind=dot", "decoder.hidden_size=100"], "--set decoder.hidden_size=100: attention.kind: dot"),
    ("", ["decoder.hidden_size=100", "attention.kind=dot"], "--set attention.kind=dot: attention.kind: dot"),
    (SIZES, ["encoder.hidden_size=150", "search.beam=2"], "--set encoder.hidden_size=150: attention.kind: dot needs"),
    (
        "attention: {coverage: true}",
        ["attention.kind=none", "attention.heads=1"],
        "--set attention.kind=none: attention.kind:",
    ),
    (
        "training: {max_steps: 3}",
        ["training.max_steps=null"],
        "--set training.max_steps=null: training.max_minutes: null",
    ),
    ("", ["data.train.source=a", "seed=1"], "--set data.train.source=a: data.train.target is missing"),
    ("attention: {heads: 5}", ["attention.heads=7"], "--set attention.heads=7: attention.heads: 7 heads do not divide"),
    # Where the file is at fault by itself, no --set that has nothing to do with it is named.
    (
        "attention: {heads: 5}",
        ["seed=1", "training.max_minutes=2"],
        "config, line 1: attention.heads: 5 heads do not divide",
    ),
    ("seed: 1\ndecoder: {cell: cgru}", ["decoder.layers=2"], "config, line 2: decoder.cell: cgru"),
    (
        "decoder: {cell: cgru}",
        ["encoder.self_attention=5", "decoder.layers=2"],
        "--set encoder.self_attention=5: encoder.self_attention",
    ),
]


@pytest.mark.parametrize(
    ("text", "overrides", "message"),
    FAULTS_OF_SEVERAL_KEYS,
    ids=[" ".join(sets) for _, sets, _ in FAULTS_OF_SEVERAL_KEYS],
)
def test_a_fault_of_several_keys_names_the_set_that_caused_it(text: str, overrides: list[str], message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_config(text, overrides)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "{encoder: {layers: 1, dropout: 0.5, residual: true}}",
        "{tokenizer: {source: {kind: words, character_coverage: 0.99}, target: {kind: bpe, min_frequency: 9}}}",
        "{data: {dev: a.tsv, dev_size: 9}}",
        "{training: {max_steps: 30, warmup_steps: 200, validate_every: 500, checkpoint_steps: 900, patience: 3}}",
        "{training: {checkpoint_steps: null, checkpoint_minutes: null, max_steps: 1}}",
        "{search: {beam: 1000, batch_tokens: 1}, tokenizer: {target: {vocabulary_size: 8}}}",
        "{attention: {kind: dot, size: 7, temperature: 3, window: 9}, encoder: {hidden_size: 192}}",
        "{encoder: {hidden_size: 16384, layers: 32}, decoder: {hidden_size: 32768}, threads: 512}",
        "{training: {max_minutes: 100000, batch_tokens: 1000000}, tokenizer: {source: {vocabulary_size: 500000}}}",
    ],
)
def test_what_has_no_effect_or_is_merely_large_is_no_fault(text: str) -> None:
    parse_config(text)


def test_of_several_settings_of_a_key_the_last_one_holds() -> None:
    assert parse_config("", ["seed=1", "seed=2"]).seed == 2
    encoder = parse_config("", ["encoder.layers=2", "encoder={cell: lstm}"]).encoder
    assert (encoder.layers, encoder.cell) == (1, "lstm")
