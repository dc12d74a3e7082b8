"""Normalisation and the filters."""

import unicodedata
from itertools import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.config.schema import Cleaning
from seq2seq.data.cleaning import CleaningReport, normalize, one_line
from seq2seq.data.corpus import Pair
from seq2seq.data.workers import PIECE
from tests.data.cleaned import clean

OFF = Cleaning(normalize=False, drop_empty=False, max_characters=None, max_ratio=None, drop_duplicates=False)

# Where the rules meet: joiners, pictures, shaped letters, marks that NFC reorders, blanks, tags, surrogates.
AWKWARD = (
    "a e\u0301\u0323\u094d\u093c\u0915\u0924\u0645\u06cc\u200c\u200d\u200b\u200e\ufeff\t\r\n\x00\x1c\x85\xa0\u2028"
    "\u3000👩💻❤\ufe0f🏽🏴\U000e0067\U000e007f\ud800가\u1100\u1161\u0f71\u0f74\u0344\u212b\xad"
)


def with_switch(**rule: object) -> Cleaning:
    return Cleaning.model_validate(OFF.model_dump() | rule)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("\ufeff你\ufeff好\u200b。", "你好。"),
        ("a\rb\u0085c\u2028d\u2029e\tf\r\ng", "a b c d e f g"),
        ("  a \u00a0\u3000 b\u2003", "a b"),
        ("be\u0301be\u0301", "b\u00e9b\u00e9"),
        ("a\x00b\x07c\x1fd\x7fe\x9bf", "abcdef"),
        ("soft\u00adhyphen \u202aleft\u202c \u2066x\u2069", "softhyphen left x"),
        ("a\ud83dlone\udc00", "alone"),
        ("\u4f60\u200d\u597d a\u200cb\u200d", "你好 ab"),
        ("a\U000e0061\U000e007f", "a"),
        ("\u200d\u200c", ""),
        ("１２ＡＢ…", "１２ＡＢ…"),
    ],
)
def test_what_cannot_be_seen_goes_and_the_rest_stays(raw: str, expected: str) -> None:
    assert normalize(raw) == expected


@pytest.mark.parametrize(
    "text",
    [
        "👩\u200d💻 👨\u200d👩\u200d👧 ❤\ufe0f\u200d🔥 👩🏽\u200d🚀 🏳\ufe0f\u200d🌈 🏃\u200d♀\ufe0f",
        "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
        "می\u200cخواهم",
        "क्\u200dष क्\u200d र\u200d्य",
        "ශ්\u200dරී",
        "ന്\u200d",
    ],
)
def test_joiners_stay_where_they_change_what_is_seen(text: str) -> None:
    assert normalize(text) == text


def test_repeated_joiners_become_one() -> None:
    assert normalize("می\u200c\u200c\u200bخواهم") == "می\u200cخواهم"


@given(st.text(st.sampled_from(AWKWARD)) | st.text(st.characters(categories=[*"LMNPSZC"])))
def test_normalising_is_idempotent_and_yields_clean_text(raw: str) -> None:
    text = normalize(raw)
    assert normalize(text) == text
    assert unicodedata.is_normalized("NFC", text)
    assert text == " ".join(text.split())
    assert not [c for c in text if unicodedata.category(c) in ("Cc", "Cs")]
    assert not set(text) & set("\ufeff\u200b\u2060\u2028\u2029")


@given(st.text(st.characters(categories=["L", "N", "P"])))
def test_normalising_keeps_what_is_canonically_the_same(text: str) -> None:
    assert unicodedata.normalize("NFD", normalize(text)) == unicodedata.normalize("NFD", text)


def test_a_rule_that_is_off_drops_nothing_and_changes_nothing() -> None:
    pairs = [Pair("", "x"), Pair("a\u200b", "b" * 9999), Pair("a", "b"), Pair("a", "b")]
    assert clean(pairs, OFF) == (pairs, [0, 1, 2, 3], CleaningReport(read=4, kept=4))


def test_normalising_counts_the_pairs_it_mended() -> None:
    kept, _, report = clean([Pair("a\u200b", "b"), Pair("a", "b")], with_switch(normalize=True))
    assert kept == [("a", "b"), ("a", "b")]
    assert report == CleaningReport(read=2, normalized=1, kept=2)


def test_a_side_that_is_empty_once_normalised_is_dropped() -> None:
    pairs = [Pair("\ufeff ", "x"), Pair("x", ""), Pair("", ""), Pair("a", "b")]
    kept, _, report = clean(pairs, with_switch(normalize=True, drop_empty=True))
    assert (kept, report.empty) == ([("a", "b")], 3)


def test_the_limit_of_characters_is_the_last_length_that_stays() -> None:
    pairs = [Pair("a" * 10, "b"), Pair("a" * 11, "b"), Pair("a", "b" * 11)]
    kept, _, report = clean(pairs, with_switch(max_characters=10))
    assert (kept, report.too_long) == (pairs[:1], 2)


