"""The corpus `tatoeba`: Chinese-English sentence pairs, downloaded once and kept as one TSV file."""

import logging
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from seq2seq.data.download import download
from seq2seq.data.files import decode_lines, read_lines, write_text
from seq2seq.errors import UserError

logger = logging.getLogger(__name__)

ARCHIVE_URL = "https://www.manythings.org/anki/cmn-eng.zip"
EXPORT_URLS = (
    "https://downloads.tatoeba.org/exports/per_language/cmn/cmn_sentences.tsv.bz2",
    "https://downloads.tatoeba.org/exports/per_language/eng/eng_sentences.tsv.bz2",
    "https://downloads.tatoeba.org/exports/per_language/cmn/cmn-eng_links.tsv.bz2",
)
_MEMBER = "cmn.txt"

# Chinese, English, attribution.
Row = tuple[str, str, str]


class _Source(NamedTuple):
    urls: tuple[str, ...]
    read: Callable[..., list[Row]]

    def files(self, folder: Path) -> list[Path]:
        return [folder / url.rpartition("/")[2] for url in self.urls]


def tatoeba_file(directory: Path) -> Path:
    """The path of DIRECTORY/tatoeba/cmn-eng.tsv (Chinese, English, attribution), which is made if it is missing.

    Archives already in that folder, put there by hand, are used; otherwise the ManyThings archive is downloaded or,
    if that fails, Tatoeba's own weekly exports.

    Raises:
        UserError: an archive put there is damaged, or nothing can be downloaded: then what to put where.
    """
    path = directory / "tatoeba" / "cmn-eng.tsv"
    if not path.exists():
        rows = _rows(path.parent)
        write_text(path, "".join(f"{chinese}\t{english}\t{credit}\n" for chinese, english, credit in rows))
    return path


def _rows(folder: Path) -> list[Row]:
    sources = (_Source((ARCHIVE_URL,), _read_archive), _Source(EXPORT_URLS, _read_exports))
    for source in sources:
        files = source.files(folder)
        if all(file.exists() for file in files):
            return source.read(*files)
    failures = []
    for source in sources:
        try:
            return _download_and_read(source, folder)
        except UserError as error:
            failures.append(str(error))
            logger.warning("%s", error)
    by_hand = f"download {ARCHIVE_URL} and put it into {folder}"
    raise UserError(f"corpus tatoeba is missing and cannot be downloaded ({failures[0]}): {by_hand}")


def _download_and_read(source: _Source, folder: Path) -> list[Row]:
    missing = [(url, file) for url, file in zip(source.urls, source.files(folder), strict=True) if not file.exists()]
    for url, file in missing:
        download(url, file)
    try:
        return source.read(*source.files(folder))
    except UserError:
        # What a server sent damaged must not be taken for an archive put there by hand.
        for _, file in missing:
            file.unlink(missing_ok=True)
        raise


def _read_archive(path: Path) -> list[Row]:
    """ManyThings: a zip whose cmn.txt holds English, Chinese, attribution."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(_MEMBER) as file:
            return [(row[1], row[0], row[2]) for row in _split(decode_lines(file, f"{path}/{_MEMBER}"), path)]
    except KeyError:
        raise UserError(f"{path}: holds no {_MEMBER}; is it the archive of {ARCHIVE_URL}?") from None
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise UserError(f"{path}: not a readable zip archive ({error}); delete it and get {ARCHIVE_URL}") from None


def _read_exports(chinese: Path, english: Path, links: Path) -> list[Row]:
    """Tatoeba: sentences as id, language, text; links as Chinese id, English id."""
    linked = [(row[0], row[1]) for row in _split(read_lines(links), links, columns=2)]
    wanted = {id_ for pair in linked for id_ in pair}
    texts = {
        row[0]: row[2].replace("\t", " ")
        for path in (chinese, english)
        for row in _split(read_lines(path), path)
        if row[0] in wanted
    }
    return [
        (texts[zh], texts[en], f"CC-BY 2.0 (France) Attribution: tatoeba.org #{en} & #{zh}")
        for zh, en in linked
        if zh in texts and en in texts
    ]


def _split(lines: Iterator[tuple[int, str]], path: Path, columns: int = 3) -> Iterator[list[str]]:
    for number, line in lines:
        row = line.split("\t", columns - 1)
        if len(row) < columns:
            raise UserError(f"{path}, line {number}: has {len(row)} of {columns} columns; delete it and get it again")
        yield row
