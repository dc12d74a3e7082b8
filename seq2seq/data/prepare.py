"""From the configured text to a directory of ids: read, clean, split, learn tokenizers, encode; done once."""

import dataclasses
import hashlib
import json
import logging
import os
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from seq2seq.config import Config
from seq2seq.config.schema import CorpusSpec, FilePair
from seq2seq.data.checksums import damaged, write_checksums
from seq2seq.data.cleaning import clean, normalize, one_line
from seq2seq.data.corpus import Pair, label, provenance, read_pairs
from seq2seq.data.files import write_text
from seq2seq.data.folders import atomic_folder, discard, remove_leftovers
from seq2seq.data.origins import Origins
from seq2seq.data.splitting import apart, overlap, split
from seq2seq.data.store import ParallelStore, TokenStore
from seq2seq.data.tokenizer import TextTokenizer, load_tokenizer, train_tokenizer
from seq2seq.errors import UserError

log = logging.getLogger(__name__)

_Raw = dict[str, list[list[Pair]]]
"""Corpora as they were read, by key of `data`: train, extra, dev, test."""

PARTS = ("train", "dev", "test")
SIDES = ("source", "target")
FORMAT = 2
"""Raised when the prepared files change, so that older ones are made again."""
_FILES = (
    *("prepared.json", "log.txt", "train.origins.npy", "train.origins.json"),
    *(f"{part}.tsv" for part in PARTS),
    *(f"{part}.{side}.{array}.npy" for part in PARTS for side in SIDES for array in ("ids", "offsets")),
)
"""All but the tokenizers, whose names depend on their kind."""


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

    def pairs(self, part: str) -> list[Pair]:
        """Text of `train`, `dev` or `test`, as it was tokenized."""
        return list(read_pairs(str(self.text_path(part)), "", ""))

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
    data = config.data
    specs: dict[str, list[CorpusSpec]] = {
        "train": [data.train],
        "extra": data.extra,
        "dev": [data.dev] if data.dev else [],
        "test": [data.test] if data.test else [],
    }
    raw = {key: [_read(config, key, spec, directory) for spec in given] for key, given in specs.items()}
    digest = _digest(config, raw)
    place = directory / "prepared" / digest
    prepared = Prepared(place)
    faults = prepared.damaged()
    if faults:
        if os.path.lexists(place):
            names = ", ".join(faults[:3]) + (f" and {len(faults) - 3} more" if len(faults) > 3 else "")
            log.warning(f"warning: {place}: {names} missing or damaged; the corpus is prepared again")
            discard(place)
        remove_leftovers(place.parent)
        with atomic_folder(place) as temporary:
            _write(temporary, config, raw)
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


def _read(config: Config, key: str, spec: CorpusSpec, directory: Path) -> list[Pair]:
    pairs = list(read_pairs(spec, config.data.source_language, config.data.target_language, directory))
    if not any(pair.source.strip() and pair.target.strip() for pair in pairs):
        raise _no_pair(key, spec)
    return pairs


def _no_pair(key: str, spec: CorpusSpec) -> UserError:
    lines = "two files of as many lines" if isinstance(spec, FilePair) else "a file with source<TAB>target lines"
    purpose, choice = "", ""
    if key in ("dev", "test"):
        purpose, choice = " to measure on", f", or leave data.{key} out, and it is split off from data.train"
    return UserError(f"data.{key}: {label(spec).name} holds no sentence pair{purpose}; give {lines}{choice}")


def _digest(config: Config, raw: _Raw) -> str:
    settings = config.model_dump(include={"data": True, "tokenizer": True, "seed": True})
    for side in settings["tokenizer"].values():
        del side["sampling_alpha"]  # decided anew at each epoch, not at preparation
    digest = hashlib.sha256(json.dumps([FORMAT, settings], sort_keys=True).encode())
    for key, corpora in raw.items():
        for number, pairs in enumerate(corpora):
            for pair in pairs:
                # With the lengths, so that no tab or line end in a sentence makes two corpora look alike.
                digest.update(f"{key}\t{number}\t{len(pair.source)}\t{len(pair.target)}\t".encode())
                digest.update("".join(pair).encode())
    return digest.hexdigest()[:16]


