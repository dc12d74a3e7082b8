"""Characters and words: how texts are cut and joined, and which entries a vocabulary takes."""

from collections import Counter

import pytest

from seq2seq.config.schema import Tokenizer
from seq2seq.data.tokenizer import UNK, TextTokenizer, train_tokenizer
from seq2seq.errors import UserError


def words(text: list[str], language: str, **settings: int) -> TextTokenizer:
    return train_tokenizer(text, Tokenizer(kind="words", **settings), language, "target")


def test_a_blank_is_a_character_of_its_own() -> None:
    tokenizer = train_tokenizer(["你 好"], Tokenizer(kind="characters"), "zh", "source")
    assert tokenizer.tokens(tokenizer.encode(" 你  好\t好 ")) == ["你", "▁", "好", "▁", "好"]


def test_chinese_is_cut_into_words() -> None:
    tokenizer = words(["欢迎来北京。"], "zh")
    assert tokenizer.tokens(tokenizer.encode("欢迎来北京。")) == ["欢迎", "来", "北京", "。"]


@pytest.mark.parametrize(
    "text", ["我爱Tom Smith，他说hello world。", "C++ 和 café", "3.5元 OK", "www.x.org/a?b=c", "Tom, Mary和Jim"]
)
def test_joined_chinese_words_keep_the_blanks_between_latin_ones(text: str) -> None:
    tokenizer = words([text], "zh")
    assert UNK not in tokenizer.encode(text)
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "I don't know, Tom said. It's 5 o'clock (really)!",
        'He said: "Go!"',
        "Mr. Smith paid $5.50 & 10% of [x].",
        "School begins at 8:30 a.m.",
        "well-known... ok?",
        "l'homme qu'il a vu",
    ],
)
def test_moses_puts_words_and_punctuation_together_again(text: str) -> None:
    tokenizer = words([text], "en")
    assert UNK not in tokenizer.encode(text)
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_moses_tokens_are_shown_without_its_escapes() -> None:
    tokenizer = words(['I don\'t say "a & b".'], "en")
    assert tokenizer.tokens(tokenizer.encode("don't & \"")) == ["don", "'t", "&", '"']


def test_a_language_whose_words_cannot_be_found_is_refused() -> None:
    with pytest.raises(UserError, match=r"^tokenizer\.target\.kind: words of ja cannot be told apart"):
        words(["東京へようこそ"], "ja")


def test_the_most_frequent_entries_are_kept_and_ties_go_by_code_point() -> None:
    text = ["d d d b c a c b a e"]
    tokenizer = words(text, "en", vocabulary_size=8)
    counts = Counter(text[0].split())
    expected = sorted(counts, key=lambda word: (-counts[word], word))[:4]
    assert tokenizer.tokens(range(4, tokenizer.size)) == expected


@pytest.mark.parametrize("kind", ["characters", "words"])
def test_entries_below_the_minimum_frequency_become_unk(kind: str) -> None:
    wanted = Tokenizer.model_validate({"kind": kind, "min_frequency": 2})
    tokenizer = train_tokenizer(["好 坏", "好 人"], wanted, "zh", "source")
    assert set(tokenizer.tokens(range(4, tokenizer.size))) == {"好", "▁"}
    assert tokenizer.encode("好人") in ([tokenizer.encode("好")[0], UNK], [UNK])


def test_words_given_to_jieba_elsewhere_change_nothing() -> None:
    import jieba

    text = "欢迎来北京"
    before = words([text], "zh").tokens(words([text], "zh").encode(text))
    jieba.add_word("来北京", freq=10**9)
    try:
        assert jieba.lcut(text) != before
        after = words([text], "zh")
        assert after.tokens(after.encode(text)) == before
    finally:
        jieba.del_word("来北京")
