"""Figures of a training come from the run's files; a damaged file is one line that names it."""

import json
from pathlib import Path
from typing import Any

import pytest

from seq2seq.checkpoint import RunDirectory
from seq2seq.comparison.training_figures import TrainingFigures, training_figures
from seq2seq.errors import UserError

LINES: list[dict[str, Any]] = [
    {"step": 10, "epoch": 1, "minutes": 0.5, "tokens_per_second": 900.0, "dev_bleu": 1.5, "dev_perplexity": 99.0},
    {"step": 20, "epoch": 1, "minutes": 1.0, "tokens_per_second": 1000.0, "dev_bleu": 2.5},
    {"step": 25, "epoch": 2, "minutes": 1.25, "tokens_per_second": 100.0, "dev_bleu": 2.0},
]


def run(folder: Path, lines: list[str], report: str = '{"perplexity": 12.5}') -> RunDirectory:
    """A folder with the two files that hold figures."""
    (folder / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (folder / "report.json").write_text(report, encoding="utf-8")
    return RunDirectory(folder)


def test_the_end_is_that_of_the_last_validation_and_the_speed_is_the_median(tmp_path: Path) -> None:
    assert training_figures(run(tmp_path, [json.dumps(line) for line in LINES])) == TrainingFigures(
        perplexity=12.5,
        tokens_per_second=900.0,
        updates=25,
        epoch=2,
        minutes=1.25,
        dev_curve=[(0.5, 1.5), (1.0, 2.5), (1.25, 2.0)],
    )


@pytest.mark.parametrize("key", ["step", "epoch", "minutes", "tokens_per_second"])
@pytest.mark.parametrize(
    ("value", "message"), [("x", "is 'x', not a number"), (None, "is None, not"), (float("nan"), "is nan, not")]
)
def test_a_figure_that_is_no_number_names_file_line_and_key(
    key: str, value: object, message: str, tmp_path: Path
) -> None:
    lines = [json.dumps(line) for line in (LINES[0], LINES[1] | {key: value})]
    with pytest.raises(UserError) as caught:
        training_figures(run(tmp_path, lines))
    assert str(caught.value).startswith(f"{tmp_path / 'metrics.jsonl'}, line 2: {key} {message}")


@pytest.mark.parametrize("key", ["step", "epoch", "minutes", "tokens_per_second"])
def test_a_figure_that_is_missing_names_file_line_and_key(key: str, tmp_path: Path) -> None:
    short = {name: value for name, value in LINES[0].items() if name != key}
    with pytest.raises(UserError) as caught:
        training_figures(run(tmp_path, [json.dumps(short)]))
    assert str(caught.value).startswith(f"{tmp_path / 'metrics.jsonl'}, line 1: {key} is missing; the run is damaged")


@pytest.mark.parametrize(
    ("lines", "where"),
    [
        (["{"], "metrics.jsonl, line 1: "),
        ([json.dumps(LINES[0]), ""], "metrics.jsonl, line 2: "),
        (["5"], "metrics.jsonl, line 1: holds no JSON object"),
        (['["dev_bleu"]'], "metrics.jsonl, line 1: holds no JSON object"),
        ([], "metrics.jsonl: holds no validation"),
        (['{"step": 1}'], "metrics.jsonl: holds no validation"),
    ],
)
def test_lines_that_are_no_reports_are_told_in_one_line(lines: list[str], where: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        training_figures(run(tmp_path, lines))
    assert str(caught.value).startswith(str(tmp_path / where))
    assert "the run is damaged" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("report", "message"),
    [("{}", "perplexity is missing"), ('{"perplexity": "x"}', "perplexity is 'x', not a number"), ("[]", "holds no")],
)
def test_a_report_without_perplexity_is_told_in_one_line(report: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        training_figures(run(tmp_path, [json.dumps(LINES[0])], report))
    assert str(caught.value).startswith(f"{tmp_path / 'report.json'}: {message}")
