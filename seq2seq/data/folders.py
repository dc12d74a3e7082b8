"""Folders that are made whole or not at all, and moved out of the way whole."""

import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from seq2seq.data.files import blamed_on

_DAY = 24 * 60 * 60
# As tempfile names them: a dot, the folder they were to become, a dot, eight characters.
_TEMPORARY = re.compile(r"\..+\.[a-z0-9_]{8}")


@contextmanager
def atomic_folder(place: Path) -> Iterator[Path]:
    """Make a temporary folder beside `place`; when the block ends well, it becomes `place`.

    Where another process has made `place` meanwhile, theirs stays. A block that raises leaves no trace.

    Raises:
        UserError: the folder cannot be made.
    """
    with blamed_on(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    try:
        yield temporary
        with blamed_on(place):
            temporary.chmod(0o755)
            try:
                temporary.rename(place)
            except OSError:
                if not place.is_dir():
                    raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def discard(place: Path) -> None:
    """Delete a folder (or what stands in its place) such that nobody meets half of it; none is fine.

    Raises:
        UserError: it cannot be moved out of the way.
    """
    with (
        blamed_on(place),
        tempfile.TemporaryDirectory(prefix=f".{place.name}.", dir=place.parent, ignore_cleanup_errors=True) as aside,
        suppress(FileNotFoundError),  # another process was faster
    ):
        place.rename(Path(aside) / place.name)


def remove_leftovers(parent: Path) -> None:
    """Delete temporary folders in which nothing has changed for a day: those of processes that were killed."""
    for folder in parent.glob(".*.*"):
        # What another process deletes meanwhile, or this one may not delete, is left.
        with suppress(OSError):
            if _TEMPORARY.fullmatch(folder.name) and folder.is_dir() and not folder.is_symlink():
                changed = max(path.lstat().st_mtime for path in (folder, *folder.iterdir()))
                if time.time() - changed > _DAY:
                    shutil.rmtree(folder, ignore_errors=True)
