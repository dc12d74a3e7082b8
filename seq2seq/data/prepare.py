"""From the configured text to a directory of ids: read, clean, split, learn tokenizers, encode; done once.

No text is held in memory: it goes from file to file, in pieces, and what decides about it is kept as numbers.
"""

import dataclasses
import functools
import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from tqdm import tqdm

from seq2seq.config import Config
from seq2seq.config.schema import CorpusSpec, FilePair
from seq2seq.data.checksums import damaged, write_checksums
from seq2seq.data.cleaning import Cleaned, clean, normalize, one_line
from seq2seq.data.corpus import Pair, content_digest, label, provenance, read_pairs
from seq2seq.data.files import write_text
from seq2seq.data.folders import atomic_folder, discard, remove_leftovers
from seq2seq.data.origins import Origins
from seq2seq.data.pair_file import PairFile, format_pairs, parse, write_pairs
from seq2seq.data.splitting import apart, overlap, side_keys, split
from seq2seq.data.store import Flat, ParallelStore, TokenStore, flat, write_tokens
from seq2seq.data.tokenizer import TextTokenizer, load_tokenizer, train_tokenizer
from seq2seq.data.workers import Workers
from seq2seq.errors import UserError

log = logging.getLogger(__name__)

PARTS = ("train", "dev", "test")
SIDES = ("source", "target")
FORMAT = 3
"""Raised when the prepared files change, so that older ones are made again."""
_FILES = (
    *("prepared.json", "log.txt", "train.origins.npy", "train.origins.json"),
    *(f"{part}.{suffix}" for part in PARTS for suffix in ("tsv", "lines.npy")),
    *(f"{part}.{side}.{array}.npy" for part in PARTS for side in SIDES for array in ("ids", "offsets")),
)
"""All but the tokenizers, whose names depend on their kind."""

