"""Text files: read line by line as strict UTF-8, written whole or not at all."""

import bz2
import gzip
import os
import secrets
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from seq2seq.errors import UserError

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}
_BOM = b"\xef\xbb\xbf"
# What gzip, bz2 and zipfile raise on damaged data; bz2 raises a bare OSError or ValueError.
_DAMAGE = (EOFError, OSError, ValueError, zlib.error, zipfile.BadZipFile)


@contextmanager
def atomic_write(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a temporary binary file in the same folder; when the block ends well, it becomes `path`.

    Readers see the old file or the complete new one, and a block that raises leaves no trace. The folder is made if
    need be. The block may close the file.

    Raises:
        UserError: the folder or the file cannot be written.
    """
    path = Path(path)
    if not path.name or path.is_dir():
        raise UserError(f"{path}: is a folder, not a file; name a file to write")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("wb") as file:
                yield file
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}") from None


def write_text(path: str | Path, text: str) -> None:
    r"""Write UTF-8 text, atomically; \n stays \n on every system.

    Raises:
        UserError: the file cannot be written.
    """
    with atomic_write(path) as file:
        file.write(text.encode())


def read_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    r"""Yield (line number from 1, line without its end) of a UTF-8 file, plain, .gz or .bz2.

    Only \n or \r\n ends a line: U+2028, U+0085 and a lone \r are text. A leading BOM is dropped.

    Raises:
        UserError: no such file, a folder, not readable, damaged compression, or invalid UTF-8 (with the line).
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
        yield from decode_lines(file, str(path))


def decode_lines(file: Iterable[bytes], name: str) -> Iterator[tuple[int, str]]:
    """Like `read_lines`, from an open binary file; `name` stands for it in error messages."""
    number = 0
    lines = iter(file)
    while True:
        try:
            line = next(lines, None)
        except _DAMAGE as error:
            raise UserError(f"{name}: damaged or cut short after line {number} ({error}); get the file again") from None
        if line is None:
            return
        number += 1
        if number == 1:
            line = line.removeprefix(_BOM)
        if line.endswith(b"\n"):
            line = line[:-1].removesuffix(b"\r")
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            fault = f"byte 0x{line[error.start]:02x} at byte {error.start + 1} of the line"
            raise UserError(f"{name}, line {number}: not valid UTF-8 ({fault}); convert the file to UTF-8") from None
        yield number, text
