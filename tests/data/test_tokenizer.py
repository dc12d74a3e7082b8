"""Every tokenizer: text to ids and back, four fixed ids, what is typed cannot be special, save and load."""

import functools
import json
import logging
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.config.schema import Tokenizer, TokenizerKind
from seq2seq.data.tokenizer import BOS, EOS, PAD, UNK, TextTokenizer, load_tokenizer, train_tokenizer
from seq2seq.errors import UserError

KINDS: list[TokenizerKind] = ["unigram", "bpe", "characters", "words"]
SUBWORDS: list[TokenizerKind] = ["unigram", "bpe"]
SIDES = {"zh": "source", "en": "target"}


@functools.cache
def corpus(language: str) -> list[str]:
    from hsk_sentences_audio import load_sentences

    return [row["chinese"] if language == "zh" else row["translation"]["en"] for row in load_sentences()]


@functools.cache
def trained(kind: TokenizerKind, language: str) -> TextTokenizer:
    wanted = Tokenizer(
        kind=kind,
        vocabulary_size=(4000 if language == "zh" else 2500) if kind in SUBWORDS else 20000,
        character_coverage=1.0,
    )
    return train_tokenizer(corpus(language), wanted, language, SIDES[language])


@pytest.fixture(params=[(kind, language) for kind in KINDS for language in SIDES], ids="-".join)
def tokenizer(request: pytest.FixtureRequest) -> TextTokenizer:
    return trained(*request.param)


def known_text(language: str) -> st.SearchStrategy[str]:
    """Any text of some of the corpus's characters, blanks squeezed; of Chinese without what NFKC changes."""
    characters = sorted({c for text in corpus(language)[:500] for c in text if unicodedata.normalize("NFKC", c) == c})
    return st.text(st.sampled_from(characters), max_size=30).map(lambda text: " ".join(text.split()))


@pytest.mark.parametrize("kind", [*SUBWORDS, "characters"])
@pytest.mark.parametrize("language", SIDES)
@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_decoding_gives_back_any_text_of_known_characters(
    kind: TokenizerKind, language: str, data: st.DataObject
) -> None:
    text = data.draw(known_text(language))
    tokenizer = trained(kind, language)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert UNK not in ids


def test_decoding_gives_back_the_corpus(tokenizer: TextTokenizer) -> None:
    language = next(language for language in SIDES for kind in KINDS if trained(kind, language) is tokenizer)
    # A source is brought to its usual width; these are all the full-width characters of the corpus.
    widths = str.maketrans("，。！？：；（）", ",。!?:;()") if language == "zh" else {}
    sentences = [" ".join(sentence.translate(widths).split()) for sentence in corpus(language)]
    decoded = [tokenizer.decode(ids) for ids in tokenizer.encode_batch(corpus(language))]
    wrong = [pair for pair in zip(sentences, decoded, strict=True) if pair[0] != pair[1]]
    # Moses's rules lose a blank here and there, beside a quotation mark for one.
    allowed = len(sentences) // 100 if tokenizer is trained("words", "en") else 0
    assert len(wrong) <= allowed, wrong[:5]


def test_a_batch_encodes_as_its_texts_do(tokenizer: TextTokenizer) -> None:
    texts = ["", "Tom说 hello。", "It's 5.30, isn't it?"]
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]


def test_the_special_ids_are_fixed(tokenizer: TextTokenizer) -> None:
    assert (PAD, UNK, BOS, EOS) == (0, 1, 2, 3)
    assert tokenizer.tokens(range(4)) == ["<pad>", "<unk>", "<s>", "</s>"]
    assert len(set(tokenizer.tokens(range(tokenizer.size)))) == tokenizer.size


@pytest.mark.parametrize(
    "typed", ["<s>", "</s>", "<pad>", "<unk>", "a <s> b</s>", "<s>北京</s>", "▁", "a▁b", "▁▁", "\x00"]
)
def test_nobody_can_type_a_special_id(tokenizer: TextTokenizer, typed: str) -> None:
    for ids in (tokenizer.encode(typed), tokenizer.sample(typed, alpha=0.3, seed=1)):
        assert not {PAD, BOS, EOS} & set(ids)


@settings(deadline=None, max_examples=50)
@given(text=st.text(max_size=40))
def test_any_text_at_all_is_encoded_without_special_ids(text: str) -> None:
    for kind in KINDS:
        for language in SIDES:
            tokenizer = trained(kind, language)
            ids = tokenizer.encode(text)
            assert not {PAD, BOS, EOS} & set(ids)
            assert all(0 < each < tokenizer.size for each in ids)
            tokenizer.decode(ids)


