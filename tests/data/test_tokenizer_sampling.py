"""Random segmentations: the same in every process, with the papers' probabilities, and of the same text."""

import functools
import itertools
import json
import math
import os
import subprocess
import sys
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import sentencepiece
from hsk_sentences_audio import load_sentences
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.config.schema import Tokenizer, TokenizerKind
from seq2seq.data.tokenizer import UNK, TextTokenizer, train_tokenizer
from seq2seq.data.tokenizer.sampling import BPEDropout, UnigramSampler, segmentation_sampler

KINDS: list[TokenizerKind] = ["unigram", "bpe"]
# SentencePiece normalises a source, and begins a text with a blank in a language that writes blanks.
LANGUAGES_AND_SIDES = [("zh", "source"), ("zh", "target"), ("en", "source"), ("en", "target")]
Pieces = Mapping[str, tuple[int, float]]

# b is known inside longer pieces only.
PIECES: Pieces = {"a": (4, -1.0), "c": (5, -1.5), "ab": (6, -3.0), "bc": (7, -2.5), "▁": (8, -2.0), "ca": (9, -2.2)}
# "abc" comes from "a" and "bc" or from "ab" and "c"; the pair to be merged first is not always the leftmost.
MERGES: Pieces = {
    piece: (4 + rank, -float(rank)) for rank, piece in enumerate(["bc", "ab", "▁a", "abc", "▁abc", "ca", *"abc▁"])
}


@functools.cache
def sentences(language: str) -> list[str]:
    rows = load_sentences()[:300]
    return [row["chinese"] if language == "zh" else row["translation"]["en"] for row in rows]


@functools.cache
def trained(kind: TokenizerKind, language: str, side: str) -> TextTokenizer:
    wanted = Tokenizer(kind=kind, vocabulary_size=900, character_coverage=1.0)
    return train_tokenizer(sentences(language), wanted, language, side)


@functools.cache
def processor(kind: TokenizerKind, language: str, side: str, folder: Path) -> sentencepiece.SentencePieceProcessor:
    """SentencePiece itself, with the model of `trained`."""
    trained(kind, language, side).save(folder / kind, side)
    return sentencepiece.SentencePieceProcessor(model_file=str(folder / kind / f"tokenizer.{side}.model"))


@pytest.fixture(scope="module", params=LANGUAGES_AND_SIDES, ids="-".join)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, Path]:
    """Language, side, and a folder for their models."""
    return *request.param, tmp_path_factory.mktemp("models")


@functools.cache
def any_text() -> st.SearchStrategy[str]:
    """Wild text; text of known characters among blanks, typed ▁, and characters that no tokenizer here knows."""
    known = {character for language in ("zh", "en") for text in sentences(language)[:40] for character in text}
    return st.text(max_size=30) | st.text(st.sampled_from([*sorted(known), *"  ▁▁ＡＢ\x00𐤀𐤁"]), max_size=30)


def seeds(count: int) -> list[int]:
    """Like those of training (seq2seq/data/sampling.py)."""
    return [zlib.crc32(f"1 {epoch} 0 0".encode()) for epoch in range(count)]


def agrees(drawn: Counter[tuple[int, ...]], probabilities: Mapping[tuple[int, ...], float]) -> bool:
    """Whether all draws are possible, and each comes as often as it should, give or take 4.5 standard deviations."""
    total = drawn.total()
    return drawn.keys() <= probabilities.keys() and all(
        abs(drawn[ids] - total * p) <= 4.5 * math.sqrt(total * p * (1 - p)) + 1 for ids, p in probabilities.items()
    )


def segmentations(text: str, pieces: Pieces) -> Iterator[tuple[tuple[int, ...], float]]:
    """Ids and score of each segmentation; a character that is no piece is unknown, 10 below the least score."""
    if not text:
        yield (), 0.0
    for end in range(1, len(text) + 1):
        unknown = (UNK, min(score for _, score in pieces.values()) - 10) if end == 1 else None
        found = pieces.get(text[:end], unknown)
        if found is not None:
            for ids, score in segmentations(text[end:], pieces):
                yield (found[0], *ids), found[1] + score


