"""Line charts are small, name every variant, and come out the same again."""

import warnings
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from seq2seq.errors import UserError
from seq2seq.plotting.curves import draw_bleu_by_length, draw_learning_curves
from seq2seq.plotting.fonts import families_for
from seq2seq.plotting.style import strokes

NAMES = [f"variant{n}" for n in range(16)]
CURVES = {
    name: [[(minute, 20 * (1 - 0.7**minute) + index / 3 + seed) for minute in range(1, 25)] for seed in range(2)]
    for index, name in enumerate(NAMES)
}
BUCKETS = ["3-5", "6", "7-20"]
BY_LENGTH: dict[str, list[float | None]] = {name: [20.0 + n, 18.0, 15.0 - n] for n, name in enumerate(NAMES)}


def draw(path: Path, chart: str) -> Path:
    """One of the two charts, of sixteen variants."""
    if chart == "curves":
        draw_learning_curves(path, CURVES)
    else:
        draw_bleu_by_length(path, BUCKETS, BY_LENGTH)
    return path


@pytest.mark.parametrize("chart", ["curves", "length"])
def test_a_png_is_a_picture_of_less_than_100_kilobytes(chart: str, tmp_path: Path) -> None:
    path = draw(tmp_path / "new" / "chart.png", chart)
    assert path.stat().st_size < 100_000
    pixels = matplotlib.image.imread(path)
    assert pixels.shape[1] > pixels.shape[0] > 300
    assert len(np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0)) > 16


@pytest.mark.parametrize("chart", ["curves", "length"])
def test_an_svg_names_each_variant_once_and_comes_out_the_same_again(chart: str, tmp_path: Path) -> None:
    text = draw(tmp_path / "chart.svg", chart).read_text(encoding="utf-8")
    assert [text.count(f"{name}</text>") for name in NAMES] == [1] * len(NAMES)
    assert len(text.encode()) < 100_000
    assert draw(tmp_path / "again.svg", chart).read_text(encoding="utf-8") == text


def test_names_that_mean_something_to_matplotlib_are_shown_as_they_are(tmp_path: Path) -> None:
    draw_bleu_by_length(tmp_path / "x.svg", ["1", "2"], {"_hidden": [1, 2], "a$b$c": [None, 3]})
    text = (tmp_path / "x.svg").read_text(encoding="utf-8")
    assert "_hidden</text>" in text and "a$b$c</text>" in text


def test_forty_lines_are_drawn_in_forty_ways() -> None:
    assert len(set(strokes(40))) == 40
    assert strokes(45)[40:] == strokes(5)


def test_a_folder_that_cannot_be_made_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UserError, match="cannot be written"):
        draw(tmp_path / "file" / "chart.png", "curves")


def test_a_name_in_another_script_is_drawn_with_a_font_that_has_it(tmp_path: Path) -> None:
    try:
        families_for("模型")
    except UserError as error:
        pytest.skip(f"no Chinese font here: {error}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib warns of a glyph that it draws as an empty box
        draw_learning_curves(tmp_path / "curves.png", {"模型": [[(1.0, 2.0), (2.0, 3.0)]]})


@pytest.mark.parametrize("chart", ["curves", "length"])
def test_no_line_of_an_svg_ends_in_blanks(chart: str, tmp_path: Path) -> None:
    text = draw(tmp_path / "chart.svg", chart).read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if line != line.rstrip()] == []
