"""Text files: read line by line as strict UTF-8, written whole or not at all."""

import bz2
import gzip
import io
import os
import secrets
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

from seq2seq.errors import UserError

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}
_BOM = b"\xef\xbb\xbf"
# What gzip, bz2 and zipfile raise on damaged data; bz2 raises a bare OSError or ValueError.
_DAMAGE = (EOFError, OSError, ValueError, zlib.error, zipfile.BadZipFile)

BLOCK = 1 << 16
"""Bytes asked for at a time: as many as a pipe holds."""
Line = tuple[int, str]
"""Number from 1, text without its end."""


@contextmanager
def atomic_write(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a temporary binary file in the same folder; when the block ends well, it becomes `path`.

    Readers see the old file or the complete new one, and a block that raises leaves no trace. The folder is made if
    need be. The block may close the file; what it raises for other reasons comes out as it is.

    Raises:
        UserError: the folder or the file cannot be written.
    """
    path = Path(path)
    _refuse_folder(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    with blamed_on(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        target = _Target(temporary, path)
    try:
        with io.BufferedWriter(target) as file:
            yield file
        with blamed_on(path), temporary.open("rb+") as written:
            os.fsync(written.fileno())
        with blamed_on(path):
            move(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def move(source: Path, target: Path) -> None:
    """Rename a file over what is there, in one step.

    Raises:
        OSError: the system refuses, as Windows does, which is asked for a second, while a program has the target open.
    """
    for _ in range(20 if os.name == "nt" else 1):
        try:
            source.replace(target)
            _flush_folder(target.parent)
            return
        except PermissionError as error:
            refused = error
            time.sleep(0.05)
    raise refused


def _flush_folder(folder: Path) -> None:
    """Put a rename on the disk as well, where the system can."""
    if os.name == "posix":
        opened = os.open(folder, os.O_RDONLY)
        try:
            with suppress(OSError):
                os.fsync(opened)
        finally:
            os.close(opened)


class _Target(io.FileIO):
    """The temporary file; where it cannot be written, the file it is to become is named."""

    def __init__(self, temporary: Path, path: Path) -> None:
        super().__init__(temporary, "w")
        self._path = path

    def write(self, data: Any) -> int:
        with blamed_on(self._path):
            return super().write(data)


@contextmanager
def blamed_on(path: Path) -> Iterator[None]:
    """Say of what the system refuses which file or folder it is about.

    Raises:
        UserError: instead of an OSError.
    """
    try:
        yield
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}") from None


def _refuse_folder(path: Path) -> None:
    if not path.name or path.is_dir():
        raise UserError(f"{path}: is a folder, not a file; name a file to write")


def check_writable(path: str | Path) -> None:
    """See to it that a file can be written there, before anything costly is done for it; nothing is made.

    Raises:
        UserError: it is a folder, or its folder neither takes a new file nor can be made.
    """
    path = Path(path)
    _refuse_folder(path)
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir():
        raise UserError(f"{path}: cannot be written: {folder} is a file, not a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UserError(f"{path}: cannot be written: no permission to write in {folder}")


def check_named(**options: str | None) -> None:
    """See to it that no option was given an empty name, which would mean the current folder.

    Args:
        options: name of an option without its dashes -> its argument; None where it was not given.

    Raises:
        UserError: an argument is empty.
    """
    for option, argument in options.items():
        if argument == "":
            raise UserError(f"--{option} is empty; name a file")


def write_text(path: str | Path, text: str) -> None:
    r"""Write UTF-8 text, atomically; \n stays \n on every system.

    Raises:
        UserError: the file cannot be written.
    """
    with atomic_write(path) as file:
        file.write(text.encode())


def read_lines(path: str | Path) -> Iterator[Line]:
    r"""Yield (line number from 1, line without its end) of a UTF-8 file, plain, .gz or .bz2.

    Only \n or \r\n ends a line: U+2028, U+0085 and a lone \r are text. A leading BOM is dropped.

    Raises:
        UserError: no such file, a folder, not readable, damaged compression, or invalid UTF-8 (with the line).
    """
    for lines in read_as_they_come(path):
        yield from lines


def read_as_they_come(path: str | Path) -> Iterator[list[Line]]:
    """The lines of `read_lines` in groups, each of what is there to be read without waiting for more.

    An error comes after the lines before it. A group takes about `BLOCK` bytes at most, but for a longer line.
    """
    path = Path(path)
    if path.is_dir():
        raise UserError(f"{path}: is a folder, not a file; name a file in it")
    try:
        file: IO[bytes] = _OPENERS.get(path.suffix.lower(), open)(path, "rb")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None
    with file:
        yield from decode_as_they_come(file, str(path))


def decode_lines(file: IO[bytes], name: str) -> Iterator[Line]:
    """Like `read_lines`, from an open binary file; `name` stands for it in error messages."""
    for lines in decode_as_they_come(file, name):
        yield from lines


def decode_as_they_come(file: IO[bytes], name: str) -> Iterator[list[Line]]:
    """Like `read_as_they_come`, from an open binary file; `name` stands for it in error messages."""
    number = 0
    groups = _raw_lines(file)
    while True:
        try:
            group = next(groups, None)
        except _DAMAGE as error:
            raise UserError(f"{name}: damaged or cut short after line {number} ({error}); get the file again") from None
        if group is None:
            return
        lines: list[Line] = []
        for line in group:
            number += 1
            try:
                lines.append((number, line.decode("utf-8")))
            except UnicodeDecodeError as error:
                if lines:
                    yield lines
                fault = f"byte 0x{line[error.start]:02x} at byte {error.start + 1} of the line"
                advice = "convert the file to UTF-8"
                raise UserError(f"{name}, line {number}: not valid UTF-8 ({fault}); {advice}") from None
        yield lines


def _raw_lines(file: IO[bytes]) -> Iterator[list[bytes]]:
    """Lines without their ends, as they come."""
    begun: list[bytes] = []  # blocks of a line whose end has not come
    mark = _BOM
    while block := cast(io.BufferedIOBase, file).read1(BLOCK):
        first, *more = block.split(b"\n")
        begun.append(first)
        if more:
            lines = [b"".join(begun), *more[:-1]]
            begun = [more[-1]]
            lines[0] = lines[0].removeprefix(mark)
            mark = b""
            yield [line.removesuffix(b"\r") for line in lines]
    if last := b"".join(begun).removeprefix(mark):
        yield [last]
