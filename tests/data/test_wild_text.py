"""Training text from the wild: each pair comes out clean or is counted, and tokenizers lose no character they know."""

import functools
import gzip
import unicodedata
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from seq2seq.config import parse_config
from seq2seq.config.schema import Cleaning, FilePair, Tokenizer, TokenizerKind
from seq2seq.data.cleaning import normalize
from seq2seq.data.corpus import Pair, read_pairs
from seq2seq.data.prepare import prepare
from seq2seq.data.tokenizer import UNK, TextTokenizer, train_tokenizer
from seq2seq.errors import UserError
from tests.data.cleaned import clean

RULES = Cleaning(max_ratio=None)

# A line of a TSV file, and the pair it becomes; None: it is dropped and counted.
LINES = {
    "empty": (b"", None),
    "blank": (b" \xc2\xa0", None),
    "only tabs": (b"\t\t", None),
    "an empty source": ("\t好".encode(), None),
    "a blank target": ("好\t\u3000".encode(), None),
    "a side that cannot be seen": ("\u200b\ufeff\t好".encode(), None),
    "50,000 characters": (("好" * 50_000 + "\tx").encode(), None),
    "one character repeated, of a length that may stay": (("好" * 400 + "\tx").encode(), Pair("好" * 400, "x")),
    "one character more": (("好" * 401 + "\tx").encode(), None),
    "control characters": (b"a\x00b\x07\tc\x1bd", Pair("ab", "cd")),
    "BOM at the start": ("\ufeffa\t\ufeffb".encode(), Pair("a", "b")),
    "BOM in the middle": ("a\ufeffb\tc".encode(), Pair("ab", "c")),
    "carriage returns": (b"a\rb\tc\rd\r\r", Pair("a b", "c d")),
    "U+0085, U+2028, U+2029": ("a\u0085b\tc\u2028d\u2029e".encode(), Pair("a b", "c d e")),
    "further columns": (b"a\tb\tc\td", Pair("a", "b")),
    "emoji with joiners": ("👩\u200d💻\t❤\ufe0f\u200d🔥".encode(), Pair("👩\u200d💻", "❤\ufe0f\u200d🔥")),
    "combining marks": ("e\u0301\ta\u0301\u0323".encode(), Pair("\u00e9", "\u1ea1\u0301")),
    "right to left": ("\u200fשלום\tمرحبا\u202c".encode(), Pair("שלום", "مرحبا")),
    "full-width": ("ＡＢ１２，\tＣ".encode(), Pair("ＡＢ１２，", "Ｃ")),
    "traditional Chinese": ("漢語\tChinese".encode(), Pair("漢語", "Chinese")),
    "only punctuation": ("……\t...".encode(), Pair("……", "...")),
    "HTML": ("<b>好</b>&amp;\t<i>good</i>".encode(), Pair("<b>好</b>&amp;", "<i>good</i>")),
    "quotes": (b'"a\tb"', Pair('"a', 'b"')),
}


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""], ids=["LF", "CRLF", "no end"])
@pytest.mark.parametrize(("line", "pair"), LINES.values(), ids=LINES)
@pytest.mark.parametrize("packed", [False, True])
def test_a_line_of_training_text_is_one_clean_pair_or_is_counted(
    line: bytes, pair: Pair | None, end: bytes, packed: bool, tmp_path: Path
) -> None:
    path = tmp_path / ("a.tsv.gz" if packed else "a.tsv")
    content = b"x\ty\n" + line + end
    path.write_bytes(gzip.compress(content) if packed else content)
    kept, _, report = clean(read_pairs(str(path), "zh", "en"), RULES)
    assert kept == [Pair("x", "y")] + ([pair] if pair else [])
    lines = 1 + bool(line + end)
    assert (report.read, report.kept, report.empty + report.too_long) == (lines, len(kept), lines - len(kept))


