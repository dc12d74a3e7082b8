"""Alignment error rate: the formulas, the gold file, and the way from tokens to the units that people align."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from seq2seq.errors import UserError
from seq2seq.evaluation.alignment import AlignmentReport, GoldLinks, read_gold, score_links
from seq2seq.evaluation.units import Link, split_side, token_shares, unit_links
from seq2seq.inference.translator import Translation


def gold(sure: Iterable[Link], possible: Iterable[Link] = ()) -> GoldLinks:
    return GoldLinks(frozenset(sure), frozenset(sure) | frozenset(possible))


def test_a_hand_worked_example() -> None:
    # |A| = 4, |S| = 3, |A ∩ S| = 2, |A ∩ P| = 3: AER = 1 - (2 + 3) / (4 + 3) = 2/7.
    known = gold({(0, 0), (1, 1), (2, 2)}, {(3, 2), (3, 3)})
    scores = score_links([{(0, 0), (1, 1), (3, 3), (0, 3)}], [known])
    assert scores.error_rate == pytest.approx(100 * 2 / 7)
    assert scores.precision == pytest.approx(75)
    assert scores.recall == pytest.approx(100 * 2 / 3)
    assert (scores.links, scores.sure, scores.possible) == (4, 3, 5)


def test_it_agrees_with_a_loop_over_all_links_of_all_sentences() -> None:
    random = np.random.default_rng(1)

    def some(chance: float) -> set[Link]:
        return {(i, j) for i in range(5) for j in range(6) if random.random() < chance}

    links, known = [], []
    for _ in range(20):
        sure = some(0.2)
        links.append(some(0.3))
        known.append(gold(sure, some(0.1)))
    a = s = a_s = a_p = 0
    for found, each in zip(links, known, strict=True):
        for link in ((i, j) for i in range(5) for j in range(6)):
            a += link in found
            s += link in each.sure
            a_s += link in found and link in each.sure
            a_p += link in found and link in each.possible
    scores = score_links(links, known)
    assert scores.error_rate == pytest.approx(100 * (1 - (a_s + a_p) / (a + s)))
    assert scores.precision == pytest.approx(100 * a_p / a)
    assert scores.recall == pytest.approx(100 * a_s / s)


def test_the_ends_of_the_scale() -> None:
    known = [gold({(0, 0), (1, 1)}, {(1, 0)})]
    assert score_links([{(0, 0), (1, 1)}], known).error_rate == 0
    assert score_links([{(0, 0), (1, 1), (1, 0)}], known).error_rate == 0, "a possible link costs nothing"
    assert score_links([{(0, 1)}], known).error_rate == 100
    assert score_links([set()], known).error_rate == 100
    assert score_links([set()], known).precision == 0


def test_without_a_sure_link_or_with_unequal_sentences_nothing_is_scored() -> None:
    with pytest.raises(ValueError, match="no sure link"):
        score_links([{(0, 0)}], [gold((), {(0, 0)})])
    with pytest.raises(ValueError, match="zip"):
        score_links([], [gold({(0, 0)})])


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def test_a_gold_file_has_sure_and_possible_links_in_pharaohs_form(tmp_path: Path) -> None:
    path = write(tmp_path / "gold", "0-0 1?1  2p1\n\n1-0 1?0\n")
    assert read_gold(path, [(3, 2), (1, 1), (2, 1)]) == [gold({(0, 0)}, {(1, 1), (2, 1)}), gold(()), gold({(1, 0)})]


def test_a_gold_file_may_count_from_one(tmp_path: Path) -> None:
    assert read_gold(write(tmp_path / "gold", "1-1 3?2\n"), [(3, 2)], base=1) == [gold({(0, 0)}, {(2, 1)})]


@pytest.mark.parametrize(
    ("text", "base", "message"),
    [
        ("0-0\n", 0, "gold: 1 line for 2 sentence pairs; write"),
        ("0-0\n0-0\n0-0\n", 0, "gold: 3 lines for 2 sentence pairs"),
        ("0-0\n0-0 1:1\n", 0, "gold, line 2: '1:1' is no link"),
        ("0-0\n-1-0\n", 0, "gold, line 2: '-1-0' is no link"),
        ("0-0\n１-0\n", 0, "gold, line 2: '１-0' is no link"),
        ("0-0\n0-0-0\n", 0, "gold, line 2: '0-0-0' is no link"),
        ("3-0\n0-0\n", 0, "gold, line 1: 3-0 has no source unit 3: the sentence has 3, counted from 0; if the file"),
        ("0-0\n0?7\n", 0, "gold, line 2: 0?7 has no target unit 7: the sentence has 2, counted from 0"),
        ("1-1\n1-0\n", 1, "gold, line 2: 1-0 has no target unit 0: the sentence has 2, counted from 1"),
        ("4-1\n1-1\n", 1, "gold, line 1: 4-1 has no source unit 4: the sentence has 3, counted from 1"),
        ("0?0\n\n", 0, "gold: holds no sure link"),
        (None, 0, "gold: no such file"),
    ],
)
def test_a_fault_of_a_gold_file_is_named_with_file_and_line(
    text: str | None, base: int, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "gold"
    if text is not None:
        write(path, text)
    with pytest.raises(UserError) as caught:
        read_gold(path, [(3, 2), (3, 2)], base)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_one_sentence_pair_is_no_plural(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="gold: 2 lines for 1 sentence pair;"):
        read_gold(write(tmp_path / "gold", "0-0\n0-0\n"), [(1, 1)])


@pytest.mark.parametrize("digits", [10, 5000])
@pytest.mark.parametrize("form", ["0-{}", "{}?0"])
def test_an_index_without_end_is_no_link(form: str, digits: int, tmp_path: Path) -> None:
    path = write(tmp_path / "gold", f"0-0\n{form.format('9' * digits)}\n")
    with pytest.raises(UserError, match=r"gold, line 2: '(0-)?9+(\?0|…)?' is no link; write i-j") as caught:
        read_gold(path, [(1, 1), (1, 1)])
    assert len(str(caught.value)) < len(str(path)) + 150


def test_units_are_words_between_blanks() -> None:
    side = split_side(["It's  late .", "", "Go"], "en")
    assert side == ("words", [["It's", "late", "."], [], ["Go"]], ["It's  late .", "", "Go"])


def test_units_of_chinese_without_blanks_are_characters() -> None:
    side = split_side(["我爱你。", "谢谢", "我用 Go", ""], "zh")
    assert side.kind == "characters"
    assert side.units == [["我", "爱", "你", "。"], ["谢", "谢"], ["我", "用", "G", "o"], []]
    assert side.texts == ["我爱你。", "谢谢", "我用 Go", ""]


def test_units_of_segmented_chinese_are_its_words_and_the_model_reads_it_without_blanks() -> None:
    side = split_side(["我 爱 你", "谢谢", "用 Visual Basic 6 写 的"], "zh-Hans")
    assert side.kind == "words"
    assert side.units[2] == ["用", "Visual", "Basic", "6", "写", "的"]
    assert side.texts == ["我爱你", "谢谢", "用Visual Basic 6写的"]


@pytest.mark.parametrize(
    ("tokens", "units", "shares"),
    [
        (["▁Be", "ijing", "▁is", "."], ["Beijing", "is."], [[1, 0], [1, 0], [0, 1], [0, 1]]),
        (["我爱", "你"], ["我", "爱你"], [[0.5, 0.5], [0, 1]]),
        (["a", "▁", "b"], ["a", "b"], [[1, 0], [0, 1], [0, 1]]),
        (["▁a", "▁"], ["a"], [[1], [0]]),
        (["▁(", "8", ")", "..."], ["（８）", "…"], [[1, 0], [1, 0], [1, 0], [0, 1]]),
        (["我", "<unk>", "。"], ["我", "饕餮", "。"], [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
        (["<unk>", "<unk>", "x"], ["饕", "餮", "x"], [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
        (["a", "<unk>"], ["a", "饕", "餮"], [[1, 0, 0], [0, 0.5, 0.5]]),
        (["<unk>"], ["<unk>"], [[1]]),
        (["<unk>", "<unk>", "<unk>"], ["饕", "餮"], [[0, 0], [1, 0], [0, 1]]),
        (
            ["a", "<unk>", "<unk>", "b"],
            ["a", "饕餮", "饕", "b"],
            [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0.5, 0.5, 0], [0] * 3 + [1]],
        ),
        (["a", "▁", "▁", "b"], ["a", "b"], [[1, 0], [0, 1], [0, 1], [0, 1]]),
        (["<unk>", "▁", "<unk>"], ["饕", "餮"], [[1, 0], [0, 1], [0, 1]]),
        (["a", "q", "b"], ["a", "b"], [[1, 0], [0, 0], [0, 1]]),
        (["a"], ["\u200b", "a"], [[0, 1]]),
        ([], ["a"], np.zeros((0, 1))),
        (["a"], [], np.zeros((1, 0))),
    ],
)
def test_each_token_is_shared_among_the_units_it_covers(
    tokens: list[str], units: list[str], shares: list[list[float]]
) -> None:
    np.testing.assert_allclose(token_shares(tokens, units), shares)


def read(source_tokens: list[str], target_tokens: list[str], attention: list[list[float]]) -> Translation:
    return Translation("", 0.0, [*source_tokens, "</s>"], [*target_tokens, "</s>"], attention)


def test_a_target_unit_is_linked_to_the_source_unit_with_most_of_its_attention() -> None:
    # 北京 has 0.3 + 0.3 over its two tokens, more than any one token has.
    attention = [[0.3, 0.3, 0.4, 0.0], [0.0, 0.0, 0.1, 0.9], [0.0, 0.0, 0.0, 1.0]]
    translation = read(["北", "京", "市"], ["▁Bei", "jing"], attention)
    assert unit_links(translation, ["北京", "市"], ["Bei", "jing"]) == {(0, 0), (1, 1)}
    assert unit_links(translation, ["北京", "市"], ["Beijing"]) == {(0, 0)}


def test_what_looks_at_nothing_but_the_end_of_the_source_has_no_link() -> None:
    translation = read(["a"], ["x", "y"], [[0.0, 1.0], [0.5, 0.5], [0.0, 1.0]])
    assert unit_links(translation, ["a"], ["x", "y"]) == {(0, 1)}
    assert translation.alignment() == [(0, 1)]


def test_links_of_units_agree_with_a_plain_loop() -> None:
    random = np.random.default_rng(2)
    weights = random.dirichlet(np.ones(6), size=5)
    translation = read(["a", "b", "c", "d", "e"], ["p", "q", "r", "s"], weights.tolist())
    source, target = [[0, 1], [2], [3, 4]], [[0], [1, 2, 3]]
    expected = set()
    for unit, rows in enumerate(target):
        masses = [sum(weights[row, column] for row in rows for column in columns) for columns in source]
        expected.add((masses.index(max(masses)), unit))
    assert unit_links(translation, ["ab", "c", "de"], ["p", "qrs"]) == expected


def test_the_text_of_a_report_has_every_figure() -> None:
    scores = score_links([{(0, 0), (1, 1), (3, 3), (0, 3)}], [gold({(0, 0), (1, 1), (2, 2)}, {(3, 2), (3, 3)})])
    text = AlignmentReport("gold.tsv", 1, "characters", "words", scores).to_text()
    assert "characters with words: AER 28.6, precision 75.0, recall 66.7" in text
    assert "4 links of attention; gold: 3 sure and 2 more possible links in 1 sentence" in text
    one = score_links([{(0, 0)}], [gold({(0, 0)}, {(1, 1)})])
    text = AlignmentReport("gold.tsv", 2, "words", "words", one).to_text()
    assert text.endswith("\n1 link of attention; gold: 1 sure and 1 more possible link in 2 sentences")