def test_unknown_characters_become_unk(tokenizer: TextTokenizer) -> None:
    assert UNK in tokenizer.encode("\N{PHOENICIAN LETTER ALF}")
    assert UNK in tokenizer.encode("\N{LINEAR B SYLLABLE B008 A}")


@pytest.mark.parametrize("text", ["", " ", "\t\n "])
def test_an_empty_text_has_no_ids(tokenizer: TextTokenizer, text: str) -> None:
    assert tokenizer.encode(text) == []
    assert tokenizer.decode([]) == ""


def test_decoding_skips_special_ids(tokenizer: TextTokenizer) -> None:
    text = next(text for text in ("你好", "Hello") if UNK not in tokenizer.encode(text))
    assert tokenizer.decode([BOS, *tokenizer.encode(text), UNK, EOS, PAD, PAD]) == text


@pytest.mark.parametrize("language", SIDES)
@pytest.mark.parametrize("kind", SUBWORDS)
def test_sampling_varies_with_the_seed_alone_and_keeps_the_text(kind: TokenizerKind, language: str) -> None:
    tokenizer = trained(kind, language)
    alpha = 0.6 if (kind, language) == ("bpe", "zh") else 0.2  # a sentence without blanks is one long word
    for text in sorted(corpus(language), key=len)[-2:]:
        samples = [tokenizer.sample(text, alpha=alpha, seed=seed) for seed in range(20)]
        assert [tokenizer.sample(text, alpha=alpha, seed=seed) for seed in range(20)] == samples
        assert len({tuple(sample) for sample in samples}) > 3
        assert {tokenizer.decode(sample) for sample in samples} == {tokenizer.decode(tokenizer.encode(text))}
        assert tokenizer.sample(text, alpha=0.0, seed=1) == tokenizer.encode(text)


@pytest.mark.parametrize("kind", ["characters", "words"])
def test_without_subwords_sampling_is_encoding(kind: TokenizerKind) -> None:
    text = corpus("zh")[1000]
    tokenizer = trained(kind, "zh")
    assert {tuple(tokenizer.sample(text, 0.2, seed)) for seed in range(5)} == {tuple(tokenizer.encode(text))}


def test_a_source_is_read_in_any_width_and_a_target_keeps_its_own() -> None:
    for kind in KINDS:
        wanted = Tokenizer(kind=kind, vocabulary_size=60, character_coverage=1.0)
        text = ["好，ＡＢ！", "好,AB!", "AB 好"]
        source = train_tokenizer(text, wanted, "zh", "source")
        target = train_tokenizer(text, wanted, "zh", "target")
        assert source.encode("好，ＡＢ！") == source.encode("好,AB!")
        assert target.decode(target.encode("好，ＡＢ！")) == "好，ＡＢ！"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("language", SIDES)
def test_the_same_text_gives_the_same_tokenizer(kind: TokenizerKind, language: str, tmp_path: Path) -> None:
    wanted = Tokenizer(kind=kind, vocabulary_size=1500)
    files = []
    for folder in (tmp_path / "1", tmp_path / "2"):
        train_tokenizer(iter(corpus(language)[:800]), wanted, language, "source").save(folder, "source")
        files.append([path.read_bytes() for path in folder.iterdir()])
    assert len(files[0]) == 1
    assert files[0] == files[1]


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_loaded_tokenizer_is_the_saved_one(tokenizer: TextTokenizer, side: str, tmp_path: Path) -> None:
    tokenizer.save(tmp_path, side)
    loaded = load_tokenizer(tmp_path, side)
    texts = [*corpus("zh")[::50], *corpus("en")[::50], "ＡＢ，"]
    assert loaded.size == tokenizer.size
    assert loaded.encode_batch(texts) == tokenizer.encode_batch(texts)
    assert loaded.tokens(range(loaded.size)) == tokenizer.tokens(range(loaded.size))
    assert loaded.sample(texts[5], 0.2, 7) == tokenizer.sample(texts[5], 0.2, 7)
    ids = loaded.encode(texts[-2])
    assert loaded.decode(ids) == tokenizer.decode(ids)
    assert [path.name.rsplit(".", 1)[0] for path in tmp_path.iterdir()] == [f"tokenizer.{side}"]


def test_loading_and_encoding_imports_neither_torch_nor_torchtext(tmp_path: Path) -> None:
    trained("words", "zh").save(tmp_path, "source")
    trained("unigram", "en").save(tmp_path, "target")
    code = (
        "import sys, pathlib; from seq2seq.data.tokenizer import load_tokenizer as load\n"
        "for side in ('source', 'target'): assert load(pathlib.Path(sys.argv[1]), side).encode('你好 a')\n"
        "print({'torch', 'torchtext'} & set(sys.modules))"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code, tmp_path], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
    assert done.stderr == ""


