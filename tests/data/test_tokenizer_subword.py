"""Subwords: nothing is dropped from training, and Chinese is covered."""

import pytest
from hsk_sentences_audio import load_sentences

from seq2seq.config.schema import Tokenizer, TokenizerKind
from seq2seq.data.tokenizer import UNK, train_tokenizer
from seq2seq.errors import UserError

KINDS: list[TokenizerKind] = ["unigram", "bpe"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_default_coverage_leaves_hardly_a_chinese_character_unknown(kind: TokenizerKind) -> None:
    sentences = [row["chinese"] for row in load_sentences()]
    tokenizer = train_tokenizer(sentences, Tokenizer(kind=kind), "zh", "source")
    ids = [each for sentence in tokenizer.encode_batch(sentences) for each in sentence]
    unknown = ids.count(UNK) / sum(map(len, sentences))
    assert unknown <= 1 - Tokenizer().character_coverage + 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_a_very_long_line_is_learned_from_too(kind: TokenizerKind) -> None:
    text = ["短句"] * 20 + ["长" * 20_000 + "龘"]
    tokenizer = train_tokenizer(text, Tokenizer(kind=kind, vocabulary_size=50, character_coverage=1.0), "zh", "source")
    assert UNK not in tokenizer.encode("长龘")


@pytest.mark.parametrize("kind", KINDS)
def test_chinese_does_not_begin_with_a_blank_and_english_does(kind: TokenizerKind) -> None:
    text = ["北京 Tom", "北京 Tom"]
    wanted = Tokenizer(kind=kind, vocabulary_size=30)
    chinese, english = (train_tokenizer(text, wanted, language, "target") for language in ("zh-Hans", "en"))
    assert not chinese.tokens(chinese.encode("北京"))[0].startswith("▁")
    assert english.tokens(english.encode("Tom"))[0].startswith("▁")


def test_settings_that_sentencepiece_refuses_are_one_line() -> None:
    with pytest.raises(UserError, match=r"^tokenizer\.target: SentencePiece cannot learn") as error:
        train_tokenizer(
            ["\u200b", "\u200b"], Tokenizer().model_copy(update={"character_coverage": 0.9}), "zh", "target"
        )
    assert "\n" not in str(error.value)
