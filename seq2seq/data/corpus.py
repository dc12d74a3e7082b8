"""Parallel text from a TSV file, a pair of files, or a named corpus, as an iterator of pairs."""

import hashlib
import math
from array import array
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from seq2seq.config.schema import CorpusSpec, FilePair
from seq2seq.data.checksums import digest_of
from seq2seq.data.files import read_lines
from seq2seq.data.tatoeba import tatoeba_file
from seq2seq.errors import UserError


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


class Label(NamedTuple):
    """How a corpus is named in messages."""

    name: str
    """Its path, both its paths, or its name."""
    is_named: bool
    """Whether it is a named corpus, of entries rather than lines."""


class _NamedCorpus(NamedTuple):
    """A corpus known by name; `read` takes the data directory and yields (zh, en) pairs."""

    read: Callable[[Path], Iterator[Pair]]
    provenance: str


def read_pairs(
    spec: CorpusSpec, source_language: str, target_language: str, directory: Path = Path("data")
) -> Iterator[Pair]:
    """Yield the pairs of a corpus as they stand there, line by line; a blank line of a TSV file is `Pair("", "")`.

    Args:
        spec: a named corpus (the name wins over a file of that name; write ./hsk for the file), the path of a TSV file
            (source first, columns after the second ignored), or a pair of files. Files may be .gz.
        source_language, target_language: a named corpus is turned this way round; files are taken as they are.
        directory: where a named corpus that must be downloaded is kept.

    Raises:
        UserError: no such corpus or file, languages the named corpus lacks, a TSV line without a tab, files of
            different line counts, invalid UTF-8, damaged gzip. File contents are checked while iterating.
    """
    if isinstance(spec, FilePair):
        return _read_file_pair(Path(spec.source), Path(spec.target))
    if spec in NAMED_CORPORA:
        return _read_named(spec, source_language, target_language, directory)
    if not Path(spec).exists():
        names = ", ".join(NAMED_CORPORA)
        raise UserError(f"{spec}: neither an existing file nor a named corpus; named corpora: {names}")
    return _read_tsv(Path(spec))


def content_digest(
    spec: CorpusSpec, source_language: str, target_language: str, directory: Path = Path("data")
) -> list[str]:
    """Digests of what `read_pairs` would read: of each file as it is, without reading its lines; of a named one's text.

    Raises:
        UserError: as `read_pairs`, without what is found beyond the first line.
    """
    if isinstance(spec, FilePair):
        return [_file_digest(Path(spec.source)), _file_digest(Path(spec.target))]
    pairs = read_pairs(spec, source_language, target_language, directory)
    if spec not in NAMED_CORPORA:
        return [_file_digest(Path(spec))]
    digest = hashlib.sha256()
    for pair in pairs:
        # With the lengths, so that no tab or line end in a sentence makes two corpora look alike.
        digest.update(f"{len(pair.source)}\t{len(pair.target)}\t{pair.source}{pair.target}".encode())
    return [digest.hexdigest()]


