"""SHA256SUMS: the digest of each file of a folder, as the command sha256sum writes and checks it (sha256sum -c)."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PureWindowsPath

from seq2seq.data.files import write_text

SUMS = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")
_CHUNK = 1 << 20
_MOST_BYTES = 1 << 20


def write_checksums(folder: Path, patterns: Sequence[str] = ("*",)) -> None:
    """Write SHA256SUMS into a folder.

    Args:
        folder: files in its subfolders are not covered.
        patterns: shell patterns; a file is covered where its name fits one of them, hidden ones never.

    Raises:
        UserError: SHA256SUMS cannot be written.
        OSError: a file cannot be read.
    """
    write_sums(folder, {name: [digest_of(folder / name)] for name in _covered(folder, patterns)})


def write_sums(folder: Path, sums: Mapping[str, Sequence[str]]) -> None:
    """Write SHA256SUMS from the digests of each name: more than one while a file is being replaced.

    Raises:
        UserError: SHA256SUMS cannot be written.
    """
    write_text(folder / SUMS, "".join(f"{digest}  {name}\n" for name in sorted(sums) for digest in sums[name]))


def damaged(folder: Path, patterns: Sequence[str] = ("*",)) -> list[str]:
    """Names of files that are not as they were when `write_checksums(folder, patterns)` was called; sorted.

    Such is a listed file that is missing, changed, cut short, unreadable, a symbolic link or outside the folder; a
    covered one that is not listed; and SHA256SUMS itself, alone, where it is missing or holds something else.
    """
    try:
        listed = read_sums(folder)
        return sorted(
            {name for name, digests in listed.items() if not _is_whole(folder, name, digests)}
            | {name for name in _covered(folder, patterns) if name not in listed}
        )
    except (OSError, ValueError):
        return [SUMS]


def _covered(folder: Path, patterns: Sequence[str]) -> list[str]:
    names = (path.name for path in folder.iterdir())
    return sorted(
        name
        for name in names
        if name != SUMS and not name.startswith(".") and any(fnmatchcase(name, pattern) for pattern in patterns)
    )


def read_sums(folder: Path) -> dict[str, list[str]]:
    """Name -> digests, any of which will do.

    Raises:
        OSError, ValueError: SHA256SUMS is missing, a symbolic link, or holds something else.
    """
    sums = folder / SUMS
    if sums.is_symlink():
        raise ValueError("a symbolic link")
    if sums.stat().st_size > _MOST_BYTES:
        raise ValueError("too large")
    lines = [_LINE.fullmatch(line) for line in sums.read_bytes().decode().splitlines()]
    if None in lines:
        raise ValueError("not a list of digests")
    found: dict[str, list[str]] = {}
    for line in lines:
        if line:
            found.setdefault(line[2], []).append(line[1])
    return found


def _is_whole(folder: Path, name: str, digests: Sequence[str]) -> bool:
    # Windows parts names at / and \ and after a drive; what is no plain name there is none here.
    if PureWindowsPath(name).name != name or name == "..":
        return False
    path = folder / name
    try:
        return path.is_file() and not path.is_symlink() and digest_of(path) in digests
    except OSError:
        return False


def digest_of(path: Path) -> str:
    """SHA-256 of a file's content, in hexadecimal.

    Raises:
        OSError: the file cannot be read.
    """
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