def test_tabs_within_the_sentences_of_two_files_are_blanks(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("\ufeff你\t好\t\r\n\t\n再\t见".encode())
    (tmp_path / "b").write_bytes(b"good\tday\n\n\tbye\n")
    pairs = read_pairs(FilePair(source=str(tmp_path / "a"), target=str(tmp_path / "b")), "zh", "en")
    kept, _, report = clean(pairs, RULES)
    assert kept == [Pair("你 好", "good day"), Pair("再 见", "bye")]
    assert (report.read, report.empty) == (3, 1)


FAULTS = {
    "invalid UTF-8": ("a.tsv", b"a\tb\nc\t\xff\n", "{}, line 2: not valid UTF-8 (byte 0xff at byte 3 of the line)"),
    "an encoded surrogate": ("a.tsv", b"a\t\xed\xa0\x80", "{}, line 1: not valid UTF-8 (byte 0xed at byte 3"),
    "UTF-16": ("a.tsv", "a\tb\n".encode("utf-16"), "{}, line 1: not valid UTF-8 (byte 0xff at byte 1"),
    "no tab": ("a.tsv", b"a\tb\na b\n", "{}, line 2: no tab"),
    "a gzip that ends early": ("a.gz", gzip.compress(b"a\tb\n" * 9)[:-9], "{}: damaged or cut short after line"),
    "text named .gz": ("a.gz", b"a\tb\n", "{}: damaged or cut short after line 0"),
}


@pytest.mark.parametrize(("name", "content", "error"), FAULTS.values(), ids=FAULTS)
def test_a_fault_in_training_text_is_one_line_that_says_where(
    name: str, content: bytes, error: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError) as caught:
        list(read_pairs(str(tmp_path / name), "zh", "en"))
    assert str(caught.value).startswith(error.format(tmp_path / name))
    assert "\n" not in str(caught.value)


def test_an_empty_file_holds_no_pair_and_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").touch()
    assert list(read_pairs(str(tmp_path / "a.tsv"), "zh", "en")) == []
    with pytest.raises(UserError, match="is a folder, not a file"):
        list(read_pairs(str(tmp_path), "zh", "en"))


@pytest.mark.parametrize("kind", ["unigram", "bpe", "characters"])
def test_what_is_not_cleaned_is_kept_as_it_is_tokenized(kind: str, tmp_path: Path) -> None:
    awkward = ["\ufeffa", "a\x00b", "a\rb", "a\u2028b", "a\u0085b", "\u3000a", "a\u200bb", "e\u0301", "a▁b", "a▅b"]
    for part in ("train", "dev", "test"):
        lines = [f"{text}{part}{number}\t{number}{part}{text}\r" for number, text in enumerate(awkward)]
        (tmp_path / f"{part}.tsv").write_bytes(
            "".join(f"{line}\r\n" for line in ["\ufeff" + lines[0], *lines[1:]]).encode()
        )
    sets = [f"data.{part}={tmp_path / part}.tsv" for part in ("train", "dev", "test")]
    tokenizers = [f"tokenizer.{side}={{kind: {kind}, vocabulary_size: 60}}" for side in ("source", "target")]
    prepared = prepare(parse_config("", [*sets, *tokenizers, "data.cleaning.normalize=false"]), tmp_path)
    for part in ("train", "dev", "test"):
        pairs, store = prepared.pairs(part), prepared.store(part)
        assert [len(pairs), len(store)] == [len(awkward)] * 2
        for side in ("source", "target"):
            ids = [getattr(store, side)[row].tolist() for row in range(len(store))]
            assert prepared.tokenizer(side).encode_batch([getattr(pair, side) for pair in pairs]) == ids


KINDS: list[TokenizerKind] = ["unigram", "bpe", "characters", "words"]
SUBWORDS: list[TokenizerKind] = ["unigram", "bpe"]
ODD = "ab .,!?'\"&;<>[]|@-_/\\#%$1234567890:…。，“”‘’()你好的是▁▅\u200d‐–—éא我\u0301👩💻Ａ１㎏ｶﾞ"
TEXTS = st.text(max_size=30) | st.text(st.sampled_from(ODD), max_size=30)


def squeezed(text: str) -> str:
    """What a tokenizer is to see of a text: its mark of a blank is a blank."""
    return " ".join(text.replace("▁", " ").split())


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize(
    ("kind", "language"), [("characters", "zh"), ("characters", "en"), ("words", "zh"), ("words", "en")]
)
@settings(deadline=None, max_examples=100)
@given(raw=TEXTS)
def test_characters_and_words_that_are_known_decode_to_the_normalised_text(
    kind: TokenizerKind, language: str, side: str, raw: str
) -> None:
    text = normalize(raw)
    expected = squeezed(unicodedata.normalize("NFKC", text) if side == "source" else text)
    assume(expected)
    tokenizer = train_tokenizer([text], Tokenizer(kind=kind), language, side)
    ids = tokenizer.encode(text)
    assert UNK not in ids
    decoded = tokenizer.decode(ids)
    if (kind, language) == ("words", "en"):  # Moses has rules of its own for blanks, and does not undo all of them
        decoded, expected = ("".join(each.split()) for each in (decoded, expected))
    assert decoded == expected


KNOWN = "abcdefghij ABC 0123456789 .,!?;:'\"-()<>&/ 你好我是的北京。，！？“”… é\u0301א ب 👩💻\u200d 漢 Ａ１ ｶﾞ"


@functools.cache
def subwords(kind: TokenizerKind, language: str, side: str) -> TextTokenizer:
    text = [KNOWN, *KNOWN.split(), "你好 北京", "ab cd"] * 2
    return train_tokenizer(text, Tokenizer(kind=kind, vocabulary_size=150, character_coverage=1.0), language, side)


@pytest.mark.parametrize("language", ["zh", "en"])
@pytest.mark.parametrize("kind", SUBWORDS)
@settings(deadline=None, max_examples=200)
@given(raw=TEXTS | st.text(st.sampled_from(KNOWN + "▁▅龘"), max_size=30), seed=st.integers(0, 2**32))
def test_subwords_decode_to_the_normalised_text_without_its_unknown_characters(
    kind: TokenizerKind, language: str, raw: str, seed: int
) -> None:
    tokenizer, text = subwords(kind, language, "target"), squeezed(normalize(raw))
    expected = squeezed("".join(character for character in text if character in KNOWN))
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == expected
    assert (UNK in ids) == any(character not in KNOWN for character in text)
    assert tokenizer.decode(tokenizer.sample(text, 0.3, seed)) == expected


# SentencePiece's nmt_nfkc leaves the full-width tilde as it is.
WIDE = [chr(code) for code in range(0x21, 0x2FFFF) if code != 0xFF5E and not 0xD800 <= code <= 0xDFFF]


@pytest.mark.parametrize("language", ["zh", "en"])
@pytest.mark.parametrize("kind", SUBWORDS)
def test_a_source_in_subwords_decodes_to_nfkc(kind: TokenizerKind, language: str) -> None:
    tokenizer = subwords(kind, language, "source")
    known = {character for character in unicodedata.normalize("NFKC", KNOWN) if UNK not in tokenizer.encode(character)}
    assert known >= set("abcABC019.,!?;:'\"-()<>&/你好我是的北京。“”éאب👩💻漢ガ")
    texts = [normalize(character) for character in WIDE]
    forms = [(text, squeezed(unicodedata.normalize("NFKC", text))) for text in texts if text]
    within = [(text, form) for text, form in forms if form and known.issuperset(form.replace(" ", ""))]
    assert len(within) > 300
    assert [(text, form) for text, form in within if tokenizer.decode(tokenizer.encode(text)) != form] == []


@pytest.mark.parametrize("kind", SUBWORDS)
def test_a_sentence_with_a_sign_of_sentencepiece_is_learned_from_too(kind: TokenizerKind) -> None:
    tokenizer = train_tokenizer(["▁▂▃▄▅▆▇█ 你好"], Tokenizer(kind=kind, vocabulary_size=60), "zh", "target")
    assert tokenizer.decode(tokenizer.encode("▂▃▄▆▇█ 你好")) == "▂▃▄▆▇█ 你好"
    assert tokenizer.decode(tokenizer.encode("你▅好")) == "你好"


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_decoded_is_one_line_with_single_blanks(kind: TokenizerKind) -> None:
    tokenizer = train_tokenizer(["a b", "b a", "▁ a"], Tokenizer(kind=kind, vocabulary_size=20), "zh", "target")
    for ids in ([4, 5, 6] * 3, [6, 5, 4], *([each, each] for each in range(4, tokenizer.size))):
        text = tokenizer.decode([each for each in ids if each < tokenizer.size])
        assert text == " ".join(text.split())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "text", ["好" * 50_000, "a" * 50_000, "'" * 50_000, "a." * 25_000, "。" * 50_000, "\u1100" * 50_000]
)
def test_fifty_thousand_characters_are_tokenized_and_none_is_lost(kind: TokenizerKind, text: str) -> None:
    language = "zh" if kind == "words" and text[0] != "好" else "en"  # jieba needs seconds for one run of Chinese
    tokenizer = train_tokenizer(
        ["好 a ' . 。 \u1100", text[:9], text], Tokenizer(kind=kind, vocabulary_size=90), language, "target"
    )
    decoded = tokenizer.decode(tokenizer.encode(text))
    assert decoded.replace(" ", "") == text
