"""Long text: where it is cut, that nothing of it is lost, and how its pieces become one translation."""

import functools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.config import parse_config
from seq2seq.config.schema import Tokenizer, TokenizerKind
from seq2seq.data.cleaning import normalize
from seq2seq.data.tokenizer import EOS, UNK, TextTokenizer, train_tokenizer
from seq2seq.inference.long_text import BlockDiagonal, cut, sentences
from seq2seq.inference.search import Hypothesis
from seq2seq.inference.translator import Translation, Translator
from seq2seq.model import build_model

KINDS: list[TokenizerKind] = ["unigram", "bpe", "characters", "words"]
ALPHABET = "abcdefgh 一二三四，、。！？…；,.!?;:”’()13"


@functools.cache
def trained(kind: TokenizerKind, language: str) -> TextTokenizer:
    text = [ALPHABET, *ALPHABET.split(), "ab cd", "一二 三四", "abcd. ef", "一二三。"]
    wanted = Tokenizer(kind=kind, vocabulary_size=200, character_coverage=1.0)
    return train_tokenizer(text, wanted, language, "target")


def cut_text(text: str, limit: int, kind: TokenizerKind = "characters") -> list[str]:
    tokenizer = trained(kind, "en")
    return [tokenizer.decode(ids) for ids in cut(text, tokenizer.encode(text), tokenizer, limit)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("我走了。你呢？好！", ["我走了。", "你呢？", "好！"]),
        ("他说：“好。”她走了……然后；完", ["他说：“好。”", "她走了……", "然后；", "完"]),
        ("（对。）不对？！好】。", ["（对。）", "不对？！", "好】。"]),
        ("好!他说OK?是的.对;完…了", ["好!", "他说OK?", "是的.", "对;", "完…", "了"]),
        ("I came. I saw! Did I win? Yes; (I did.) So.", ["I came.", "I saw!", "Did I win?", "Yes;", "(I did.)", "So."]),
        ("“Go.” 'Go!' He went.", ["“Go.”", "'Go!'", "He went."]),
        ("Pi is 3.14, e.g. here. Yes.", ["Pi is 3.14, e.g. here.", "Yes."]),
        ("Mr. Smith and Dr. Li met J. Doe of the U.S. Army.", ["Mr. Smith and Dr. Li met J. Doe of the U.S. Army."]),
        ("He is older than I. No. Not No. 5.", ["He is older than I.", "No.", "Not No. 5."]),
        ("www.x.org/?a=b;c is up.No", ["www.x.org/?a=b;c is up.No"]),
        ("apples, pears etc. and more. “Go!” he said... and left.", [
            "apples, pears etc. and more.", "“Go!” he said... and left."]),
        ("Tom &amp; Mary; they left.", ["Tom &amp; Mary;", "they left."]),
        ("هل أنت هنا؟ نعم.", ["هل أنت هنا؟", "نعم."]),
        ("。。。。", ["。。。。"]),
        ("no end", ["no end"]),
        ("", []),
    ],
)  # fmt: skip
def test_sentences_end_where_a_reader_ends_them(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("一二。三四。", 6, ["一二。三四。"]),
        ("一二。三四。", 5, ["一二。", "三四。"]),
        # Sentences are not packed, clauses are: as many as fit.
        ("一。二。三。一二三四。", 8, ["一。", "二。", "三。", "一二三四。"]),
        ("一，二，三四，一二三，四。", 6, ["一，二，", "三四，", "一二三，四。"]),
        ("ab, cd, 1,3 ef", 7, ["ab, cd,", "1,3 ef"]),
        # A blank is a token of its own here, so that two words and it are five.
        ("ab cd ef gh", 5, ["ab cd", "ef gh"]),
        ("ab cd ef gh", 6, ["ab cd", "ef gh"]),
        ("ab cdefgh", 4, ["ab", "cdef", "gh"]),
        ("一二三四一二三四一", 4, ["一二三四", "一二三四", "一"]),
        ("", 4, []),
        (" ", 4, []),
    ],
)
def test_a_long_text_is_cut_at_sentences_else_clauses_else_blanks_else_anywhere(
    text: str, limit: int, expected: list[str]
) -> None:
    assert cut_text(normalize(text), limit) == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("language", ["zh", "en"])
@settings(deadline=None, max_examples=100)
@given(text=st.text(st.sampled_from(ALPHABET), max_size=120) | st.text(max_size=60), limit=st.integers(1, 20))
def test_pieces_fit_the_limit_are_not_empty_and_hold_the_whole_text(
    kind: TokenizerKind, language: str, text: str, limit: int
) -> None:
    tokenizer, text = trained(kind, language), normalize(text)
    ids = tokenizer.encode(text)
    found = cut(text, ids, tokenizer, limit)
    assert all(1 <= len(piece) <= limit for piece in found)
    assert (found == [ids]) if 0 < len(ids) <= limit else (len(found) != 1)

    if kind == "words" and any(UNK in piece for piece in [ids, *found]):
        return  # a word beside a cut may be another one, known or not
    # Blanks at the cuts go.
    assert "".join("".join(map(tokenizer.decode, found)).split()) == "".join(tokenizer.decode(ids).split())


