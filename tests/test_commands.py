"""The commands as a user types them: what they print, where, and with which exit status."""

import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sacrebleu

from seq2seq import cli, evaluate, train, translate
from seq2seq.errors import UserError
from tests.helpers import ROOT, command


def test_training_reports_on_test_beside_two_baselines_and_names_the_run(home: Path) -> None:
    report = (home / "stdout.txt").read_text(encoding="utf-8")
    for part in ("BLEU", "chrF", "copy", "source copied", "nrefs:1|case:mixed", "run directory: runs/tiny"):
        assert part in report
    assert json.loads((home / "runs/tiny/report.json").read_text(encoding="utf-8"))["sentences"] == 100
    assert json.loads((home / "runs/tiny/run.json").read_text(encoding="utf-8"))["status"] == "finished"


def test_metrics_are_one_json_object_a_line(home: Path) -> None:
    lines = [json.loads(line) for line in (home / "runs/tiny/metrics.jsonl").read_text("utf-8").splitlines()]
    assert lines[-1]["step"] == 40
    assert {"loss", "learning_rate", "dev_bleu", "dev_perplexity", "tokens_per_second"} <= lines[-1].keys()


def test_translate_prints_the_translation_and_nothing_else(home: Path) -> None:
    done = command("translate", "123", "4567", cwd=home)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 2


