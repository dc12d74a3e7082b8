"""A run directory: safe to load, whole or refused in one line."""

import pickle
from pathlib import Path

import pytest
import torch

from seq2seq.checkpoint import FORMAT, RunDirectory, adopt, find_run, find_unfinished
from seq2seq.config import Config, dump_config
from seq2seq.data.prepare import Prepared
from seq2seq.errors import UserError
from seq2seq.inference.translator import Translator


def refusal(run: RunDirectory) -> str:
    with pytest.raises(UserError) as caught:
        Translator.load(run.path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_run_holds_all_it_needs_and_translates_from_anywhere(run: RunDirectory, home: Path) -> None:
    here = Translator.load(home / "runs" / "tiny").translate(["123", "4567"])
    assert Translator.load(run.path).translate(["123", "4567"]) == here


def without_checkpoints(run: RunDirectory) -> None:
    for name in ("last", "previous"):
        (run.path / f"{name}.safetensors").unlink()


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (exec, ("raise SystemExit('unpickled')",))


@pytest.mark.parametrize("name", ["best.safetensors", "tokenizer.source.json", "run.json", "config.yaml"])
def test_nothing_is_ever_unpickled(run: RunDirectory, name: str) -> None:
    without_checkpoints(run)
    (run.path / name).write_bytes(pickle.dumps(Bomb()))
    assert name in refusal(run)


def spoil(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def test_where_the_best_weights_are_damaged_the_last_checkpoint_translates_with_a_warning(
    run: RunDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    weights = run.checkpoints.load()[0]
    spoil(run.path / "best.safetensors")
    model = Translator.load(run.path).model
    assert "best.safetensors: damaged: its content does not fit its checksum; the weights of the last" in caplog.text
    assert torch.equal(model.state_dict()["decoder.output_bias"], weights["model.decoder.output_bias"])
    spoil(run.path / "last.safetensors")
    assert Translator.load(run.path).translate(["12"]), "and the one before that"
    assert "last.safetensors: damaged" in caplog.text
    spoil(run.path / "previous.safetensors")
    assert "previous.safetensors: damaged" in refusal(run)
    assert (run.path / "last.safetensors").exists(), "reading changes nothing"


def test_without_a_checkpoint_damaged_weights_are_refused_by_name(run: RunDirectory) -> None:
    without_checkpoints(run)
    spoil(run.path / "best.safetensors")
    assert "best.safetensors: damaged" in refusal(run)


@pytest.mark.parametrize("moment", [1, 2, 3])
def test_there_is_a_whole_checkpoint_at_every_moment_of_saving_one(
    moment: int, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, left = Path.replace, moment

    def counted(path: Path, target: Path) -> Path:
        nonlocal left
        left -= 1
        if not left:
            raise KeyboardInterrupt
        return replace(path, target)

    run.checkpoints.save({"a": torch.tensor(1)}, {})
    monkeypatch.setattr(Path, "replace", counted)
    with pytest.raises(KeyboardInterrupt):
        run.checkpoints.save({"a": torch.tensor(2)}, {})
    assert run.checkpoints.load()[0] == {"a": torch.tensor(1)}
    monkeypatch.undo()
    run.checkpoints.save({"a": torch.tensor(3)}, {})
    assert run.checkpoints.load()[0] == {"a": torch.tensor(3)}
    spoil(run.path / "last.safetensors")
    tensors, _, origin = run.checkpoints.load()
    assert tensors == {"a": torch.tensor(1)}, "not that of another training, nor the damaged one"
    run.checkpoints.make_last(origin)
    run.checkpoints.save({"a": torch.tensor(4)}, {})
    assert run.load_tensors("previous")[0] == {"a": torch.tensor(1)}


def test_a_file_of_another_run_is_not_taken_for_one_of_this(run: RunDirectory) -> None:
    tensors, metadata = run.load_tensors("best")
    run.save_tensors("best", tensors, metadata)
    assert run.load_tensors("best")[1] == metadata
    run.write_info(begun=1.0)
    without_checkpoints(run)
    assert "best.safetensors: is of another run" in refusal(run)


def test_weights_of_another_kind_are_refused(run: RunDirectory) -> None:
    run.save_tensors("best", {name: each.bfloat16() for name, each in run.load_tensors("best")[0].items()}, {})
    assert "weights of another kind than float32" in refusal(run)


def test_a_folder_in_the_place_of_a_checkpoint_is_moved_aside(run: RunDirectory) -> None:
    (run.path / "last.safetensors").unlink()
    (run.path / "last.safetensors").mkdir()
    tensors, _, origin = run.checkpoints.load()
    assert origin.name == "previous.safetensors"
    run.checkpoints.make_last(origin)
    assert run.load_tensors("last")[0].keys() == tensors.keys()
    assert [path.is_dir() for path in run.path.glob("damaged-*.safetensors")] == [True]


@pytest.mark.parametrize("name", ["test.tsv", "tokenizer.source.json"])
def test_what_is_damaged_is_found_before_training_goes_on(run: RunDirectory, name: str) -> None:
    prepared = Prepared(Path("data/prepared") / run.info()["prepared"])
    spoil(run.path / name)
    with pytest.raises(UserError, match=name.replace(".", r"\.")):
        adopt(run, run.config(), prepared)


def test_what_a_killed_training_left_half_written_is_removed(run: RunDirectory) -> None:
    (run.path / ".last.safetensors.0011aabb.tmp").write_bytes(b"half")
    with run.locked():
        assert not list(run.path.glob(".*.tmp"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("best.safetensors", "best.safetensors: missing; the run has not saved a model yet"),
        ("run.json", "no run directory (run.json is missing)"),
        ("config.yaml", "config.yaml: missing or empty; the run is damaged"),
        ("tokenizer.target.json", "tokenizer.target"),
    ],
)
def test_a_missing_file_is_named(run: RunDirectory, name: str, message: str) -> None:
    (run.path / name).unlink()
    assert message in refusal(run)


def test_weights_of_another_shape_are_refused(run: RunDirectory) -> None:
    weights, _ = run.load_tensors("best")
    weights["decoder.output_bias"] = torch.zeros(3)
    run.save_tensors("best", weights, {})
    assert "does not fit the model that config.yaml describes" in refusal(run)


def test_a_run_of_an_unknown_format_is_refused(run: RunDirectory) -> None:
    for number in (0, FORMAT + 1, "3", None, 2.5):
        run.write_json("run.json", {"format": number})
        assert f"run format {number!r}, but this version reads 1 to {FORMAT}" in refusal(run)


def test_a_huge_model_of_a_lying_configuration_takes_no_memory(run: RunDirectory) -> None:
    huge = run.config().model_dump()
    huge["encoder"]["hidden_size"] = huge["decoder"]["hidden_size"] = 60000
    run.files.write("config.yaml", dump_config(Config.model_validate(huge)))
    assert "does not fit the model that config.yaml describes" in refusal(run)


@pytest.mark.parametrize("name", ["../../elsewhere", "..", "/etc", "", 7, ["a"]])
def test_the_corpus_of_a_run_is_looked_for_only_where_corpora_are(
    run: RunDirectory, name: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Prepared, "is_complete", lambda _: True)
    assert run.prepared() is not None
    run.write_info(prepared=name)
    assert run.prepared() is None or name == 7


def test_a_directory_in_use_is_not_overwritten(run: RunDirectory) -> None:
    before = sorted(path.name for path in run.path.iterdir())
    with pytest.raises(UserError, match="exists already; add --resume"):
        run.create(run.config(), Prepared(run.path))
    assert sorted(path.name for path in run.path.iterdir()) == before


def test_the_newest_finished_run_is_found(run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SEQ2SEQ_MODEL", raising=False)
    with pytest.raises(UserError, match=r"no finished run under runs/: train one with `make train`"):
        find_run(None)
    for name, info in (
        ("old", {"format": FORMAT, "status": "finished", "finished": 100.0}),
        ("new", {"format": FORMAT, "status": "finished", "finished": 200.0}),
        ("newer-but-running", {"format": FORMAT, "status": "running"}),
        ("broken", {"format": 7}),
    ):
        (tmp_path / "runs" / name).mkdir(parents=True)
        RunDirectory(tmp_path / "runs" / name).write_json("run.json", info)
    assert find_run(None).path == Path("runs/new")
    monkeypatch.setenv("SEQ2SEQ_MODEL", "runs/old")
    assert find_run(None).path == Path("runs/old")
    assert find_run("runs/new").path == Path("runs/new"), "--model goes before SEQ2SEQ_MODEL"
    with pytest.raises(UserError, match="no run directory"):
        find_run("runs/none")


def test_only_what_may_change_changes_on_resume(run: RunDirectory, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    config, prepared = run.config(), Prepared(Path("data/prepared") / run.info()["prepared"])
    faster = config.model_copy(update={"training": config.training.model_copy(update={"learning_rate": 0.1})})
    adopt(run, faster, prepared)
    assert run.config().training.learning_rate == 0.1
    assert "training.learning_rate: 0.005 -> 0.1" in caplog.text
    with pytest.raises(UserError, match=r"encoder\.layers is 2, but the run was begun with 1"):
        adopt(run, config.model_copy(update={"encoder": config.encoder.model_copy(update={"layers": 2})}), prepared)
    with pytest.raises(UserError, match=r"data: the text of .* has changed since"):
        adopt(run, config, Prepared(Path("data/prepared/another")))


def test_the_newest_unfinished_run_of_exactly_this_name_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, info in (
        ("a-20260101-000000", {"format": FORMAT, "status": "running"}),
        ("a-20260102-000000", {"format": FORMAT, "status": "running"}),
        ("a-20260103-000000", {"format": FORMAT, "status": "finished"}),
        ("a-20260104-000000", {"format": 7}),
        ("a-b-20260105-000000", {"format": FORMAT, "status": "running"}),
    ):
        (tmp_path / "runs" / name).mkdir(parents=True)
        RunDirectory(tmp_path / "runs" / name).write_json("run.json", info)
    assert find_unfinished("a").path.name == "a-20260102-000000"
    with pytest.raises(UserError, match="no unfinished run"):
        find_unfinished("c")


@pytest.mark.parametrize(("content", "message"), [("[1]", "holds no JSON object"), ("[" * 100_000, "cannot be read")])
def test_a_run_json_that_is_none_is_refused_by_name(run: RunDirectory, content: str, message: str) -> None:
    run.files.write("run.json", content)
    assert "run.json: " in refusal(run) and message in refusal(run)


def test_text_that_is_no_utf8_and_digests_that_are_none_are_refused_by_name(run: RunDirectory) -> None:
    sums = (run.path / "SHA256SUMS").read_text("utf-8").splitlines(keepends=True)
    kept = [line for line in sums if "config.yaml" not in line]
    (run.path / "SHA256SUMS").write_text("".join(kept), encoding="utf-8")
    (run.path / "config.yaml").write_bytes(b"\xff")
    assert "config.yaml: cannot be read" in refusal(run)
    (run.path / "SHA256SUMS").write_text("not a digest\n", encoding="utf-8")
    assert "SHA256SUMS: damaged" in refusal(run)
    (run.path / "SHA256SUMS").write_bytes(bytes(2_000_000))
    assert "SHA256SUMS: damaged (too large)" in refusal(run)


def test_a_place_where_no_run_can_be_made_is_named(
    run: RunDirectory, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = Prepared(home / "data/prepared" / run.info()["prepared"])
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("", encoding="utf-8")
    config = run.config()
    RunDirectory(tmp_path / "empty").create(config, prepared)
    assert RunDirectory(tmp_path / "empty").exists, "an empty folder will do"
    with pytest.raises(UserError, match="file: is a file"):
        RunDirectory(tmp_path / "file/x").create(config, prepared)

    def refuse(*_: object) -> None:
        raise OSError(39, "Directory not empty")

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(UserError, match="new: cannot be made: Directory not empty; name another --run"):
        RunDirectory(tmp_path / "new").create(config, prepared)
    assert not (tmp_path / "new").exists()


def test_averaged_weights_stand_in_for_damaged_ones_where_there_are_any(run: RunDirectory) -> None:
    tensors, metadata, _ = run.checkpoints.load()
    average = {name.replace("model.", "average."): value + 1 for name, value in tensors.items() if "model." in name}
    run.checkpoints.save(tensors | average, metadata)
    spoil(run.path / "best.safetensors")
    found = Translator.load(run.path).model.state_dict()["decoder.output_bias"]
    assert torch.equal(found, tensors["model.decoder.output_bias"] + 1)
