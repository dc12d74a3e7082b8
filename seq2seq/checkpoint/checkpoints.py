"""The last checkpoint of a run and the one before it, one of which is whole at any moment."""

import logging
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

from torch import Tensor

from seq2seq.checkpoint.tensors import DamagedError, write_tensors
from seq2seq.data.files import move

log = logging.getLogger(__name__)

Content = tuple[dict[str, Tensor], dict[str, str]]
"""Tensors and metadata."""


class Checkpoints:
    """last.safetensors and previous.safetensors in a run directory.

    Args:
        folder: the run directory.
        read: tensors and metadata of NAME.safetensors there.
    """

    def __init__(self, folder: Path, read: Callable[[str], Content]) -> None:
        self.read = read
        self.previous, self.last, self.next = (folder / f"{name}.safetensors" for name in ("previous", "last", "next"))

    @property
    def exist(self) -> bool:
        """Whether there is one to resume from, be it damaged."""
        return self.last.exists() or self.previous.exists()

    def save(self, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
        """Write the last one; the one before becomes the previous one.

        Raises:
            UserError: it cannot be written; those that there are stay.
        """
        write_tensors(self.next, tensors, metadata)
        # Two steps, so that a whole one has one of the two names that are read at any moment.
        for place, successor in pairwise((self.previous, self.last, self.next)):
            if successor.exists():
                move(successor, place)

    def load(self) -> tuple[dict[str, Tensor], dict[str, str], Path]:
        """Tensors and metadata of the last one, or of the previous one where that is damaged, and its path.

        Raises:
            UserError: there is none that can be read.
        """
        if self.last.exists() or not self.previous.exists():
            try:
                return *self.read("last"), self.last
            except DamagedError as error:
                if not self.previous.exists():
                    raise
                log.warning(f"warning: {error}; {self.previous.name} is used instead")
        return *self.read("previous"), self.previous

    def make_last(self, path: Path) -> None:
        """Make this one the last, so that the next does not put a damaged one in the place of a good one."""
        if path != self.last:
            move(path, self.last)