def test_a_text_of_one_character_takes_as_few_pieces_as_fit_it() -> None:
    assert [len(piece) for piece in cut_text("一" * 50_000, 200)] == [200] * 250


def test_a_matrix_of_blocks_has_their_rows_and_zeros_elsewhere() -> None:
    blocks = [np.random.default_rng(size).random((size, size + 1)) for size in (2, 1, 3)]
    expected = np.zeros((6, 9))
    row = column = 0
    for block in blocks:
        expected[row : row + len(block), column : column + block.shape[1]] = block
        row, column = row + len(block), column + block.shape[1]
    matrix = BlockDiagonal([block.tolist() for block in blocks], [3, 2, 4])
    np.testing.assert_array_equal(np.array(list(matrix)), expected)
    np.testing.assert_array_equal(np.array(matrix[1:4]), expected[1:4])
    assert (len(matrix), list(matrix[-1])) == (6, expected[-1].tolist())
    with pytest.raises(IndexError):
        matrix[6]


def untrained(limit: int, target_language: str = "en", **sets: object) -> Translator:
    """A model without sense whose translations end early."""
    sizes = {"encoder.hidden_size": 12, "decoder.hidden_size": 24, "search.max_source_tokens": limit} | sets
    config = parse_config("", [f"{key}={value}" for key, value in sizes.items()])
    tokenizer = trained("characters", "zh")
    torch.manual_seed(3)
    model = build_model(config, tokenizer.size, tokenizer.size).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
        model.decoder.output_bias[EOS] = 3.0
    return Translator(model, tokenizer, tokenizer, config.search, target_language)


TEXT = "一二三，四。ab cd ef gh! 二二，三"
PIECES = ["一二三，四。", "ab cd ef gh!", "二二，三"]


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize(("language", "blank"), [("en", " "), ("zh", "")])
def test_a_long_text_is_the_translations_of_its_pieces_joined(language: str, blank: str, beam: int) -> None:
    translator = untrained(12, language, **{"search.length_penalty": 0.7})
    long, short = translator.translate([TEXT, "一二"], beam, attention=True)
    parts = translator.translate(PIECES, beam, attention=True)
    assert long.text == blank.join(part.text for part in parts if part.text)
    assert [piece.text for piece in long.pieces] == [part.text for part in parts]
    assert short.pieces == ()
    assert "".join(long.source_tokens) == "一二三，四。</s>ab▁cd▁ef▁gh!</s>二二，三</s>"
    assert long.target_tokens == [token for part in parts for token in part.target_tokens]
    log_probability = sum(part.score * len(part.target_tokens) ** 0.7 for part in parts)
    assert long.score == pytest.approx(log_probability / len(long.target_tokens) ** 0.7)
    assert long.attention is not None
    assert {len(row) for row in long.attention} == {len(long.source_tokens)}
    assert len(long.attention) == len(long.target_tokens)
    assert all(sum(row) == pytest.approx(1, abs=1e-5) for row in long.attention)


def test_a_long_text_within_the_limit_is_not_cut() -> None:
    assert untrained(len(TEXT)).translate([TEXT])[0].pieces == ()


def test_company_and_repetition_change_nothing_in_a_long_text() -> None:
    translator = untrained(10)
    alone = [translator.translate([text])[0].text for text in (TEXT, PIECES[2], TEXT * 3)]
    assert [each.text for each in translator.translate([TEXT, PIECES[2], TEXT * 3])] == alone


def test_a_piece_that_comes_again_is_translated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    translator, searched = untrained(8), []
    search = translator._search

    def counted(ids: list[tuple[int, ...]], beam: int, attention: bool) -> list[Hypothesis]:
        searched.extend(ids)
        return search(ids, beam, attention)

    monkeypatch.setattr(translator, "_search", counted)
    (found,) = translator.translate(["一" * 50_000])
    assert searched == [(translator.source.encode("一")[0],) * 8]
    assert len(found.pieces) == 6250 and len(found.source_tokens) == 50_000 + 6250


def test_an_unfinished_piece_joins_without_its_end() -> None:
    first = Translation("ab", -1.0, ["x", "</s>"], ["a", "b"], [[0.9, 0.1], [0.2, 0.8]])
    second = Translation("", -2.0, ["y", "z", "</s>"], ["</s>"], [[0.5, 0.3, 0.2]])
    third = Translation("c", -3.0, ["y", "z", "</s>"], ["c", "</s>"], [[0.1, 0.7, 0.2], [0.0, 0.0, 1.0]])
    joined = Translation.join([first, second, third], " ", 1.0)
    assert joined.text == "ab c"
    assert joined.score == pytest.approx((-1 * 2 - 2 * 1 - 3 * 2) / 5)
    # Source tokens from 0: x 0, </s> 1, y 2, z 3, </s> 4, y 5, z 6; target tokens: a 0, b 1, </s> 2, c 3.
    assert joined.alignment() == [(0, 0), (0, 1), (6, 3)]


def test_links_of_a_long_text_need_attention_that_was_kept() -> None:
    with pytest.raises(ValueError, match="attention=True"):
        untrained(10).translate([TEXT])[0].alignment()
