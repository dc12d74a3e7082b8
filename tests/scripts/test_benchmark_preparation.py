"""The benchmark of preparing: its corpora differ as they should, its table has all columns."""

import importlib.util
import random
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from seq2seq.data.corpus import Pair
from tests.conftest import reversed_digits, write_tsv
from tests.helpers import ROOT

SCRIPT = ROOT / "scripts" / "benchmark_preparation.py"
if sys.platform == "win32":
    pytest.skip("needs the module resource", allow_module_level=True)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_preparation", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("text", ["one two three four", "一二三四", "word", ""])
def test_noise_moves_words_or_characters_and_adds_a_number(script: ModuleType, text: str) -> None:
    blank = " " if " " in text else ""
    noisy = script.noisy(text, random.Random(2))
    parts = noisy.split() if blank else noisy
    assert sorted(c for c in parts if not c.isdigit()) == sorted(text.split() if blank else text)
    assert sum(c.isdigit() for c in parts) >= 1


def test_a_corpus_is_the_pairs_and_then_others_each_time(script: ModuleType) -> None:
    pairs = [Pair(f"source {n} end", f"这是第{n}句") for n in range(20)]
    lines = list(script.corpus(pairs, 200))
    assert lines[:20] == [f"{source}\t{target}\n" for source, target in pairs]
    assert len(lines) == 200 and len(set(lines)) > 190
    assert lines == list(script.corpus(pairs, 200))


def test_the_table_has_a_row_for_each_size(tmp_path: Path) -> None:
    write_tsv(tmp_path / "a.tsv", reversed_digits(300, seed=1))
    characters = "{kind: characters, vocabulary_size: 30}"
    sets = [f"tokenizer.source={characters}", f"tokenizer.target={characters}", "data.dev_size=20"]
    options = ["--pairs", "300", "600", *(part for each in sets for part in ("--set", each))]
    done = subprocess.run(
        [sys.executable, SCRIPT, tmp_path / "a.tsv", *options],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    header, *rows = done.stdout.splitlines()
    assert [row.split()[0] for row in rows] == ["300", "600"]
    assert all(len(row) == len(header) for row in rows)
    assert all(float(row.split()[1]) >= 0 and row.endswith("%") for row in rows)
