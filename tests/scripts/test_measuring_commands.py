"""The measuring scripts train for real, on any TSV, and say what they measured."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import ROOT

TINY = (
    "tokenizer.source={kind: characters, vocabulary_size: 30}",
    "tokenizer.target={kind: characters, vocabulary_size: 30}",
    "encoder={embedding_size: 8, hidden_size: 8}",
    "decoder={embedding_size: 8, hidden_size: 16}",
    "data.source_language=en",
)


def script(name: str, *arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, str(ROOT / "scripts" / f"{name}.py"), *map(str, arguments)]
    return subprocess.run(
        line, cwd=cwd, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, encoding="utf-8"
    )


def measured(name: str, digits: Path, folder: Path, *arguments: object) -> str:
    sets = [part for each in TINY for part in ("--set", each)]
    common = ["--data", digits / "train.tsv", "--batch-tokens", 200, "--threads", 1, "--seconds", 0.2, "--warm-up", 0.1]
    done = script(name, *common, *arguments, *sets, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_training_is_measured(digits: Path, tmp_path: Path) -> None:
    text = measured("benchmark_training", digits, tmp_path, "--rounds", 2)
    for title in ("target tokens/s", "seconds per epoch", "padding share", "block 2", "model FLOP utilisation"):
        assert title in text
    assert "vocabulary 14 and 14" in text


def test_a_training_is_profiled(digits: Path, tmp_path: Path) -> None:
    text = measured("profile_training", digits, tmp_path, "--attend", "before", "--top", 5)
    for title in ("whole update", "backward", "operation (its own time)", "under the profiler"):
        assert title in text


@pytest.mark.parametrize("name", ["benchmark_training", "profile_training"])
def test_what_a_user_gets_wrong_is_one_line(name: str, tmp_path: Path) -> None:
    done = script(name, "--data", "absent.tsv", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [f"{name}.py: error: absent.tsv: no such file or folder; name a TSV with --data"]
