"""Tokens as a reader wants to see them."""

import pytest

from seq2seq.plotting.labels import display_width, labels


@pytest.mark.parametrize(
    ("tokens", "shown"),
    [
        (["▁He", "▁works", "▁in", "▁Be", "ijing", ".", "</s>"], ["He", "works", "in", "Be", "-ijing", ".", "</s>"]),
        (["▁I", "'", "m", "▁8", "30"], ["I", "'", "m", "8", "-30"]),
        (["我", "用", "▁P", "y", "▁", "3"], ["我", "用", "P", "y", "␣", "3"]),
        (["a", "▁", "b"], ["a", "␣", "b"]),
        (["New▁York", "▁"], ["New␣York", "␣"]),
        (["▁", "<unk>", ""], ["␣", "<unk>", "␣"]),
        (["\x1b[31m", "\ud800", "a\u2028b"], ["\ufffd[31m", "\ufffd", "a\ufffdb"]),
        ([], []),
    ],
)
def test_a_label_is_plain_text(tokens: list[str], shown: list[str]) -> None:
    assert labels(tokens) == shown


@pytest.mark.parametrize(
    ("text", "columns"), [("abc", 3), ("我们", 4), ("ａ，", 4), ("e\u0301", 1), ("ไม่", 2), ("ｶﾅ", 2), ("", 0)]
)
def test_wide_characters_take_two_columns_and_combining_ones_none(text: str, columns: int) -> None:
    assert display_width(text) == columns