LEARNING_PAIRS = 200_000
"""The tokenizers learn from so many training pairs at most, a random sample of them."""


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A prepared corpus on disk."""

    directory: Path

    def damaged(self) -> list[str]:
        """Names of its files that are missing or no longer what they were when it was made; reads all of them."""
        missing = [name for name in _FILES if not (self.directory / name).is_file()]
        return missing or damaged(self.directory) or ([] if self._is_of_this_place() else ["prepared.json"])

    def is_complete(self) -> bool:
        """Whether it was made and is as it was then; reads all of its files."""
        return not self.damaged()

    def _is_of_this_place(self) -> bool:
        """Whether it was made here by this version: not an older one, nor another one that was copied here."""
        return (self.directory / "prepared.json").read_bytes() == _identity(self.directory.name).encode()

    def store(self, part: str) -> ParallelStore:
        """Ids of `train`, `dev` or `test`."""
        return ParallelStore.open(self.directory, part)

    def origins(self) -> Origins:
        """Where the pairs of `train` came from."""
        return Origins.open(self.directory, "train")

    def pairs(self, part: str) -> PairFile:
        """Text of `train`, `dev` or `test`, as it was tokenized; read where it is asked for."""
        return PairFile.open(self.text_path(part))

    def text_path(self, part: str) -> Path:
        """The TSV behind `pairs`."""
        return self.directory / f"{part}.tsv"

    def tokenizer(self, side: str) -> TextTokenizer:
        """Tokenizer of `source` or `target`."""
        return load_tokenizer(self.directory, side)


def prepare(config: Config, directory: Path = Path("data")) -> Prepared:
    """Prepare the corpora of `config` below `directory`, or find them there from an earlier time.

    What is found there and is not as it was made is made again, with a warning.

    Raises:
        UserError: a corpus is missing, damaged, or empty after cleaning, or nothing can be written there.
    """
    digest = _digest(config, directory)
    place = directory / "prepared" / digest
    prepared = Prepared(place)
    faults = prepared.damaged()
    if faults:
        if os.path.lexists(place):
            names = ", ".join(faults[:3]) + (f" and {len(faults) - 3} more" if len(faults) > 3 else "")
            log.warning(f"warning: {place}: {names} missing or damaged; the corpus is prepared again")
            discard(place)
        remove_leftovers(place.parent)
        with atomic_folder(place) as temporary, Workers(config.threads) as workers:
            _write(temporary, config, directory, workers)
            if _digest(config, directory) != digest:
                raise UserError(f"{place}: the text has changed while it was being prepared; start again")
            write_text(temporary / "prepared.json", _identity(digest))
            write_checksums(temporary)
    for line in (place / "log.txt").read_text(encoding="utf-8").splitlines():
        log.info(line)
    return prepared


def _identity(digest: str) -> str:
    """Content of prepared.json."""
    return json.dumps({"format": FORMAT, "digest": digest}) + "\n"


def encode(pairs: Sequence[Pair], source: TextTokenizer, target: TextTokenizer) -> ParallelStore:
    """Pairs of text as ids, in memory."""
    return ParallelStore(
        TokenStore.of(source.encode_batch([pair.source for pair in pairs])),
        TokenStore.of(target.encode_batch([pair.target for pair in pairs])),
    )


def _digest(config: Config, directory: Path) -> str:
    settings = config.model_dump(include={"data": True, "tokenizer": True, "seed": True})
    for side in settings["tokenizer"].values():
        del side["sampling_alpha"]  # decided anew at each epoch, not at preparation
    data = config.data
    languages = data.source_language, data.target_language
    contents = [
        [content_digest(spec, *languages, directory) for spec in specs if spec is not None]
        for specs in ([data.train], data.extra, [data.dev], [data.test])
    ]
    return hashlib.sha256(json.dumps([FORMAT, settings, contents], sort_keys=True).encode()).hexdigest()[:16]


def _write(place: Path, config: Config, directory: Path, workers: Workers) -> None:
    messages: list[str] = []
    with tempfile.TemporaryDirectory(prefix=".cleaned.", dir=place, ignore_cleanup_errors=True) as temporary:
        _write_parts(place, _Reader(config, directory, Path(temporary), workers), messages)
    sizes = _learn_tokenizers(place, config)
    counts = [_write_ids(place, part, workers) for part in PARTS]
    parts = ", ".join(f"{count:,} {part}" for part, count in zip(PARTS, counts, strict=True))
    messages.append(f"pairs: {parts}; vocabulary: {sizes[0]:,} source and {sizes[1]:,} target entries")
    write_text(place / "log.txt", "".join(f"{message}\n" for message in messages))


class _Reader:
    """Reads the corpora of a configuration once; `sizes` tells how many lines each had."""

    def __init__(self, config: Config, directory: Path, temporary: Path, workers: Workers) -> None:
        self.config, self.directory, self.temporary, self.workers = config, directory, temporary, workers
        self.sizes: dict[str, list[int]] = {}

    def pairs(self, key: str, spec: CorpusSpec) -> Iterator[Pair]:
        """The pairs of a corpus as they stand there; raises at its end where none has two sides."""
        data, count, usable = self.config.data, 0, False
        for pair in read_pairs(spec, data.source_language, data.target_language, self.directory):
            count += 1
            usable = usable or bool(pair.source.strip() and pair.target.strip())
            yield pair
        if not usable:
            raise _no_pair(key, spec)
        self.sizes.setdefault(key, []).append(count)

    def held_out(self, key: str, spec: CorpusSpec) -> list[Pair]:
        """The pairs of dev or test as they are measured on."""
        pairs = normalized(self.pairs(key, spec), self.config.data.cleaning.normalize)
        if not pairs:
            raise _no_pair(key, spec)
        return pairs

    def cleaned(self, key: str, specs: Sequence[CorpusSpec]) -> tuple[PairFile, Cleaned]:
        """What cleaning hands on of the pairs of all of the corpora, and what it leaves of that."""
        path = self.temporary / f"{key}.tsv"
        pairs = chain.from_iterable(self.pairs(key, spec) for spec in specs)
        with write_pairs(path) as write, _bar("reading", items=pairs) as bar:
            cleaned = clean(bar, self.config.data.cleaning, write, self.workers)
        return PairFile.open(path), cleaned


def _write_parts(place: Path, read: _Reader, messages: list[str]) -> None:
    """Write the text of each part, and where the pairs of train came from."""
    config, data = read.config, read.config.data
    for spec in (data.train, *data.extra, data.dev, data.test):
        licence = provenance(spec) if spec is not None else None
        if licence and licence not in messages:
            messages.append(licence)
    given = {part: spec for part, spec in (("dev", data.dev), ("test", data.test)) if spec is not None}
    held_out = {part: read.held_out(part, spec) for part, spec in given.items()}
    text, train = read.cleaned("train", [data.train])
    messages.append(f"cleaning: {train.report}")
    if not len(train.rows):
        faults = f"see data.cleaning: {train.report}"
        raise UserError(f"data.train: cleaning leaves nothing of {label(data.train).name}, {faults}")
    default = min(1000, max(100, len(train.rows) // 20))
    dev_size = 0 if "dev" in given else data.dev_size or default
    test_size = 0 if "test" in given else data.test_size or data.dev_size or default
    if dev_size or test_size:
        parts = split(train.keys, dev_size, test_size, config.seed)
        for part, rows in (("dev", parts.dev), ("test", parts.test)):
            if part not in given:
                held_out[part] = [text[row] for row in train.kept[rows]]
        train = train.take(parts.train)
    keys = {part: side_keys(held_out[part]) for part in ("dev", "test")}
    for part, theirs in keys.items():
        shared = overlap(train.keys, theirs)
        if shared:
            messages.append(
                f"warning: {shared:,} of {len(theirs):,} {part} pairs share a side with a training pair; "
                f"figures measured on them flatter the model"
            )
    with write_pairs(place / "train.tsv") as write:
        for lines in text.take(train.kept):
            write(lines)
        rows = train.rows
        if data.extra:
            text, extra = read.cleaned("extra", data.extra)
            free = extra.take(apart(extra.keys, np.concatenate(list(keys.values()))))
            messages.append(f"extra: {extra.report}, {len(free.rows):,} of them apart from dev and test")
            for lines in text.take(free.kept):
                write(lines)
            rows = np.concatenate([rows, free.rows + read.sizes["train"][0]])
    labels = map(label, (data.train, *data.extra))
    sizes = [*read.sizes["train"], *read.sizes.get("extra", [])]
    Origins.of(list(zip(labels, sizes, strict=True)), rows).write(place, "train")
    for part, pairs in held_out.items():
        with write_pairs(place / f"{part}.tsv") as write:
            write(format_pairs(pairs))


def _learn_tokenizers(place: Path, config: Config) -> list[int]:
    """Learn the tokenizers of both sides from the text of train, and write them; their sizes."""
    text = PairFile.open(place / "train.tsv")
    rows = np.arange(len(text))
    if len(rows) > LEARNING_PAIRS:
        rows = np.sort(np.random.default_rng(config.seed).choice(rows, LEARNING_PAIRS, replace=False))
    sizes = []
    for side, settings, language in (
        ("source", config.tokenizer.source, config.data.source_language),
        ("target", config.tokenizer.target, config.data.target_language),
    ):
        pairs = (parse(line) for lines in text.take(rows) for line in lines.splitlines())
        # It reads all of them first, and then thinks: the bar stays where it is meanwhile.
        with _bar(f"learning the {side} tokenizer", len(rows), pairs) as bar:
            tokenizer = train_tokenizer((getattr(pair, side) for pair in bar), settings, language, side)
        tokenizer.save(place, side)
        sizes.append(tokenizer.size)
    return sizes


def _write_ids(place: Path, part: str, workers: Workers) -> int:
    """Encode the text of a part; the number of its pairs."""
    text = PairFile.open(place / f"{part}.tsv")
    encoded = workers.map(functools.partial(_encode_lines, place), text.pieces())
    with (
        write_tokens(place, f"{part}.source") as write_source,
        write_tokens(place, f"{part}.target") as write_target,
        _bar(f"encoding {part}", len(text)) as bar,
    ):
        for source, target in encoded:
            write_source(source)
            write_target(target)
            bar.update(len(source.lengths))
    return len(text)


def _encode_lines(place: Path, lines: bytes) -> tuple[Flat, Flat]:
    source, target = _tokenizers(place)
    pairs = [parse(line) for line in lines.splitlines()]
    return (
        flat(source.encode_batch([pair.source for pair in pairs])),
        flat(target.encode_batch([pair.target for pair in pairs])),
    )


@functools.lru_cache(maxsize=1)
def _tokenizers(place: Path) -> tuple[TextTokenizer, TextTokenizer]:
    return load_tokenizer(place, "source"), load_tokenizer(place, "target")


def _bar(what: str, total: int | None = None, items: Iterable[Pair] = ()) -> "tqdm[Pair]":
    """A bar on stderr, where it takes longer than a moment."""
    return tqdm(items, what, total, unit=" pairs", unit_scale=True, delay=1.0, leave=False, dynamic_ncols=True)


def _no_pair(key: str, spec: CorpusSpec) -> UserError:
    lines = "two files of as many lines" if isinstance(spec, FilePair) else "a file with source<TAB>target lines"
    purpose, choice = "", ""
    if key in ("dev", "test"):
        purpose, choice = " to measure on", f", or leave data.{key} out, and it is split off from data.train"
    return UserError(f"data.{key}: {label(spec).name} holds no sentence pair{purpose}; give {lines}{choice}")


def normalized(pairs: Iterable[Pair], mend: bool) -> list[Pair]:
    """Held-out pairs as they are measured on: mended if asked for, without empty sides, nothing else dropped."""
    change = normalize if mend else one_line
    changed = (Pair(change(source), change(target)) for source, target in pairs)
    return [pair for pair in changed if pair.source.strip() and pair.target.strip()]
