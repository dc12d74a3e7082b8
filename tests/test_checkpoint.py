"""A run directory: safe to load, whole or refused in one line."""

import json
import pickle
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from seq2seq.checkpoint import FORMAT, RunDirectory, find_run, find_unfinished
from seq2seq.data.prepare import Prepared
from seq2seq.errors import UserError
from seq2seq.inference.translator import Translator


@pytest.fixture
def run(home: Path, tmp_path: Path) -> RunDirectory:
    """A copy of a finished run, to be spoiled."""
    shutil.copytree(home / "runs" / "tiny", tmp_path / "run")
    return RunDirectory(tmp_path / "run")


def refusal(run: RunDirectory) -> str:
    with pytest.raises(UserError) as caught:
        Translator.load(run.path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_run_holds_all_it_needs_and_translates_from_anywhere(run: RunDirectory, home: Path) -> None:
    here = Translator.load(home / "runs" / "tiny").translate(["123", "4567"])
    assert Translator.load(run.path).translate(["123", "4567"]) == here


def test_saved_tensors_come_back_equal_with_their_metadata(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    tensors = {"a": torch.randn(3, 4), "b": torch.arange(3), "c": torch.randn(4, 3).t()}
    run.save_tensors("x", tensors, {"step": "3"})
    loaded, metadata = run.load_tensors("x")
    assert metadata == {"step": "3"}
    assert all(torch.equal(loaded[key], value) for key, value in tensors.items()) and loaded.keys() == tensors.keys()


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (exec, ("raise SystemExit('unpickled')",))


@pytest.mark.parametrize("name", ["best.safetensors", "tokenizer.source.json", "run.json", "config.yaml"])
def test_nothing_is_ever_unpickled(run: RunDirectory, name: str) -> None:
    (run.path / name).write_bytes(pickle.dumps(Bomb()))
    assert name in refusal(run)


@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_a_truncated_model_is_refused_by_name(run: RunDirectory, keep: int) -> None:
    path = run.path / "best.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    assert "best.safetensors: damaged" in refusal(run)


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
    save_file(weights, run.path / "best.safetensors")
    assert "does not fit the model that config.yaml describes" in refusal(run)


def test_a_run_of_an_unknown_format_is_refused(run: RunDirectory) -> None:
    (run.path / "run.json").write_text(json.dumps({"format": 99}), encoding="utf-8")
    assert "run format 99" in refusal(run)


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
        (tmp_path / "runs" / name / "run.json").write_text(json.dumps(info), encoding="utf-8")
    assert find_run(None).path == Path("runs/new")
    monkeypatch.setenv("SEQ2SEQ_MODEL", "runs/old")
    assert find_run(None).path == Path("runs/old")
    assert find_run("runs/new").path == Path("runs/new"), "--model goes before SEQ2SEQ_MODEL"
    with pytest.raises(UserError, match="no run directory"):
        find_run("runs/none")


def test_only_what_may_change_changes_on_resume(run: RunDirectory) -> None:
    config, prepared = run.config(), Prepared(Path("data/prepared") / run.info()["prepared"])
    faster = config.model_copy(update={"training": config.training.model_copy(update={"learning_rate": 0.1})})
    run.adopt(faster, prepared)
    assert run.config().training.learning_rate == 0.1
    with pytest.raises(UserError, match="encoder is not what the run was begun with"):
        run.adopt(config.model_copy(update={"encoder": config.encoder.model_copy(update={"layers": 2})}), prepared)
    with pytest.raises(UserError, match="the corpus is not the one the run was begun with"):
        run.adopt(config, Prepared(Path("data/prepared/another")))


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
        (tmp_path / "runs" / name / "run.json").write_text(json.dumps(info), encoding="utf-8")
    assert find_unfinished("a").path.name == "a-20260102-000000"
    with pytest.raises(UserError, match="no unfinished run"):
        find_unfinished("c")
