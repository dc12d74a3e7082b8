"""The last checkpoint of a run and the one before it, one of which is whole at any moment."""

import logging
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

from torch import Tensor

from seq2seq.checkpoint.tensors import DamagedError
from seq2seq.data.files import move

log = logging.getLogger(__name__)

Content = tuple[dict[str, Tensor], dict[str, str]]
"""Tensors and metadata."""
Tensors = Mapping[str, Tensor]
Metadata = Mapping[str, str]


class Checkpoints:
    """last.safetensors and previous.safetensors in a run directory.

    Args:
        folder: the run directory.
        read: tensors and metadata of NAME.safetensors there.
        write: writes them.
    """

    def __init__(
        self, folder: Path, read: Callable[[str], Content], write: Callable[[str, Tensors, Metadata], None]
    ) -> None:
        self.read, self.write = read, write
        self.previous, self.last, self.next = (folder / f"{name}.safetensors" for name in ("previous", "last", "next"))

    @property
    def exist(self) -> bool:
        """Whether there is one to resume from, be it damaged."""
        return self.last.exists() or self.previous.exists()

    def save(self, tensors: Tensors, metadata: Metadata) -> None:
        """Write the last one; the one before becomes the previous one.

        Raises:
            UserError: it cannot be written; those that there are stay.
        """
        self.write("next", tensors, metadata)
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
        else:
            log.warning(f"warning: {self.last}: missing; {self.previous.name} is used instead")
        return *self.read("previous"), self.previous

    def make_last(self, path: Path) -> None:
        """Make this one the last, so that the next does not put a damaged one in the place of a good one.

        What was the last one stays beside it, as damaged-TIME.safetensors.
        """
        if path != self.last:
            if self.last.exists():
                self.last.rename(self.last.with_stem(f"damaged-{time.time_ns()}"))
            move(path, self.last)
