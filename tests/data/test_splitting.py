"""The split by group."""

import os
import random
import re
import string
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.data import splitting
from seq2seq.data.corpus import Pair, read_pairs
from seq2seq.data.splitting import Split, side_key, side_keys
from seq2seq.errors import UserError

ROOT = Path(__file__).parents[2]
TATOEBA = ROOT / ".." / "shared" / "data" / "tatoeba"


class Parts(NamedTuple):
    """The pairs of the rows of a Split."""

    train: list[Pair]
    dev: list[Pair]
    test: list[Pair]


def split(pairs: list[Pair], dev_size: int, test_size: int, seed: int) -> Parts:
    return Parts(*([pairs[row] for row in part] for part in split_rows(pairs, dev_size, test_size, seed)))


def split_rows(pairs: list[Pair], dev_size: int, test_size: int, seed: int) -> Split:
    return splitting.split(side_keys(pairs), dev_size, test_size, seed)


def overlap(train: list[Pair], held_out: list[Pair]) -> int:
    return splitting.overlap(side_keys(train), side_keys(held_out))


def apart(pairs: list[Pair], others: list[Pair]) -> list[int]:
    return splitting.apart(side_keys(pairs), side_keys(others)).tolist()


def distinct(size: int) -> list[Pair]:
    return [Pair(f"源{n}", f"target {n}") for n in range(size)]


def plainly(text: str) -> str:
    """Another, weaker idea of sameness than `side_key`: no case, no blanks, no common punctuation."""
    return "".join(c for c in text.lower() if c not in string.punctuation + string.whitespace + "，。！？、；：“”‘’…")


def leaks(train: list[Pair], held_out: list[Pair]) -> int:
    sources, targets = {plainly(p.source) for p in train}, {plainly(p.target) for p in train}
    return sum(plainly(p.source) in sources or plainly(p.target) in targets for p in held_out)


def naive(pairs: list[Pair], size: int) -> Parts:
    shuffled = random.Random(0).sample(pairs, len(pairs))
    return Parts(shuffled[2 * size :], shuffled[size : 2 * size], shuffled[:size])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Let's go!", "lets GO"),
        ("ＡＢＣ１２３", "abc123"),
        ("你好，世界。", "你好世界"),
        ("Straße", "STRASSE"),
        ("cafe\u0301", "café"),
        ("a\u200bb\tc", "abc"),
    ],
)
def test_case_width_punctuation_and_blanks_make_no_other_sentence(one: str, other: str) -> None:
    assert side_key(one) == side_key(other)


@pytest.mark.parametrize(("one", "other"), [("?", "!"), ("1 € ", "1 $"), ("résumé", "resume"), ("...", "")])
def test_other_sentences_have_other_keys(one: str, other: str) -> None:
    assert side_key(one) != side_key(other)


def test_overlap_counts_held_out_pairs_that_share_either_side() -> None:
    train = [Pair("你好", "Hello"), Pair("再见", "Bye"), Pair("", "only target")]
    held_out = [Pair("你好！", "Hi"), Pair("拜拜", "bye."), Pair("新", "new"), Pair("Hello", "你好"), Pair("", "other")]
    assert overlap(train, held_out) == 2


def test_rows_apart_are_those_that_share_neither_side() -> None:
    pairs = [Pair("a", "1"), Pair("B!", "2"), Pair("c", "3"), Pair("d", "4"), Pair("", "5")]
    assert apart(pairs, [Pair("b", "9"), Pair("8", "4."), Pair("", "")]) == [0, 2, 4]
    assert apart(pairs, []) == [0, 1, 2, 3, 4]


def test_equal_pairs_are_told_apart_by_their_rows() -> None:
    pairs = [*distinct(40), *distinct(40)]
    parts = split_rows(pairs, 5, 5, 1)
    assert isinstance(parts, Split)
    held_out = {row % 40 for row in (*parts.dev, *parts.test)}
    assert parts.train.tolist() == [row for row in range(80) if row % 40 not in held_out]
    assert len(held_out) == 10 and max(*parts.dev, *parts.test) < 40