def test_translate_reads_a_file_and_gives_a_line_for_each_line(home: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(b"\xef\xbb\xbf123\n\n456\r\n   \n789\xe2\x80\xa80")
    done = command("translate", "--input", tmp_path / "in.txt", "--output", tmp_path / "out.txt", cwd=home)
    assert (done.returncode, done.stdout) == (0, "")
    lines = (tmp_path / "out.txt").read_text(encoding="utf-8").split("\n")
    assert [bool(line) for line in lines] == [True, False, True, False, True, False]


def test_translate_reads_stdin_and_agrees_with_the_arguments(home: Path) -> None:
    piped = command("translate", "--input", "-", cwd=home, input="123\n\n4567\n")
    typed = command("translate", "123", "", "4567", cwd=home)
    assert piped.stdout == typed.stdout


def test_translate_json_has_text_score_tokens_and_attention(home: Path) -> None:
    done = command("translate", "--json", "--beam", "2", "12345", "", cwd=home)
    found, empty = map(json.loads, done.stdout.splitlines())
    assert found["source_tokens"] == ["1", "2", "3", "4", "5", "</s>"]
    assert len(found["attention"]) == len(found["target_tokens"])
    assert found["score"] < 0
    assert empty == {"text": "", "score": 0.0, "source_tokens": [], "target_tokens": [], "attention": []}


def test_a_reader_that_goes_away_ends_translate_quietly(home: Path) -> None:
    line = f"{sys.executable} -m seq2seq.translate --input - | head -1"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; yes 123 | head -5000 | {line}"],
        cwd=home, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


def test_evaluate_scores_as_sacrebleu_does(home: Path, tmp_path: Path) -> None:
    done = command("evaluate", "--model", "runs/tiny", "--json", tmp_path / "report.json", "--beam", 1, cwd=home)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    pairs = [line.split("\t") for line in (home / "runs/tiny/test.tsv").read_text("utf-8").splitlines()]
    translated = command("translate", "--beam", 1, "--input", "-", cwd=home, input="".join(f"{s}\n" for s, _ in pairs))
    expected = sacrebleu.corpus_bleu(translated.stdout.splitlines(), [[t for _, t in pairs]])
    assert report["model"]["bleu"] == pytest.approx(expected.score)
    assert report["beam"] == 1
    assert len(report["samples"]) == 5


def test_evaluate_takes_dev_and_any_file(home: Path, digits: Path) -> None:
    for data in ("dev", digits / "dev.tsv"):
        done = command("evaluate", "--data", data, cwd=home)
        assert done.returncode == 0, done.stderr
        assert f"{data}: 100 sentences" in done.stdout


def test_evaluate_says_so_when_a_model_does_not_beat_the_copy_baseline(home: Path) -> None:
    # After 40 updates the model has learned next to nothing; copying the nearest string does better.
    done = command("evaluate", cwd=home)
    assert "does not beat the copy baseline" in done.stdout


def test_evaluate_works_without_the_training_text_and_says_what_is_missing(home: Path, tmp_path: Path) -> None:
    done = command("evaluate", "--model", home / "runs/tiny", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "no copy baseline: the training text the run was prepared from is not here" in done.stdout


@pytest.fixture(scope="module")
def bad(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of files that nobody can train on or load."""
    folder = tmp_path_factory.mktemp("bad")
    (folder / "no-tab.tsv").write_text("a\tb\nno tab\n", encoding="utf-8")
    (folder / "latin.tsv").write_bytes(b"caf\xe9\tcoffee\n")
    (folder / "two").write_text("a\nb\n", encoding="utf-8")
    (folder / "three").write_text("a\nb\nc\n", encoding="utf-8")
    (folder / "empty").write_text("\n", encoding="utf-8")
    shutil.copytree(home / "runs/tiny", folder / "run")
    for path in (folder / "run").glob("[lp]*.safetensors"):
        path.unlink()  # what else could be used instead
    (folder / "run/best.safetensors").write_bytes(b"x" * 100)
    return folder


USER_ERRORS = [
    (["translate"], "nothing to translate: give TEXT, or --input FILE (- is stdin)"),
    (["translate", "a", "--input", "b"], "give either TEXT or --input, not both"),
    (["translate", "a", "--beam", "0"], "'0' is not a whole number from 1 to 1000"),
    (["translate", "a", "--beam", "1000000"], "'1000000' is not a whole number from 1 to 1000"),
    (["translate", "a", "--output", ""], "--output is empty; name a file"),
    (["translate", "a", "--input", ""], "--input is empty; name a file"),
    (["translate", "a", "--output", "stdout.txt/x"], "stdout.txt is a file, not a folder"),
    (["translate", "a", "--output", "."], "is a folder, not a file; name a file to write"),
    (["translate", "a", "--model", "nowhere"], "nowhere: no run directory"),
    (["translate", "--input", "none.txt"], "none.txt: no such file"),
    (["translate", "--input", "."], "is a folder, not a file"),
    (["translate", "a", "--device", "cuda:99"], "device cuda:99: this machine has none; use device: auto"),
    (["translate", "a", "--device", "abacus"], "device abacus: unknown"),
    (["evaluate", "--data", "none.tsv"], "none.tsv"),
    (["evaluate", "--data", ""], "--data is empty; name a file"),
    (["evaluate", "--model", "nowhere"], "nowhere: no run directory"),
    (["evaluate", "--json", ""], "--json is empty; name a file"),
    (["evaluate", "--json", "."], "is a folder, not a file; name a file to write"),
    (["evaluate", "--json", "stdout.txt/deep/x"], "stdout.txt is a file, not a folder"),
    (["evaluate", "--gold-base", "1"], "--gold-base says what --gold counts from; add --gold FILE or leave it out"),
    (["evaluate", "--gold-base", "0"], "add --gold FILE or leave it out"),
    (["train", "none.yaml"], "none.yaml: no such config file"),
    (["train", "{yaml}", "--set", "training.max_step=3"], "did you mean max_steps?"),
    (["train", "{yaml}", "--set", "data.train=none.tsv"], "none.tsv"),
    (["train", "{yaml}", "--set", "device=cuda:99"], "device cuda:99: this machine has none"),
    (["train", "{yaml}", "--run", "runs/tiny"], "runs/tiny: exists already; add --resume"),
    (["train", "{yaml}", "--run", "runs/tiny", "--resume"], "runs/tiny: finished already"),
    (["train", "{yaml}", "--resume"], "--resume: no unfinished run"),
    (["train", "{yaml}", "--run", "runs/none", "--resume"], "runs/none: no run directory"),
    (["train", "{yaml}", "--run", "stdout.txt/x"], "stdout.txt: is a file, so stdout.txt/x cannot be a run directory"),
    (["train", "{yaml}", "--set", "data.train={bad}/no-tab.tsv"], "no-tab.tsv, line 2: "),
    (["train", "{yaml}", "--set", "data.train={bad}/latin.tsv"], "latin.tsv, line 1: not valid UTF-8"),
    (["train", "{yaml}", "--set", "data.train={{source: {bad}/two, target: {bad}/three}}"], "2 lines"),
    (["train", "{yaml}", "--set", "data.train={bad}/empty"], "holds no sentence pair"),
    (["translate", "a", "--model", "{bad}/run"], "best.safetensors: damaged"),
    (["config", "--output", "stdout.txt/x"], "stdout.txt/x"),
    (["config", "--nonsense"], "unrecognized arguments: --nonsense"),
]


@pytest.mark.parametrize(("line", "message"), USER_ERRORS, ids=[" ".join(line) for line, _ in USER_ERRORS])
def test_a_user_error_is_one_line_and_status_two(
    line: list[str], message: str, home: Path, digits: Path, bad: Path
) -> None:
    done = command(*(part.format(yaml=digits / "digits.yaml", bad=bad) for part in line), cwd=home)
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_debug_shows_the_traceback(home: Path) -> None:
    assert "Traceback" in command("translate", "a", "--model", "nowhere", "--debug", cwd=home).stderr


def test_without_a_run_translate_says_to_train_one(tmp_path: Path) -> None:
    done = command("translate", "欢迎来北京", cwd=tmp_path)
    assert done.returncode == 2
    assert "make train" in done.stderr and len(done.stderr.splitlines()) == 1


def test_invalid_utf8_is_refused_with_file_and_line(home: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(b"123\n4\xff6\n")
    done = command("translate", "--input", tmp_path / "in.txt", "--output", tmp_path / "out.txt", cwd=home)
    assert done.returncode == 2
    assert "in.txt, line 2: not valid UTF-8" in done.stderr
    assert not (tmp_path / "out.txt").exists(), "no half of an output"


def test_a_missing_package_says_which_environment_to_use(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(arguments: object) -> None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    assert cli.run(cli.parser("translate", ""), main, []) == 2
    assert ". .venv/bin/activate" in capsys.readouterr().err


@pytest.mark.parametrize("module", ["train", "evaluate", "translate", "config", "compare", "lesson"])
def test_help_is_quick_and_complete(module: str, tmp_path: Path) -> None:
    run = f"runpy.run_module('seq2seq.{module}', run_name='__main__')"
    code = f"import runpy, sys\nsys.argv = ['x', '--help']\ntry: {run}\nfinally: print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}
    )
    assert f"usage: python -m seq2seq.{module}" in done.stdout
    assert done.stdout.rstrip().endswith("False"), "torch is not imported to show help"


@pytest.mark.parametrize("line", [["translate", "a", "--output"], ["evaluate", "--json"]])
def test_a_place_that_takes_no_output_is_refused_before_a_model_is_looked_for(line: list[str], home: Path) -> None:
    done = command(*line, ".", "--model", "nowhere", cwd=home)
    assert "is a folder" in done.stderr
    assert "nowhere" not in done.stderr


def test_evaluate_prints_its_report_even_where_the_json_fails_at_last(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise UserError("disk full")

    monkeypatch.chdir(home)
    monkeypatch.setattr("seq2seq.data.files.write_text", fail)
    assert cli.run(evaluate.arguments(), evaluate.main, ["--json", str(tmp_path / "r.json"), "--beam", "1"]) == 2
    shown = capsys.readouterr()
    assert "chrF" in shown.out and "disk full" in shown.err


def test_evaluate_writes_the_json_even_where_the_reader_of_its_report_has_gone(home: Path, tmp_path: Path) -> None:
    line = f"{sys.executable} -u -m seq2seq.evaluate --beam 1 --json {tmp_path}/new/r.json | true"
    done = subprocess.run(
        ["bash", "-c", line], cwd=home, env={"PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True, timeout=120
    )
    assert done.stderr == ""
    assert json.loads((tmp_path / "new/r.json").read_text("utf-8"))["sentences"] == 100


def test_a_closed_stdout_is_no_crash(home: Path) -> None:
    line = f"{sys.executable} -m seq2seq.translate 123 >&-"
    done = subprocess.run(
        ["bash", "-c", line], cwd=home, env={"PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_stdin_is_decoded_as_utf8_whatever_the_locale(home: Path) -> None:
    done = command("translate", "--input", "-", cwd=home, input="１２３\n", env={"LC_ALL": "C", "PYTHONUTF8": "0"})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == command("translate", "123", cwd=home).stdout, "full-width digits are digits"


def test_translate_streams_in_chunks(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    monkeypatch.setattr(translate, "CHUNK", 2)
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stdout", shown)
    assert cli.run(translate.arguments(), translate.main, ["1", "2", "", "4", "5"]) == 0
    assert shown.getvalue().count("\n") == 5


def test_train_has_the_arguments_the_readme_names() -> None:
    parsed = train.arguments().parse_args(["c.yaml", "--set", "a=1", "--set", "b=2", "--run", "r", "--resume"])
    assert (parsed.config, parsed.set, parsed.run, parsed.resume) == ("c.yaml", ["a=1", "b=2"], "r", True)
