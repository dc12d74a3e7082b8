"""The heatmap in a terminal: what is where, whatever the widths."""

import io
import re
import unicodedata

import pytest

from seq2seq.plotting.terminal import SHADES, attention_lines, takes_colour

SOURCE, TARGET = ["我们", "a", "▁", "é\u0301，"], ["▁H", "e", "，"]
WEIGHTS = [[0.9, 0.1, 0.0, 0.0], [0.0, 0.5, 0.25, 0.25], [0.0, 0.0, 0.3, 0.7]]


def columns_of(text: str) -> list[str]:
    """The character in each column of a terminal, "" in the second one of a wide one (UAX #11)."""
    found: list[str] = []
    for character in text:
        if unicodedata.combining(character):
            found[-1] += character
        else:
            found += [character, ""] if unicodedata.east_asian_width(character) in "WF" else [character]
    return found


def test_it_looks_as_it_should() -> None:
    assert attention_lines(SOURCE, TARGET, WEIGHTS) == [
        "   我    é\u0301",
        "   们a ␣ ，",
        " H ██       我们 0.90",
        "-e   ▒▒░░░░ a 0.50",
        "，     ░░▓▓ é\u0301， 0.70",
    ]


def test_cells_stand_below_their_names_and_rows_beside_theirs() -> None:
    source = ["我", "x", "，", "ｗ", "🙂", "~"]
    target = ["我们", "abc", "字x"]
    for row in range(len(target)):
        for column in range(len(source)):
            weights = [[float((r, c) == (row, column)) for c in range(len(source))] for r in range(len(target))]
            header, *rows = attention_lines(source, target, weights)
            assert [SHADES[-1] in line for line in rows] == [r == row for r in range(len(target))]
            cells = columns_of(rows[row])
            start = cells.index(SHADES[-1])
            assert cells[start : start + 2] == [SHADES[-1]] * 2
            assert columns_of(header)[start] == source[column]
            assert "".join(cells[:start]).strip() == target[row]


def test_a_row_ends_in_its_strongest_source_token() -> None:
    assert attention_lines(["a", "b"], ["x"], [[0.25, 0.75]])[-1].endswith(" b 0.75")


def test_the_shade_grows_with_the_weight() -> None:
    weights = [step / 100 for step in range(101)]
    shown = [SHADES.index(attention_lines(["a"], ["x"], [[weight]])[-1][2]) for weight in weights]
    assert shown == sorted(shown)
    assert set(shown) == set(range(len(SHADES)))


def test_colour_adds_nothing_but_escapes() -> None:
    coloured = attention_lines(SOURCE, TARGET, WEIGHTS, colour=True)
    assert any("\x1b[" in line for line in coloured)
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in coloured] == attention_lines(SOURCE, TARGET, WEIGHTS)


@pytest.mark.parametrize("weights", [[], [[1.0]], [[0.5, 0.5], [1.0]], [[0.5, 0.5]] * 3])
def test_weights_that_do_not_fit_are_refused(weights: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="zip"):
        attention_lines(["a", "b"], ["x", "y"], weights)


@pytest.mark.parametrize(
    ("terminal", "environment", "colour"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_only_a_terminal_is_given_colours(
    terminal: bool, environment: dict[str, str], colour: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ({"NO_COLOR": "", "TERM": "xterm", "WT_SESSION": "1"} | environment).items():
        monkeypatch.setenv(name, value)
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    assert takes_colour(stream) is colour