def test_a_chain_of_shared_sides_stays_together() -> None:
    chain = [Pair("a", "1"), Pair("A!", "2"), Pair("b", "2."), Pair("c", "2"), Pair("c", "3")]
    for seed in range(20):
        parts = split(distinct(30) + chain, 5, 5, seed)
        assert sum(any(pair in chain for pair in part) for part in parts) == 1


def test_only_one_pair_for_each_source_is_kept_in_dev_and_test() -> None:
    pairs = [Pair(f"源{n}" + "！" * k, f"target {n} {k}") for n in range(60) for k in range(3)]
    parts = split(pairs, 20, 20, 1)
    for part in (parts.dev, parts.test):
        assert len({side_key(pair.source) for pair in part}) == len(part) == 20
    assert len(parts.train) == 60


def test_large_groups_go_to_train() -> None:
    large = [Pair("同", f"same {n}") for n in range(11)]
    small = [Pair("又", f"again {n}") for n in range(10)]
    seen_outside: set[Pair] = set()
    for seed in range(50):
        parts = split(distinct(10) + large + small, 4, 4, seed)
        assert set(large) <= set(parts.train)
        seen_outside.update(parts.dev, parts.test)
    assert seen_outside & set(small)


def test_the_same_seed_splits_alike_and_another_one_differently() -> None:
    pairs = distinct(200)
    assert split(pairs, 20, 20, 7) == split(pairs, 20, 20, 7)
    assert split(pairs, 20, 20, 7).test != split(pairs, 20, 20, 8).test