def joined(ids: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(each for previous, each in zip((None, *ids), ids, strict=False) if (previous, each) != (UNK, UNK))


def kudo(text: str, pieces: Pieces, alpha: float) -> dict[tuple[int, ...], float]:
    """P(x)**alpha / Σ P(x')**alpha of each segmentation x (Kudo 2018, section 3.2, with all of them)."""
    weights: dict[tuple[int, ...], float] = defaultdict(float)
    for ids, score in segmentations(text, pieces):
        weights[joined(ids)] += math.exp(score) ** alpha
    return {ids: weight / sum(weights.values()) for ids, weight in weights.items()}


def provilkov(word: tuple[str, ...], pieces: Pieces, p: float) -> dict[tuple[str, ...], float]:
    """Probability of each segmentation by algorithm 1, enumerating all ways to remove merges at each step."""
    found: dict[tuple[str, ...], float] = defaultdict(float)
    merges = [place for place in range(len(word) - 1) if word[place] + word[place + 1] in pieces]
    for kept in itertools.product([False, True], repeat=len(merges)):
        chance = math.prod(1 - p if each else p for each in kept)
        remaining = list(itertools.compress(merges, kept))
        if not remaining:
            found[word] += chance
            continue
        first = max(remaining, key=lambda place: (pieces[word[place] + word[place + 1]][1], -place))
        merged = (*word[:first], word[first] + word[first + 1], *word[first + 2 :])
        for result, rest in provilkov(merged, pieces, p).items():
            found[result] += chance * rest
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_fresh_processes_draw_the_same(kind: TokenizerKind, tmp_path: Path) -> None:
    trained(kind, "en", "target").save(tmp_path, "target")
    texts = sentences("en")[:40]
    code = (
        "import json, pathlib, sys; from seq2seq.data.tokenizer import load_tokenizer\n"
        "tokenizer = load_tokenizer(pathlib.Path(sys.argv[1]), 'target')\n"
        "texts = json.loads(sys.argv[2])\n"
        "print([tokenizer.sample(text, 0.3, 2**31 + row) for row, text in enumerate(texts)])"
    )
    line = [sys.executable, "-c", code, str(tmp_path), json.dumps(texts)]
    root = Path(__file__).parents[2]
    drawn = [
        subprocess.run(
            line, cwd=root, env={**os.environ, "PYTHONHASHSEED": hashes}, capture_output=True, text=True, check=True
        ).stdout
        for hashes in ("1", "2")
    ]
    tokenizer = trained(kind, "en", "target")
    here = [tokenizer.sample(text, 0.3, 2**31 + row) for row, text in enumerate(texts)]
    assert json.loads(drawn[0]) == json.loads(drawn[1]) == here
    assert here != tokenizer.encode_batch(texts)


def test_a_seed_keeps_its_draws_in_every_version() -> None:
    """Written down once: a training that is resumed after an update goes on with the same segmentations."""
    text, numbers = "abcacab▁abca", (0, 1, 2**32 - 1)
    assert [UnigramSampler(PIECES).sample(text, 0.2, seed) for seed in numbers] == [
        [6, 9, 5, 6, 8, 6, 5, 4],
        [4, 7, 4, 5, 6, 8, 6, 5, 4],
        [6, 5, 4, 5, 6, 8, 4, 7, 4],
    ]
    assert [BPEDropout(MERGES).sample(text, 0.4, seed) for seed in numbers] == [
        [7, 10, 12, 5, 8, 10],
        [5, 9, 12, 5, 8, 10],
        [7, 10, 12, 10, 11, 13, 7, 10],
    ]


@pytest.mark.parametrize("alpha", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("text", ["abcab", "▁bcab", "bbab", "xabca▁x"])
def test_unigram_draws_each_segmentation_with_its_probability(text: str, alpha: float) -> None:
    sampler = UnigramSampler(PIECES)
    drawn = Counter(tuple(sampler.sample(text, alpha, seed)) for seed in seeds(4000))
    assert agrees(drawn, kudo(text, PIECES, alpha))


def test_the_bounds_of_these_tests_notice_another_alpha() -> None:
    drawn = Counter(tuple(UnigramSampler(PIECES).sample("abcab", 0.3, seed)) for seed in seeds(4000))
    assert not agrees(drawn, kudo("abcab", PIECES, 0.4))


@pytest.mark.parametrize("text", ["Good tea.", "tea 𐤀𐤁"])
def test_unigram_draws_from_what_sentencepiece_lists(text: str, tmp_path: Path) -> None:
    model = processor("unigram", "en", "target", tmp_path)
    pieces = {model.id_to_piece(each): (each, model.get_score(each)) for each in range(4, model.get_piece_size())}
    probabilities = kudo(model.normalize(text), pieces, 0.2)
    assert probabilities.keys() == {tuple(ids) for ids in model.nbest_encode(text, nbest_size=512)}
    drawn = Counter(tuple(trained("unigram", "en", "target").sample(text, 0.2, seed)) for seed in seeds(4000))
    assert agrees(drawn, probabilities)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("text", ["abcab", "▁abc", "xabbca"])
def test_bpe_dropout_draws_each_segmentation_with_its_probability(text: str, p: float) -> None:
    sampler = BPEDropout(MERGES)
    probabilities = {
        tuple(MERGES[piece][0] if piece in MERGES else UNK for piece in word): chance
        for word, chance in provilkov(tuple(text), MERGES, p).items()
    }
    drawn = Counter(tuple(sampler.sample(text, p, seed)) for seed in seeds(4000))
    assert agrees(drawn, probabilities)


def test_bpe_dropout_deals_with_each_word_by_itself() -> None:
    sampler = BPEDropout(MERGES)
    alone = provilkov(tuple("▁abc"), MERGES, 0.5)
    pairs = {
        tuple(MERGES[piece][0] for piece in (*one, *two)): alone[one] * alone[two] for one in alone for two in alone
    }
    assert agrees(Counter(tuple(sampler.sample("▁abc▁abc", 0.5, seed)) for seed in seeds(4000)), pairs)


@settings(deadline=None, max_examples=100)
@given(data=st.data())
def test_without_dropout_bpe_is_sentencepieces_own(place: tuple[str, str, Path], data: st.DataObject) -> None:
    model = processor("bpe", *place)
    text = data.draw(any_text())
    assert segmentation_sampler(model).sample(model.normalize(text), 0.0, seed=1) == model.encode(text)


@settings(deadline=None, max_examples=100)
@given(data=st.data())
def test_a_large_alpha_gives_unigrams_best_segmentation(place: tuple[str, str, Path], data: st.DataObject) -> None:
    model = processor("unigram", *place)
    text = data.draw(any_text())
    found, best = segmentation_sampler(model).sample(model.normalize(text), 1e6, seed=1), model.encode(text)
    # Of segmentations that are alike to float32 either may come.
    assert found == best or math.isclose(*(sum(map(model.get_score, ids)) for ids in (found, best)), rel_tol=1e-6)


@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_dropping_every_merge_gives_characters(place: tuple[str, str, Path], data: st.DataObject) -> None:
    model = processor("bpe", *place)
    text = data.draw(any_text())
    expected = joined(tuple(model.piece_to_id(character) for character in model.normalize(text)))
    assert segmentation_sampler(model).sample(model.normalize(text), 1.0, seed=1) == list(expected)


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=100)
@given(data=st.data(), alpha=st.floats(0.01, 1.0), seed=st.integers(0, 2**32 - 1))
def test_any_text_keeps_what_it_says(
    kind: TokenizerKind, place: tuple[str, str, Path], data: st.DataObject, alpha: float, seed: int
) -> None:
    tokenizer = trained(kind, *place[:2])
    text = data.draw(any_text())
    ids, best = tokenizer.sample(text, alpha, seed), tokenizer.encode(text)
    assert tokenizer.decode(ids) == tokenizer.decode(best)
    assert ids.count(UNK) == best.count(UNK)


@pytest.mark.parametrize("kind", KINDS)
def test_a_very_long_text_is_sampled_too(kind: TokenizerKind) -> None:
    text = "".join(sentences("zh")).replace(" ", "")[:5000] * 4
    tokenizer = trained(kind, "zh", "target")
    assert tokenizer.decode(tokenizer.sample(text, 0.3, seed=1)) == text