def test_a_missing_tokenizer_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"tokenizer\.target\.model: no such file, nor tokenizer\.target\.json"
    ) as error:
        load_tokenizer(tmp_path, "target")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [b"", b"abc", b"\x80\x04]q\x00.", b"{}", b'{"kind": "words"'])
@pytest.mark.parametrize("suffix", ["model", "json"])
def test_a_damaged_tokenizer_is_one_line(tmp_path: Path, suffix: str, content: bytes) -> None:
    (tmp_path / f"tokenizer.source.{suffix}").write_bytes(content)
    with pytest.raises(UserError, match=rf"tokenizer\.source\.{suffix}: damaged") as error:
        load_tokenizer(tmp_path, "source")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_tokenizer_cut_short_is_damaged(kind: TokenizerKind, tmp_path: Path) -> None:
    trained(kind, "zh").save(tmp_path, "source")
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match="damaged"):
        load_tokenizer(tmp_path, "source")


def test_a_vocabulary_with_an_entry_twice_is_damaged(tmp_path: Path) -> None:
    trained("characters", "zh").save(tmp_path, "source")
    (path,) = tmp_path.iterdir()
    content = json.loads(path.read_text(encoding="utf-8"))
    content["entries"].append(content["entries"][0])
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(UserError, match="damaged"):
        load_tokenizer(tmp_path, "source")


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.parametrize("kind", KINDS)
def test_a_vocabulary_the_text_cannot_fill_is_lowered_with_a_warning(
    kind: TokenizerKind, caplog: pytest.LogCaptureFixture
) -> None:
    tokenizer = train_tokenizer(corpus("zh")[:20], Tokenizer(kind=kind, vocabulary_size=30000), "zh", "target")
    assert tokenizer.size < 3000
    (warning,) = warnings_of(caplog)
    assert warning.startswith(f"tokenizer.target.vocabulary_size: asked for 30,000, got {tokenizer.size:,}: ")
    assert tokenizer.decode(tokenizer.encode("你好")) == "你好"


@pytest.mark.parametrize("kind", SUBWORDS)
@pytest.mark.parametrize("size", [8, 100])
def test_a_vocabulary_too_small_for_the_characters_is_raised_with_a_warning(
    kind: TokenizerKind, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = Tokenizer(kind=kind, vocabulary_size=size, character_coverage=1.0)
    tokenizer = train_tokenizer(corpus("zh"), wanted, "zh", "source")
    assert not any(UNK in ids for ids in tokenizer.encode_batch(corpus("zh")))
    (warning,) = warnings_of(caplog)
    assert f"asked for {size}, got {tokenizer.size:,}: " in warning


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", [["a"], ["你"], ["a b", "b a"], ["", "x", "  "]])
@pytest.mark.parametrize("size", [8, 1_000_000])
def test_a_tiny_corpus_or_a_huge_size_is_no_crash(kind: TokenizerKind, text: list[str], size: int) -> None:
    tokenizer = train_tokenizer(text, Tokenizer(kind=kind, vocabulary_size=size), "en", "source")
    assert [tokenizer.decode(tokenizer.encode(each)) for each in text] == [each.strip() for each in text]


@pytest.mark.parametrize("kind", KINDS)
def test_a_vocabulary_that_fits_is_not_warned_of(kind: TokenizerKind, caplog: pytest.LogCaptureFixture) -> None:
    tokenizer = train_tokenizer(corpus("en"), Tokenizer(kind=kind, vocabulary_size=75), "en", "target")
    assert (tokenizer.size, warnings_of(caplog)) == (75, [])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", [[], [""], [" ", "\n"]])
def test_empty_training_text_is_one_line(kind: TokenizerKind, text: list[str]) -> None:
    with pytest.raises(UserError, match=r"^tokenizer\.source: the training text is empty"):
        train_tokenizer(text, Tokenizer(kind=kind), "zh", "source")


@pytest.mark.parametrize("kind", SUBWORDS)
def test_training_writes_nothing_to_the_terminal(kind: TokenizerKind, capfd: pytest.CaptureFixture[str]) -> None:
    train_tokenizer(corpus("en")[:50], Tokenizer(kind=kind, vocabulary_size=30000), "en", "source")
    train_tokenizer(corpus("zh")[:50], Tokenizer(kind=kind, vocabulary_size=8), "zh", "source")
    assert capfd.readouterr() == ("", "")
