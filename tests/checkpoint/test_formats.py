"""Runs of older programs: they translate as they did there, and training goes on."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from seq2seq.checkpoint import FORMAT, RunDirectory, adopt
from seq2seq.checkpoint.formats import renamed
from seq2seq.data.prepare import prepare
from seq2seq.inference.translator import Translator
from tests.conftest import reversed_digits, write_tsv
from tests.helpers import command

RUNS = Path(__file__).parent / "runs"


@pytest.fixture(params=[f"format{number}" for number in range(1, FORMAT)])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> RunDirectory:
    """A run that was stopped half-way, beside the text that it was trained on."""
    pairs = reversed_digits(400, seed=1, longest=5)
    for part, chosen in (("train", pairs[40:]), ("dev", pairs[:20]), ("test", pairs[20:40])):
        write_tsv(tmp_path / f"{part}.tsv", chosen)
    shutil.copytree(RUNS / request.param, tmp_path / "run")
    return RunDirectory(tmp_path / "run")


def test_every_older_format_has_its_run() -> None:
    found = {path.name: RunDirectory(path).info()["format"] for path in RUNS.iterdir()}
    assert found == {f"format{number}": number for number in range(1, FORMAT)}


def test_it_translates_as_it_did_there(old: RunDirectory) -> None:
    expected = [json.loads(line) for line in (old.path / "translations.jsonl").read_text("utf-8").splitlines()]
    found = Translator.load(old.path).translate(["123", "4567", "90210", "", "55"], attention=True)
    assert [each.text for each in found] == [each["text"] for each in expected] == ["321", "7654", "01209", "", "55"]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.score == pytest.approx(theirs["score"], abs=1e-4)
        torch.testing.assert_close(torch.tensor(ours.attention), torch.tensor(theirs["attention"]), atol=1e-4, rtol=0)


def test_its_training_goes_on_and_it_is_one_of_this_format_then(old: RunDirectory) -> None:
    step = json.loads((old.path / "metrics.jsonl").read_text("utf-8").splitlines()[-1])["step"]
    (old.path.parent / "digits.yaml").write_text((old.path / "config.yaml").read_text("utf-8"), encoding="utf-8")
    sets = [f"--set=training.max_steps={step + 25}", "--set=training.validate_every=10", "--set=training.skip_limit=3"]
    done = command("train", "digits.yaml", "--run", "run", "--resume", *sets, cwd=old.path.parent)
    assert done.returncode == 0, done.stderr
    assert "training.skip_limit: 10 -> 3" in done.stderr
    info = old.info()
    assert (info["format"], info["status"]) == (FORMAT, "finished")
    lines = [json.loads(line) for line in (old.path / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert [line["step"] for line in lines] == sorted({line["step"] for line in lines}), "no line twice"
    assert lines[-1]["step"] == step + 25
    assert lines[-1]["dev_perplexity"] < 1.1, "it went on from where it was"
    assert Translator.load(old.path).translate(["123"])[0].text == "321"


def test_a_run_on_other_text_is_not_taken_for_the_same(old: RunDirectory) -> None:
    write_tsv(old.path.parent / "dev.tsv", [("1", "1")])
    (old.path.parent / "digits.yaml").write_text((old.path / "config.yaml").read_text("utf-8"), encoding="utf-8")
    done = command("train", "digits.yaml", "--run", "run", "--resume", cwd=old.path.parent)
    assert done.returncode == 2
    assert "data: the text of train.tsv or another corpus" in done.stderr
    assert old.info()["format"] < FORMAT


def test_new_names_stay_as_they_are() -> None:
    old = {"encoder.recurrent.layers.weight_hh_l1_reverse": torch.zeros(1), "decoder.attention.v.weight": torch.ones(1)}
    new = renamed({f"average.{name}": tensor for name, tensor in old.items()})
    assert list(new) == [
        "average.encoder.recurrent.layers.1.weight_hh_l0_reverse",
        "average.decoder.attention.score.v.weight",
    ]
    assert renamed(new) == new


def test_a_run_is_brought_to_this_format_as_a_whole(old: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(old.path.parent)
    before, expected = old.load_tensors("best")[0], Translator.load(old.path).translate(["123"])
    config = old.config()
    adopt(old, config, prepare(config))
    assert old.info()["format"] == FORMAT and old.info()["status"] == "running"
    after = old.load_tensors("best")[0]
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
    assert Translator.load(old.path).translate(["123"]) == expected
    old.files.check_all()
