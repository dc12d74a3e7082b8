"""A finished run to be spoiled."""

import shutil
from pathlib import Path

import pytest

from seq2seq.checkpoint import RunDirectory


@pytest.fixture
def run(home: Path, tmp_path: Path) -> RunDirectory:
    """A copy of a finished run."""
    shutil.copytree(home / "runs" / "tiny", tmp_path / "run")
    return RunDirectory(tmp_path / "run")
