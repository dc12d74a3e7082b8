"""One training at a time in a run directory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from seq2seq.errors import UserError


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold `.lock` in a folder; the system lets go of it when the process ends, however it ends.

    Raises:
        UserError: another process holds it.
    """
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise UserError(f"{folder}: another training is at work here; stop it first, or name another --run") from None
    try:
        yield
    finally:
        lock.release()