def _write(place: Path, config: Config, raw: _Raw) -> None:
    messages: list[str] = []
    parts, origins = _parts(config, raw, messages)
    tokenizers = {
        side: train_tokenizer((getattr(pair, side) for pair in parts["train"]), settings, language, side)
        for side, settings, language in (
            ("source", config.tokenizer.source, config.data.source_language),
            ("target", config.tokenizer.target, config.data.target_language),
        )
    }
    for side, tokenizer in tokenizers.items():
        tokenizer.save(place, side)
    origins.write(place, "train")
    for part, pairs in parts.items():
        write_text(place / f"{part}.tsv", "".join(f"{source}\t{target}\n" for source, target in pairs))
        encode(pairs, tokenizers["source"], tokenizers["target"]).write(place, part)
    sizes = ", ".join(f"{len(pairs):,} {part}" for part, pairs in parts.items())
    vocabularies = f"{tokenizers['source'].size:,} source and {tokenizers['target'].size:,} target entries"
    messages.append(f"pairs: {sizes}; vocabulary: {vocabularies}")
    write_text(place / "log.txt", "".join(f"{message}\n" for message in messages))


def _parts(config: Config, raw: _Raw, messages: list[str]) -> tuple[dict[str, list[Pair]], Origins]:
    """The pairs of each part, and where those of train came from."""
    data = config.data
    for spec in (data.train, *data.extra, data.dev, data.test):
        licence = provenance(spec) if spec is not None else None
        if licence and licence not in messages:
            messages.append(licence)
    held_out: dict[str, list[Pair]] = {}
    for part, spec in (("dev", data.dev), ("test", data.test)):
        if spec is not None:
            held_out[part] = normalized(raw[part][0], data.cleaning.normalize)
            if not held_out[part]:
                raise _no_pair(part, spec)
    train, positions, report = clean(raw["train"][0], data.cleaning)
    messages.append(f"cleaning: {report}")
    if not train:
        raise UserError(f"data.train: cleaning leaves nothing of {label(data.train).name}, see data.cleaning: {report}")
    rows = np.asarray(positions)
    default = min(1000, max(100, len(train) // 20))
    dev_size = 0 if raw["dev"] else data.dev_size or default
    test_size = 0 if raw["test"] else data.test_size or data.dev_size or default
    if dev_size or test_size:
        parts = split(train, dev_size, test_size, config.seed)
        held_out = {
            "dev": held_out.get("dev") or [train[row] for row in parts.dev],
            "test": held_out.get("test") or [train[row] for row in parts.test],
        }
        train, rows = [train[row] for row in parts.train], rows[parts.train]
    for part, pairs in held_out.items():
        shared = overlap(train, pairs)
        if shared:
            messages.append(
                f"warning: {shared:,} of {len(pairs):,} {part} pairs share a side with a training pair; "
                f"figures measured on them flatter the model"
            )
    if raw["extra"]:
        extra, positions, report = clean(chain.from_iterable(raw["extra"]), data.cleaning)
        free = apart(extra, [*held_out["dev"], *held_out["test"]])
        messages.append(f"extra: {report}, {len(free):,} of them apart from dev and test")
        train += [extra[row] for row in free]
        rows = np.concatenate([rows, len(raw["train"][0]) + np.asarray(positions)[free]])
    sizes = zip(map(label, (data.train, *data.extra)), map(len, (*raw["train"], *raw["extra"])), strict=True)
    return {"train": train, **held_out}, Origins.of(list(sizes)).take(rows)


def normalized(pairs: Iterable[Pair], mend: bool) -> list[Pair]:
    """Held-out pairs as they are measured on: mended if asked for, without empty sides, nothing else dropped."""
    change = normalize if mend else one_line
    changed = (Pair(change(source), change(target)) for source, target in pairs)
    return [pair for pair in changed if pair.source.strip() and pair.target.strip()]