def _file_digest(path: Path) -> str:
    next(read_lines(path), None)  # raises what is wrong with the file
    try:
        return digest_of(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None


def provenance(spec: CorpusSpec) -> str | None:
    """One line on the origin and licence of a named corpus; None for files."""
    return NAMED_CORPORA[spec].provenance if isinstance(spec, str) and spec in NAMED_CORPORA else None


def label(spec: CorpusSpec) -> Label:
    """The label of a corpus."""
    if isinstance(spec, FilePair):
        return Label(f"{spec.source} and {spec.target}", False)
    return Label(spec, spec in NAMED_CORPORA)


def _read_tsv(path: Path) -> Iterator[Pair]:
    for number, line in read_lines(path):
        source, tab, rest = line.partition("\t")
        if not tab and line.strip():
            raise UserError(f"{path}, line {number}: no tab; write the source, a tab and the target in each line")
        yield Pair(source, rest.partition("\t")[0]) if tab else Pair("", "")


def _read_file_pair(source: Path, target: Path) -> Iterator[Pair]:
    lengths = array("L"), array("L")
    for first, second in zip_longest(read_lines(source), read_lines(target)):
        for line, side in zip((first, second), lengths, strict=True):
            if line is not None:
                side.append(len(line[1].strip()))
        if first is not None and second is not None:
            yield Pair(first[1], second[1])
    if len(lengths[0]) != len(lengths[1]):
        counts = f"{source} has {len(lengths[0]):,} lines and {target} has {len(lengths[1]):,}"
        line_number = _first_out_of_step(*lengths)
        raise UserError(
            f"{counts}, they must match line by line; the first that looks out of step: line {line_number:,}"
        )


def _first_out_of_step(source: "array[int]", target: "array[int]") -> int:
    """Number of the line from which the lengths (in characters) fit better with the surplus lines left out there.

    One change point: before it line i meets line i, from it on the longer side is shifted by the surplus.
    """
    longer, shorter = (source, target) if len(source) > len(target) else (target, source)
    surplus = len(longer) - len(shorter)
    usual = math.log((sum(longer) + 1) / (sum(shorter) + 1))
    # Total misfit of the best alignment so far, relative to shifting everything from line 1 on.
    misfit = best = 0.0
    change = 0
    for i, length in enumerate(shorter):
        misfit += _misfit(longer[i], length, usual) - _misfit(longer[i + surplus], length, usual)
        if misfit <= best:
            best, change = misfit, i + 1
    return change + 1


def _misfit(longer: int, shorter: int, usual: float) -> float:
    # A small constant keeps the ratios of very short lines tame.
    return abs(math.log((longer + 2) / (shorter + 2)) - usual)


def _read_named(name: str, source_language: str, target_language: str, directory: Path) -> Iterator[Pair]:
    languages = (source_language, target_language)
    if languages not in (("zh", "en"), ("en", "zh")):
        raise UserError(
            f"corpus {name} is Chinese and English: set data.source_language and data.target_language to zh and en or"
            f" to en and zh, not to {source_language} and {target_language}"
        )
    pairs = NAMED_CORPORA[name].read(directory)
    return pairs if languages == ("zh", "en") else (Pair(english, chinese) for chinese, english in pairs)


_HSK_UNTRANSLATED = {"placeholder", "PH"}


def _read_hsk(directory: Path) -> Iterator[Pair]:
    try:
        package = import_module("hsk_sentences_audio")
    except ModuleNotFoundError:
        raise UserError(
            "corpus hsk needs the package hsk-sentences-audio: `make train` installs it,"
            " or: pip install hsk-sentences-audio==1.0.0"
        ) from None
    rows = ((sentence["chinese"], sentence["translation"]["en"]) for sentence in package.load_sentences())
    # Left untranslated by its makers: an empty side, which cleaning drops and counts.
    return (Pair(chinese, "" if english in _HSK_UNTRANSLATED else english) for chinese, english in rows)


def _read_tatoeba(directory: Path) -> Iterator[Pair]:
    return _read_tsv(tatoeba_file(directory))


NAMED_CORPORA = {
    "hsk": _NamedCorpus(
        _read_hsk,
        "hsk: 4,354 graded Chinese sentences with English, from the package hsk-sentences-audio 1.0.0"
        " (https://github.com/no7z/hsk-sentences-audio); licence CC-BY-SA 4.0",
    ),
    "tatoeba": _NamedCorpus(
        _read_tatoeba,
        "tatoeba: sentence pairs of https://tatoeba.org by its contributors, as exported by"
        " https://www.manythings.org/anki or by Tatoeba itself; licence CC-BY 2.0 FR, attribution in each row",
    ),
}
"""The named corpora that `data.train`, `data.dev` and `data.test` may name, all of them (zh, en)."""
