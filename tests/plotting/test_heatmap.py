"""Pictures of attention as files."""

import sys
import warnings
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.image import imread

from seq2seq.errors import UserError
from seq2seq.plotting.heatmap import check_picture_path, draw_attention

SVG = "{http://www.w3.org/2000/svg}"


def corner(rows: int, columns: int, row: int, column: int) -> list[list[float]]:
    return [[float((r, c) == (row, column)) for c in range(columns)] for r in range(rows)]


@pytest.mark.parametrize(("row", "column"), [(0, 0), (0, 4), (2, 0), (2, 4)])
def test_rows_are_target_tokens_from_the_top_and_columns_source_tokens_from_the_left(
    row: int, column: int, tmp_path: Path
) -> None:
    source, target, path = ["a", "b", "c", "d", "e"], ["x", "y", "z"], tmp_path / "a.png"
    draw_attention(path, source, target, corner(3, 5, row, column))
    pixels = imread(path)[:, :, :3]
    # The darkest blue: the cell, and the top of the scale, which is narrower than any cell.
    dark = (pixels[:, :, 2] > 0.35) & (pixels[:, :, 2] < 0.5) & (pixels[:, :, 0] < 0.1)
    across, down = dark.sum(axis=0), dark.sum(axis=1)
    wide = [index for index, count in enumerate(across) if count > 30]
    high = [index for index, count in enumerate(down) if count > 30]
    assert len(wide) == pytest.approx(0.35 * 150, abs=4)
    assert (sum(wide) / len(wide) > pixels.shape[1] / 2) is (column == 4)
    assert (sum(high) / len(high) > pixels.shape[0] / 2) is (row == 2)


def size_of(path: Path) -> tuple[int, int]:
    height, width, _ = imread(path).shape
    return width, height


def test_a_picture_grows_with_the_sentence_up_to_a_limit(tmp_path: Path) -> None:
    for name, columns in (("short", 4), ("long", 40), ("endless", 600)):
        draw_attention(tmp_path / f"{name}.png", ["a"] * columns, ["x"] * 3, [[1 / columns] * columns] * 3)
    short, long, endless = (size_of(tmp_path / f"{name}.png") for name in ("short", "long", "endless"))
    assert long[0] - short[0] == pytest.approx(36 * 0.35 * 150, abs=40)
    assert long[1] == pytest.approx(short[1], abs=40)
    assert endless[0] < 6500


def test_an_svg_holds_its_letters_as_outlines_and_repeats_to_the_byte(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        draw_attention(tmp_path / name, ["▁a", "▁b"], ["x"], [[0.5, 0.5]], "title")
    tree = ElementTree.fromstring((tmp_path / "a.svg").read_bytes())
    assert not list(tree.iter(f"{SVG}text"))
    assert list(tree.iter(f"{SVG}use"))
    assert [title.text for title in tree.iter(f"{SVG}title")] == ["title"]
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_files_are_small(tmp_path: Path) -> None:
    tokens = ["word"] * 25
    weights = [[0.9 if r == c else 0.1 / 24 for c in range(25)] for r in range(25)]
    for suffix in ("png", "svg", "html"):
        draw_attention(tmp_path / f"a.{suffix}", tokens, tokens, weights)
        assert (tmp_path / f"a.{suffix}").stat().st_size < 100_000


@pytest.mark.parametrize("suffix", ["png", "svg", "html", "PNG", "Svg"])
def test_no_token_is_taken_for_markup_or_a_formula(suffix: str, tmp_path: Path) -> None:
    tokens = ["$x$", r"$\frac{$", "<script>", "a&b", "_^", "\x00", "\\", "$"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_attention(tmp_path / f"a.{suffix}", tokens, tokens, corner(8, 8, 0, 0), r"$\nonsense$ <b>")
    assert (tmp_path / f"a.{suffix}").stat().st_size


def test_a_picture_can_be_drawn_where_attention_has_no_weight_to_be_seen(tmp_path: Path) -> None:
    draw_attention(tmp_path / "a.svg", ["a"] * 200, ["x"], [[1 / 200] * 200])
    draw_attention(tmp_path / "b.png", ["</s>"], ["</s>"], [[1.0]])
    assert {path.name for path in tmp_path.iterdir()} == {"a.svg", "b.png"}


def test_weights_that_do_not_fit_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    for weights in ([], [[1.0]], [[0.5, 0.5], [1.0]]):
        with pytest.raises(ValueError, match="do not fit 2 target and 2 source tokens"):
            draw_attention(tmp_path / "a.png", ["a", "b"], ["x", "y"], weights)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.gif", "a", "a.png.txt", "png", ".png"])
def test_another_suffix_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"\.png, \.svg or \.html"):
        check_picture_path(tmp_path / name)


def test_a_place_where_nothing_can_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(UserError, match="is a file, not a folder"):
        check_picture_path(tmp_path / "file" / "deep" / "a.png")
    with pytest.raises(UserError, match="is a folder, not a file"):
        check_picture_path(tmp_path / "folder.png")
    check_picture_path(tmp_path / "new" / "folder" / "a.png")
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(UserError, match="no permission to write"):
        check_picture_path(tmp_path / "new" / "a.png")
    assert {path.name for path in tmp_path.iterdir()} == {"file", "folder.png"}


def test_a_page_needs_no_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, module, None)
    draw_attention(tmp_path / "a.html", ["谢谢"], ["▁Thanks"], [[1.0]])
    with pytest.raises(ModuleNotFoundError):
        draw_attention(tmp_path / "a.png", ["a"], ["b"], [[1.0]])
