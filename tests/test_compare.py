"""The compare command: two tiny trainings, one report; what is done is not done again; what cannot be is refused."""

import contextlib
import functools
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from seq2seq import cli, compare, load
from seq2seq.checkpoint import RunDirectory
from seq2seq.comparison.results import file_name, in_buckets
from seq2seq.comparison.significance import paired_bootstrap
from seq2seq.errors import UserError
from seq2seq.evaluation import corpus_bleu
from tests.helpers import ROOT, command

# Japanese is scored by character, so that strings of digits have n-grams.
SETS = [
    *("--set", "training.max_steps=20"),
    *("--set", "training.validate_every=10"),
    *("--set", "data.target_language=ja"),
]
ORDER = ["none", "additive"]
# What is translated there is kept from one test to the next.
GIVEN = ["out/additive-s3", "out/none-s3", "--output", "given"]


@pytest.fixture(scope="module")
def compared(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pair.yaml and, under out, what comparing its two variants wrote."""
    folder = tmp_path_factory.mktemp("compared")
    (folder / "pair.yaml").write_text(
        f"base: {(digits / 'digits.yaml').as_posix()}\nseeds: [3]\nvariants:\n"
        "  none: {attention.kind: none}\n  additive: {attention.kind: additive}\n",
        encoding="utf-8",
    )
    done = command("compare", "pair.yaml", *SETS, "--output", "out", cwd=folder)
    assert done.returncode == 0, done.stderr
    (folder / "stdout.txt").write_text(done.stdout, encoding="utf-8")
    return folder


@pytest.fixture
def here(compared: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same folder, as the current one."""
    monkeypatch.chdir(compared)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return compared


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """With few resamples, where intervals and p-values do not matter."""
    few = functools.partial(paired_bootstrap, resamples=10)
    monkeypatch.setattr("seq2seq.comparison.results.paired_bootstrap", few)


def compare_here(*line: object) -> int:
    """Run the command in this process."""
    with contextlib.redirect_stdout(io.StringIO()):
        return cli.run(compare.arguments(), compare.main, list(map(str, line)))


def report_of(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return content


def translations_of(folder: Path, variant: str) -> list[str]:
    return (folder / f"translations/{variant}-s3.txt").read_text(encoding="utf-8").splitlines()


def times(folder: Path) -> dict[Path, int]:
    """When each weight and translation was written."""
    written = [path for kind in ("*/best.safetensors", "*/*.txt") for path in folder.glob(kind)]
    return {path: path.stat().st_mtime_ns for path in written}


def test_each_variant_is_trained_as_asked_and_reported_on(here: Path) -> None:
    for variant in ORDER:
        config = RunDirectory(here / f"out/{variant}-s3").config()
        assert (config.attention.kind, config.seed, config.training.max_steps) == (variant, 3, 20)
    report = report_of(here / "out")
    assert [variant["name"] for variant in report["variants"]] == ORDER
    assert [variant["outcomes"][0]["updates"] for variant in report["variants"]] == [20, 20]
    assert [variant["settings"] for variant in report["variants"]] == [{"attention.kind": kind} for kind in ORDER]
    page = (here / "out/report.md").read_text(encoding="utf-8")
    assert "Each variant was trained once" in page and "bs:1000|seed:12345" in page
    printed = (here / "stdout.txt").read_text(encoding="utf-8")
    assert [line.split()[0] for line in printed.splitlines()[:4]] == ["variant", *ORDER, "(copy)"]
    assert f"\nreport: {Path('out/report.md')}\n" in printed
    assert f"PyTorch of this report: {report['torch']}" in page and f"device of this report: {report['device']}" in page
    assert "CPU threads in training: 1\n" in page and report["processor"]
    for name in ("learning_curves", "bleu_by_length"):
        for kind in ("png", "svg"):
            assert 1000 < (here / f"out/{name}.{kind}").stat().st_size < 100_000


def test_a_map_is_drawn_for_attention_and_none_where_all_weights_are_equal(here: Path) -> None:
    page = (here / "out/report.md").read_text(encoding="utf-8")
    assert [path.name for path in (here / "out/attention").iterdir()] == ["additive.png"]
    assert "No attention map of none: it looks at all positions alike.\n" in page
    assert page.count("![attention of") == page.count("![attention of additive](<attention/additive.png>)") == 1
    assert report_of(here / "out")["sample"]["alike"] == ["none"]


def test_translations_are_kept_in_order_and_scored_as_sacrebleu_does(here: Path) -> None:
    pairs = RunDirectory(here / "out/none-s3").pairs("test")
    for variant in ORDER:
        expected = [each.text for each in load(f"out/{variant}-s3").translate([pair.source for pair in pairs])]
        assert translations_of(here / "out", variant) == expected
    systems = [translations_of(here / "out", variant) for variant in ORDER]
    expected_scores = paired_bootstrap(systems, [pair.target for pair in pairs], "ja")
    for index, variant in enumerate(report_of(here / "out")["variants"]):
        assert variant["outcomes"][0]["bleu"] == vars(expected_scores.bleu[index])
        assert variant["outcomes"][0]["chrf"] == vars(expected_scores.chrf[index])


def test_bleu_by_length_is_that_of_the_sentences_of_the_bucket(here: Path) -> None:
    report = report_of(here / "out")
    pairs = RunDirectory(here / "out/none-s3").pairs("test")
    for index, bucket in enumerate(report["buckets"]):
        within = [i for i, pair in enumerate(pairs) if bucket["shortest"] <= len(pair.source) <= bucket["longest"]]
        assert len(within) == bucket["sentences"]
        for variant in report["variants"]:
            lines = translations_of(here / "out", variant["name"])
            expected = corpus_bleu([lines[i] for i in within], [pairs[i].target for i in within], "ja")
            assert variant["outcomes"][0]["bleu_by_length"][index] == pytest.approx(expected)
    limits = [bucket["longest"] for bucket in report["buckets"]]
    assert sum(map(len, in_buckets([pair.source for pair in pairs], limits))) == len(pairs)


def test_figures_of_training_are_those_of_the_run(here: Path) -> None:
    for variant in report_of(here / "out")["variants"]:
        (outcome,) = variant["outcomes"]
        run = RunDirectory(Path(outcome["run"]))
        lines = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        assert outcome["dev_curve"] == [[line["minutes"], line["dev_bleu"]] for line in lines]
        assert outcome["perplexity"] == run.read_json("report.json")["perplexity"]
        weights, _ = run.load_tensors("best")
        assert outcome["parameters"] == sum(tensor.numel() for tensor in weights.values())


def test_a_second_call_trains_and_translates_nothing_and_reports_the_same(
    here: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before, report = times(here / "out"), report_of(here / "out")
    assert compare_here("pair.yaml", *SETS, "--output", "out") == 0
    assert "2 trainings, 2 of them done" in caplog.text and "training 1 of" not in caplog.text
    assert len(before) == 4 and times(here / "out") == before
    assert report_of(here / "out") == report


@pytest.mark.usefixtures("quick")
def test_an_unfinished_run_is_resumed_and_a_damaged_translation_made_anew(
    here: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(here / "out", tmp_path / "out")
    RunDirectory(tmp_path / "out/additive-s3").write_info(status="running")
    (tmp_path / "out/translations/none-s3.txt").write_text("1\n", encoding="utf-8")
    assert compare_here("pair.yaml", *SETS, "--output", tmp_path / "out") == 0
    assert "training 1 of 1: additive, seed 3" in caplog.text
    assert RunDirectory(tmp_path / "out/additive-s3").info()["status"] == "finished"
    assert translations_of(tmp_path / "out", "none") == translations_of(here / "out", "none")
    assert report_of(tmp_path / "out")["variants"][1]["outcomes"][0]["updates"] == 20


@pytest.mark.usefixtures("quick")
def test_run_directories_are_compared_as_they_are_with_a_map_of_a_test_sentence_of_median_length(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[Any, ...]] = []
    threads: list[int | None] = []
    monkeypatch.setattr("seq2seq.comparison.attention_sample.draw_attention", lambda *given: drawn.append(given))
    monkeypatch.setattr("seq2seq.devices.use_threads", threads.append)
    assert compare_here(*GIVEN) == 0
    assert threads == [1]
    report, before = report_of(here / "given"), report_of(here / "out")
    assert [variant["name"] for variant in report["variants"]] == GIVEN[:2]
    scores = [variant["outcomes"][0]["bleu"]["score"] for variant in report["variants"]]
    assert scores == [variant["outcomes"][0]["bleu"]["score"] for variant in reversed(before["variants"])]
    assert report["variants"][0]["outcomes"][0]["bleu"]["p_value"] is None
    sample = report["sample"]
    pairs = RunDirectory(here / "out/none-s3").pairs("test")
    assert (sample["source"], sample["reference"]) in pairs
    assert len(sample["source"]) == sorted(len(pair.source) for pair in pairs)[50]
    ((path, source, target, weights, name),) = drawn
    assert name == GIVEN[0] and path == Path(f"given/attention/{file_name(name)}.png")
    assert "".join(source) == f"{sample['source']}</s>"
    assert [len(row) for row in weights] == [len(source)] * len(target)


@pytest.mark.usefixtures("quick")
def test_without_a_font_for_the_maps_the_report_is_still_written_and_says_so(
    here: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_font(*arguments: object) -> None:
        raise UserError("no font for 中: install fonts-noto-cjk")

    monkeypatch.setattr("seq2seq.comparison.attention_sample.draw_attention", no_font)
    assert compare_here(*GIVEN) == 0
    reason = "attention maps were left out: no font for 中: install fonts-noto-cjk"
    assert [record.message for record in caplog.records].count(f"the {reason}") == 1
    assert f"\nThe {reason}\n" in (here / "given/report.md").read_text(encoding="utf-8")


def test_two_comparisons_of_other_runs_have_other_folders_also_where_their_names_are_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folders: list[Path] = []
    monkeypatch.setattr(compare, "_report", lambda name, output, rows, sentence: folders.append(output))
    long = "源" * 40
    for last in ("a", "b", "a/../a", "x/a", "x-a"):
        assert compare_here(long, f"{long}2", last) == 0
    assert [folder.parent for folder in folders] == [Path("runs")] * 5
    assert len({folder.name for folder in folders}) == 5
    assert max(len(folder.name.encode()) for folder in folders) <= 255


REFUSALS = [
    (
        ["pair.yaml", *SETS, "--set", "training.max_steps=21"],
        "out/none-s3: was trained with training.max_steps: 20, but",
    ),
    (
        ["pair.yaml", *SETS, "--minutes", "1"],
        "was trained with training.max_minutes: null, but variant none now has 1.0",
    ),
    (["pair.yaml", "--set", "seed=4"], "--set seed=4: give --seeds instead"),
    (["pair.yaml", "--set", "training.max_minutes=4"], "give --minutes instead"),
    (["pair.yaml", "--set", "training={max_minutes: 1}"], "training={max_minutes: 1}: sets training.max_minutes, too"),
    (["pair.yaml", "--set", "training.max_step=4"], "error: --set training.max_step=4: unknown key"),
    (["pair.yaml", "--only", "addition"], "--only addition: no such variant; did you mean additive?"),
    (["pair.yaml", "--seeds", "1,1"], "'1,1' is not a list of different whole numbers such as 1,2,3"),
    (["pair.yaml", "--minutes", "nan"], "'nan' is not a number of minutes above 0"),
    (["none.yaml"], "none.yaml: no such config file"),
    (["out/none-s3"], "give the YAML of a comparison, or two or more different run directories"),
    (["out/none-s3", "out/../out/none-s3"], "two or more different run directories"),
    (["out/none-s3", "pair.yaml"], "pair.yaml: is no run directory; the YAML of a comparison stands alone"),
    (["out/none-s3", "out/additive-s3", "--seeds", "1"], "--seeds: goes with the YAML of a comparison"),
    (["out/none-s3", "{other}/running"], "running: training is not finished"),
    (["out/none-s3", "{other}/test"], "test: its test set is not that of out/none-s3"),
    (["out/none-s3", "{other}/metrics"], "metrics.jsonl, line 2: minutes is missing; the run is damaged"),
]


@pytest.fixture(scope="module")
def other(compared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs that cannot be compared: one not finished, one with another test set, one damaged."""
    folder = tmp_path_factory.mktemp("other")
    for name in ("running", "test", "metrics"):
        shutil.copytree(compared / "out/additive-s3", folder / name)
    RunDirectory(folder / "running").write_info(status="running")
    test = RunDirectory(folder / "test").files
    test.write("test.tsv", "123\t321\n" + test.read("test.tsv"))
    metrics = folder / "metrics/metrics.jsonl"
    lines = metrics.read_text(encoding="utf-8").splitlines()
    metrics.write_text("\n".join([lines[0], '{"dev_bleu": 1.0, "step": 20, "epoch": 1}']) + "\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize(("line", "message"), REFUSALS, ids=[" ".join(line)[-60:] for line, _ in REFUSALS])
def test_what_cannot_be_compared_is_refused_in_one_line(
    line: list[str], message: str, here: Path, other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = times(here / "out")
    try:
        status = cli.run(
            compare.arguments(),
            compare.main,
            [*(part.replace("{other}", str(other)) for part in line), "--output", "out"],
        )
    except SystemExit as error:
        status = int(str(error.code))
    printed = capsys.readouterr()
    assert status == 2
    assert printed.out == ""
    assert message in printed.err.splitlines()[-1]
    assert times(here / "out") == before


@pytest.mark.parametrize("line", [["pair.yaml", *SETS], GIVEN[:2]], ids=["yaml", "runs"])
@pytest.mark.parametrize(
    ("output", "file"), [("file", "file"), ("file/in/it", "file"), ("folder", "folder/translations")]
)
def test_an_output_that_cannot_be_is_told_before_anything_is_trained_or_translated(
    line: list[str], output: str, file: str, here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("mine", encoding="utf-8")
    before = sorted(tmp_path.rglob("*"))
    assert compare_here(*line, "--output", tmp_path / output) == 2
    message = f"error: --output {tmp_path / output}: {tmp_path / file} is a file, not a folder; name another folder\n"
    assert capsys.readouterr().err.endswith(message)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.skipif(os.name != "posix", reason="needs process groups")
def test_ctrl_c_stops_the_training_saved_and_says_how_to_go_on(compared: Path, tmp_path: Path) -> None:
    sets = ["--set", "training.max_steps=100000", "--set", "training.validate_every=5"]
    line = [sys.executable, "-m", "seq2seq.compare", str(compared / "pair.yaml"), "--only", "additive", *sets]
    process = subprocess.Popen(
        [*line, "--output", "out"], cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "PATH": ""},
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    while not (tmp_path / "out/additive-s3/last.safetensors").exists() and process.poll() is None:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert stdout == b""
    last = stderr.decode().strip().splitlines()[-1]
    again = shlex.split(last.partition("go on with: ")[2])
    assert again[1:] == [*line[1:], "--output", "out"]
    assert RunDirectory(tmp_path / "out/additive-s3").info()["status"] == "running"
    assert "Traceback" not in stderr.decode()
