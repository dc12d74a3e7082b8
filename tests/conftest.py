"""Shapes are checked while tests run: each signature of seq2seq.model is enforced by jaxtyping and beartype."""

import os
from collections.abc import Iterable
from pathlib import Path

# Before torch reads it, and for commands that tests start: sizes this small gain nothing from more threads, and lose
# much where other work shares the processor.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
import torch
from jaxtyping import install_import_hook

from tests.helpers import ROOT, command

install_import_hook("seq2seq.model", "beartype.beartype")

SHARED = ROOT.parent / "shared" / "data"


@pytest.fixture(autouse=True)
def _one_seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def tatoeba() -> Path:
    """The real Tatoeba split, where this machine has it."""
    folder = SHARED / "tatoeba"
    if not folder.is_dir():
        pytest.skip("needs the Tatoeba split in ../shared/data/tatoeba")
    return folder


DIGITS = """
data:
  train: {folder}/train.tsv
  dev: {folder}/dev.tsv
  test: {folder}/test.tsv
  source_language: en
tokenizer:
  source: {{kind: characters, vocabulary_size: 30}}
  target: {{kind: characters, vocabulary_size: 30}}
encoder: {{embedding_size: 32, hidden_size: 48, embedding_dropout: 0.0, dropout: 0.0}}
decoder: {{embedding_size: 32, hidden_size: 64, embedding_dropout: 0.0, dropout: 0.0}}
training: {{max_steps: 40, batch_tokens: 600, learning_rate: 5e-3, warmup_steps: 50, label_smoothing: 0.0}}
search: {{beam: 3}}
device: cpu
threads: 1
"""


def reversed_digits(count: int, seed: int, longest: int = 8) -> list[tuple[str, str]]:
    """Distinct strings of digits, each with itself reversed: a task without noise, so a right model is perfect."""
    random = np.random.default_rng(seed)
    strings: dict[str, None] = {}
    while len(strings) < count:
        strings["".join(map(str, random.integers(0, 10, size=random.integers(3, longest + 1))))] = None
    return [(text, text[::-1]) for text in strings]


def write_tsv(path: Path, pairs: Iterable[tuple[str, str]]) -> None:
    """Pairs as source<TAB>target lines."""
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8", newline="\n")


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the digit corpus and digits.yaml, which trains a tiny model in a second."""
    folder = tmp_path_factory.mktemp("digits")
    pairs = reversed_digits(4000, seed=1)
    for part, chosen in (("train", pairs[200:]), ("dev", pairs[:100]), ("test", pairs[100:200])):
        write_tsv(folder / f"{part}.tsv", chosen)
    (folder / "digits.yaml").write_text(DIGITS.format(folder=folder.as_posix()), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def home(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which one tiny run was trained by the command, as runs/tiny."""
    folder = tmp_path_factory.mktemp("home")
    done = command("train", digits / "digits.yaml", "--run", "runs/tiny", cwd=folder)
    assert done.returncode == 0, done.stderr
    (folder / "stdout.txt").write_text(done.stdout, encoding="utf-8")
    return folder