def test_hash_randomisation_changes_nothing() -> None:
    code = (
        "from seq2seq.data.corpus import Pair; from seq2seq.data.splitting import side_keys, split;"
        "print(split(side_keys(Pair(f's{n % 40}', f't{n % 37}x{n}') for n in range(90)), 8, 8, 3))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_a_size_of_nothing_leaves_the_part_empty() -> None:
    parts = split(distinct(20), 0, 5, 1)
    assert (len(parts.train), len(parts.dev), len(parts.test)) == (15, 0, 5)
    assert split(distinct(20), 0, 0, 1) == Parts(distinct(20), [], [])


@pytest.mark.parametrize("pairs", [distinct(50), distinct(9) * 3, [Pair("a", str(n)) for n in range(15)] + distinct(6)])
def test_a_corpus_too_small_is_refused_with_sizes_that_do_fit(pairs: list[Pair]) -> None:
    with pytest.raises(UserError, match=r"^.*data\.dev_size 100 and data\.test_size 7,000: .* would fit$") as caught:
        split(pairs, 100, 7000, 1)
    dev_size, test_size = map(int, re.findall(r"_size (\d+)", str(caught.value).rpartition(": ")[2]))
    parts = split(pairs, dev_size, test_size, 1)
    assert (len(parts.dev), len(parts.test)) == (dev_size, test_size)
    assert parts.train
    with pytest.raises(UserError):
        split(pairs, dev_size + 1, test_size + 1, 1)


@pytest.mark.parametrize("pairs", [[], distinct(1), distinct(2), [Pair("a", str(n)) for n in range(50)]])
def test_a_corpus_that_cannot_be_split_at_all_asks_for_files(pairs: list[Pair]) -> None:
    with pytest.raises(
        UserError, match=r"^.*data\.dev_size .*data\.test_size .*give files as data\.dev and data\.test$"
    ):
        split(pairs, 5, 5, 1)


@given(
    st.lists(st.builds(Pair, st.text("aB你!", max_size=3), st.text("xY好?", max_size=3)), max_size=60),
    st.integers(0, 8),
    st.integers(0, 8),
    st.integers(0, 5),
)
@settings(max_examples=200)
def test_no_part_shares_a_side_with_another(pairs: list[Pair], dev_size: int, test_size: int, seed: int) -> None:
    try:
        parts = split(pairs, dev_size, test_size, seed)
    except UserError:
        return
    assert (len(parts.dev), len(parts.test)) == (dev_size, test_size)
    assert overlap(parts.train, parts.dev + parts.test) == overlap(parts.dev, parts.test) == 0
    for side in range(2):
        keys = [{side_key(pair[side]) for pair in part} - {""} for part in parts]
        assert not keys[0] & keys[1] | keys[0] & keys[2] | keys[1] & keys[2]
    # Train keeps the corpus's order and every pair that is not in a group of dev or test.
    positions = iter(pairs)
    assert all(pair in positions for pair in parts.train)
    assert len(parts.train) + dev_size + test_size <= len(pairs)


def plain_split(pairs: list[Pair], dev_size: int, test_size: int, seed: int) -> tuple[list[int], ...]:
    """The split from the words of its documentation, group by group, on the keys themselves."""
    keys = [{(side, key) for side, text in enumerate(pair) if (key := side_key(text))} for pair in pairs]
    groups: list[tuple[list[int], set[tuple[int, str]]]] = []
    for row, own in enumerate(keys):
        linked = [group for group in groups if group[1] & own]
        rows = sorted([row, *(each for group in linked for each in group[0])])
        groups = [group for group in groups if group not in linked] + [(rows, own.union(*(g[1] for g in linked)))]
    rows_of = sorted(rows for rows, _ in groups)
    small = [rows for rows in rows_of if len(rows) <= max(10, 0.01 * len(pairs))]
    random.Random(seed).shuffle(small)
    parts: list[list[int]] = []
    taken: set[int] = set()
    for size in (test_size, dev_size):
        part: list[int] = []
        while len(part) < size:
            rows = small.pop(0)
            taken.update(rows)
            sources = [side_key(pairs[row].source) for row in rows]
            part += [row for place, row in enumerate(rows) if sources[place] not in sources[:place]]
        parts.append(part[:size])
    return [row for row in range(len(pairs)) if row not in taken], parts[1], parts[0]


@given(
    st.lists(st.builds(Pair, st.text("aB你!", max_size=3), st.text("xY好?", max_size=3)), max_size=60),
    st.integers(0, 6),
    st.integers(0, 6),
    st.integers(0, 5),
)
@settings(max_examples=200)
def test_the_split_is_that_of_a_plain_loop(pairs: list[Pair], dev_size: int, test_size: int, seed: int) -> None:
    try:
        parts = split_rows(pairs, dev_size, test_size, seed)
    except UserError:
        return
    assert tuple(part.tolist() for part in parts) == plain_split(pairs, dev_size, test_size, seed)


def test_keys_are_the_same_where_sentences_are_and_none_where_there_is_none() -> None:
    keys = side_keys([Pair("Let's go!", "ＡＢＣ"), Pair("lets GO", "abc"), Pair("", " "), Pair("abc", "...")])
    assert keys.shape == (4, 2) and keys.dtype == "uint64"
    assert keys[0].tolist() == keys[1].tolist() and keys[2].tolist() == [0, 0]
    assert keys[3, 0] == keys[0, 1] and keys[3, 1] != 0, "a side of punctuation alone has a key"
    assert side_keys([]).shape == (0, 2)


def test_the_split_of_a_known_corpus_and_seed_never_changes() -> None:
    pairs = [Pair(f"s{n % 40}", f"t{n % 37}x{n}") for n in range(90)]
    parts = split_rows(pairs, 3, 4, 3)
    assert (parts.dev.tolist(), parts.test.tolist()) == ([26, 31, 27], [5, 14, 18, 3])


def check_against_a_naive_split(pairs: list[Pair], size: int, share: float) -> None:
    blind, ours = naive(pairs, size), split(pairs, size, size, 42)
    assert leaks(blind.train, blind.test) > share * size
    assert overlap(blind.train, blind.test) >= leaks(blind.train, blind.test)
    assert leaks(ours.train, ours.test) == leaks(ours.train, ours.dev) == leaks(ours.dev, ours.test) == 0
    assert (len(ours.dev), len(ours.test)) == (size, size)
    assert len({pair.source for pair in ours.test}) == size


@pytest.mark.skipif(not TATOEBA.exists(), reason="../shared/data/tatoeba is missing")
def test_on_tatoeba_a_naive_split_leaks_and_ours_does_not() -> None:
    files = (TATOEBA / f"{part}.tsv" for part in ("train", "dev", "test"))
    check_against_a_naive_split([pair for file in files for pair in read_pairs(str(file), "zh", "en")], 1000, 0.2)


def test_on_hsk_a_naive_split_leaks_and_ours_does_not() -> None:
    pytest.importorskip("hsk_sentences_audio")
    check_against_a_naive_split([pair for pair in read_pairs("hsk", "zh", "en") if pair.target], 300, 0.0)