def test_only_whole_pairs_count_as_duplicates_and_the_first_stays() -> None:
    pairs = [Pair("a", "b"), Pair("a", "c"), Pair("d", "b"), Pair("a", "b")]
    kept, _, report = clean(pairs, with_switch(drop_duplicates=True))
    assert (kept, report.duplicates) == (pairs[:3], 1)


@pytest.mark.parametrize("turned", [False, True])
def test_wild_ratios_go_both_ways_and_very_short_pairs_stay(turned: bool) -> None:
    usual = [Pair("字" * n, "x" * 3 * n) for n in range(5, 40)]
    short = [
        Pair("走！", "Let's go!"),
        Pair("嗨", "Hi"),
        Pair("好。", "That sounds like a good idea to me."),
        Pair("我", "I"),
    ]
    wild = [Pair("字" * 60, "Hi."), Pair("好。", "x" * 120)]
    corpus = [Pair(*pair[::-1]) if turned else pair for pair in usual + short + wild]
    kept, rows, report = clean([*corpus[-2:-1], *corpus], with_switch(max_ratio=5.0))
    assert (kept, report.wild_ratio) == (corpus[:-2], 3)
    assert list(rows) == list(range(1, len(corpus) - 1))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("a\tb\r", "a b "),
        ("\r\n", "  "),
        ("\ufeff\ufeffa\ufeff", "a\ufeff"),
        ("a\u2028b\u0085\x0bc", "a\u2028b\u0085\x0bc"),
    ],
)
def test_text_that_is_not_normalised_is_still_put_into_one_column_of_one_line(raw: str, expected: str) -> None:
    assert one_line(raw) == expected
    assert clean([Pair(raw, "x"), Pair("x", raw)], OFF).pairs == [Pair(expected, "x"), Pair("x", expected)]


def test_a_side_of_nothing_but_line_ends_is_empty() -> None:
    kept, rows, report = clean([Pair("\r", "x"), Pair("\ufeff", "x"), Pair("a", "b")], with_switch(drop_empty=True))
    assert (kept, list(rows), report.empty, report.normalized) == ([("a", "b")], [2], 2, 0)


def test_empty_sides_that_may_stay_are_not_wild() -> None:
    pairs = [Pair("字" * 50, "x" * 150), Pair("字" * 50, ""), Pair("", "")]
    assert clean(pairs, with_switch(max_ratio=2.0))[0] == pairs


def test_nothing_in_gives_nothing_out() -> None:
    assert clean([], Cleaning()) == ([], [], CleaningReport())


@given(st.lists(st.tuples(st.text("ab \u200b", max_size=3), st.text("ab", max_size=20)).map(lambda t: Pair(*t))))
def test_every_pair_is_either_kept_or_counted_once(pairs: list[Pair]) -> None:
    kept, rows, report = clean(pairs, Cleaning(max_characters=15, max_ratio=1.5))
    assert [Pair(normalize(pairs[row].source), normalize(pairs[row].target)) for row in rows] == kept
    assert list(rows) == sorted(set(rows))
    dropped = report.empty + report.too_long + report.duplicates + report.wild_ratio
    assert (report.read, report.kept) == (len(pairs), len(kept))
    assert dropped + report.kept == report.read
    assert len(set(kept)) == len(kept)


def plainly(pairs: list[Pair], max_ratio: float) -> list[int]:
    """Rows without duplicates and wild ratios, from the words of the documentation."""
    first = [row for row, pair in enumerate(pairs) if pair not in pairs[:row]]
    ratios = {row: (len(pairs[row].target) + 5) / (len(pairs[row].source) + 5) for row in first if all(pairs[row])}
    ranked = sorted(ratios.values())
    middle = len(ranked) // 2
    median = 0.0 if not ranked else ranked[middle] if len(ranked) % 2 else (ranked[middle - 1] + ranked[middle]) / 2
    return [row for row in first if row not in ratios or median / max_ratio <= ratios[row] <= median * max_ratio]


@given(st.lists(st.builds(Pair, st.text("ab", max_size=9), st.text("ab", max_size=9)), max_size=40))
def test_duplicates_and_wild_ratios_are_those_of_a_plain_loop(pairs: list[Pair]) -> None:
    rules = with_switch(drop_duplicates=True, max_ratio=1.3)
    assert clean(pairs, rules).rows == plainly(pairs, 1.3)


def test_pieces_of_a_corpus_are_cleaned_as_one() -> None:
    pairs = [Pair(f"a{n}\u200b", f"b{n}") for n in range(PIECE)]
    kept, rows, report = clean([*pairs, Pair("", "x"), pairs[7], *repeat(Pair("new", "er"), 2)], Cleaning())
    assert kept[-2:] == [Pair(f"a{PIECE - 1}", f"b{PIECE - 1}"), Pair("new", "er")]
    assert rows == [*range(PIECE), PIECE + 2]
    assert report == CleaningReport(read=PIECE + 4, normalized=PIECE + 1, empty=1, duplicates=2, kept=PIECE + 1)


def test_the_report_names_every_count_in_one_line() -> None:
    line = str(CleaningReport(1234, 11, 12, 13, 14, 15, 16))
    assert "\n" not in line
    assert [n for n in ("1,234", "11", "12", "13", "14", "15", "16") if n not in line] == []
