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
    with pytest.raises(UserError, match=f"tie_embeddings is '{word}': write true or false"):
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
    ("encoder:\n  layers: two", [], "config, line 2: encoder.layers is 'two': input should be a valid integer"),
    ("encoder:\n  layers: true", [], "encoder.layers is True: input should be a valid integer"),
    ("encoder:\n  layers: 0", [], "encoder.layers is 0: input should be greater than or equal to 1"),
    ("encoder:\n  layers: null", [], "encoder.layers is None: input should be a valid integer"),
    ("encoder: 3", [], "encoder is 3: give keys with values below it"),
    ("encoder: {bidirectional: no}", [], "encoder.bidirectional is 'no': write true or false"),
    ("x\0y: 1", [], "not valid YAML"),
    ("decoder:\n  attend: befor", [], "config, line 2: decoder.attend is 'befor': input should be 'before', 'between'"),
    ("decoder: {hidden_size: 100}\nattention: {kind: dot}", [], "config: attention.kind: dot needs queries and keys"),
    ("encoder: {self_attention: 5}", [], "self_attention: 5 heads do not divide the size of an annotation, 384"),
    ("attention: {kind: none, coverage: true}", [], "config, line 1: attention: kind: none scores nothing"),
    ("attention: {coverage_loss: 1}", [], "config, line 1: attention: coverage_loss needs coverage: true"),
    ("decoder: {cell: cgru}", [], "config, line 1: decoder: cell: cgru and attend: between go together"),
    ("decoder: {attend: before, input_feeding: true}", [], "input_feeding goes with attend: after"),
    ("training: {max_minutes: null}", [], "training: training never ends: set one of max_minutes, max_steps"),
    ("training: {patience: 3}", [], "training: schedule: cosine needs an end: set max_minutes"),
    ("training: {max_minutes: 0}", [], "training.max_minutes is 0: input should be greater than 0"),
    ("training: {max_minutes: .nan}", [], "training.max_minutes is nan: input should be a finite number"),
    ("training: {max_minutes: .inf}", [], "training.max_minutes is inf: input should be a finite number"),
    ("tokenizer: {source: {kind: bp}}", [], "input should be 'unigram', 'bpe', 'characters' or 'words'"),
    ("tokenizer: {source: {vocabulary_size: 0}}", [], "tokenizer.source.vocabulary_size is 0: input should be greater"),
    ("data:\n  train: 3", [], "config, line 2: data.train is 3: give a path, a named corpus, or {source: PATH, target"),
    ("data:\n  train: {source: a}", [], "config, line 2: data.train.target is missing"),
    ("data: {train: ''}", [], "data.train is '': give a path, a named corpus, or {source: PATH, target: PATH}"),
    ("device: gpu", [], "device is 'gpu': use auto, cpu, cuda, cuda:N or mps"),
    ("data: {source_language: Chinese}", [], "data.source_language is 'Chinese': use an ISO 639 code such as zh or en"),
    ("seed: 1\nseed: 2", [], "config, line 2: not valid YAML: key 'seed' stands twice"),
    ("a: [", [], "config, line 1: not valid YAML"),
    ("a: !!python/object:os.system 1", [], "not valid YAML"),
    ("? [1]\n: 2", [], "not valid YAML"),
    ("- 1", [], "config: holds a list, not keys with values"),
    ("3", [], "config: holds the value 3, not keys with values"),
    ("", ["training"], "--set training: write it as key.path=value"),
    ("", ["=3"], "--set =3: write it as key.path=value"),
    ("seed: 1", ["seed.x=3"], "--set seed.x=3: seed holds the value 1, not keys"),
    ("", ["seed=["], "--set seed, line 1: not valid YAML"),
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
    (DECODER, ["decoder.cell=cgru", "seed=1"], "--set decoder.cell=cgru: decoder: cell: cgru and attend: between"),
    ("", ["decoder.cell=cgru", "decoder.layers=2"], "--set decoder.cell=cgru: decoder: cell: cgru"),
    ("", ["decoder={cell: cgru}"], "--set decoder={cell: cgru}: decoder: cell: cgru"),
    (
        "",
        ["decoder.input_feeding=true", "decoder.attend=before"],
        "--set decoder.attend=before: decoder: input_feeding",
    ),
    ("", ["attention.heads=3", "seed=1", "attention.heads=5"], "--set attention.heads=5: attention.heads: 5 heads do"),
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
        "--set attention.kind=none: attention:",
    ),
    (
        "training: {max_steps: 3}",
        ["training.max_steps=null"],
        "--set training.max_steps=null: training: training never",
    ),
    ("", ["data.train.source=a", "seed=1"], "--set data.train.source=a: data.train.target is missing"),
    ("attention: {heads: 5}", ["attention.heads=7"], "--set attention.heads=7: attention.heads: 7 heads do not divide"),
    # Where the file is at fault by itself, no --set that has nothing to do with it is named.
    ("attention: {heads: 5}", ["seed=1", "training.max_minutes=2"], "config: attention.heads: 5 heads do not divide"),
    ("seed: 1\ndecoder: {cell: cgru}", ["decoder.layers=2"], "config, line 2: decoder: cell: cgru"),
    (
        "decoder: {cell: cgru}",
        ["encoder.self_attention=5", "decoder.layers=2"],
        "--set encoder.self_attention=5: encoder",
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


def test_a_missing_or_binary_file_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no such config file; see configs/"):
        load_config(tmp_path / "none.yaml")
    with pytest.raises(UserError, match="is a folder, not a config file"):
        load_config(tmp_path)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="cannot be read as UTF-8"):
        load_config(tmp_path / "binary.yaml")
