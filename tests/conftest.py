"""Shapes are checked while tests run: each signature of seq2seq.model is enforced by jaxtyping and beartype."""

from pathlib import Path

import pytest
import torch
from jaxtyping import install_import_hook

install_import_hook("seq2seq.model", "beartype.beartype")

ROOT = Path(__file__).resolve().parent.parent
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
