"""From the configured text to a directory of ids: read, clean, split, learn tokenizers, encode; done once."""

import dataclasses
import hashlib
import json
import logging
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from seq2seq.config import Config
from seq2seq.config.schema import CorpusSpec
from seq2seq.data.cleaning import clean, normalize
from seq2seq.data.corpus import Pair, provenance, read_pairs
from seq2seq.data.files import write_text
from seq2seq.data.splitting import apart, overlap, split
from seq2seq.data.store import ParallelStore, TokenStore
from seq2seq.data.tokenizer import TextTokenizer, load_tokenizer, train_tokenizer
from seq2seq.errors import UserError

log = logging.getLogger(__name__)

PARTS = ("train", "dev", "test")
SIDES = ("source", "target")
FORMAT = 1
"""Raised when the prepared files change, so that older ones are made again."""


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A prepared corpus on disk."""

    directory: Path

    def is_complete(self) -> bool:
        """Whether it was made, and nothing of it was deleted."""
        stores = (f"{part}.{side}.{array}.npy" for part in PARTS for side in SIDES for array in ("ids", "offsets"))
        return all((self.directory / name).is_file() for name in ("log.txt", *(f"{p}.tsv" for p in PARTS), *stores))

    def store(self, part: str) -> ParallelStore:
        """Ids of `train`, `dev` or `test`."""
        return ParallelStore.open(self.directory, part)

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

    Raises:
        UserError: a corpus is missing, damaged, or empty after cleaning.
    """
    data = config.data
    specs: dict[str, list[CorpusSpec]] = {
        "train": [data.train],
        "extra": data.extra,
        "dev": [data.dev] if data.dev else [],
        "test": [data.test] if data.test else [],
    }
    raw = {key: _read(config, key, given, directory) for key, given in specs.items()}
    place = directory / "prepared" / _digest(config, raw)
    if not Prepared(place).is_complete():
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
        try:
            _write(temporary, config, raw)
            temporary.chmod(0o755)
            try:
                temporary.rename(place)
            except OSError:
                # Another process finished the same work first.
                if not place.is_dir():
                    raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    for line in (place / "log.txt").read_text(encoding="utf-8").splitlines():
        log.info(line)
    return Prepared(place)


def encode(pairs: Sequence[Pair], source: TextTokenizer, target: TextTokenizer) -> ParallelStore:
    """Pairs of text as ids, in memory."""
    return ParallelStore(
        TokenStore.of(source.encode_batch([pair.source for pair in pairs])),
        TokenStore.of(target.encode_batch([pair.target for pair in pairs])),
    )


def _read(config: Config, key: str, specs: Iterable[CorpusSpec], directory: Path) -> list[Pair]:
    read: list[Pair] = []
    for spec in specs:
        pairs = list(read_pairs(spec, config.data.source_language, config.data.target_language, directory))
        if not any(pair.source.strip() and pair.target.strip() for pair in pairs):
            raise UserError(f"data.{key}: {spec} holds no sentence pair; give a file with source<TAB>target lines")
        read += pairs
    return read


def _digest(config: Config, raw: dict[str, list[Pair]]) -> str:
    settings = config.model_dump(include={"data": True, "tokenizer": True, "seed": True})
    for side in settings["tokenizer"].values():
        del side["sampling_alpha"]  # decided anew at each epoch, not at preparation
    digest = hashlib.sha256(json.dumps([FORMAT, settings], sort_keys=True).encode())
    for part, pairs in raw.items():
        for pair in pairs:
            digest.update(f"{part}\t{pair.source}\t{pair.target}\n".encode())
    return digest.hexdigest()[:16]


def _write(place: Path, config: Config, raw: dict[str, list[Pair]]) -> None:
    messages: list[str] = []
    parts = _parts(config, raw, messages)
    tokenizers = {
        side: train_tokenizer((getattr(pair, side) for pair in parts["train"]), settings, language, side)
        for side, settings, language in (
            ("source", config.tokenizer.source, config.data.source_language),
            ("target", config.tokenizer.target, config.data.target_language),
        )
    }
    for side, tokenizer in tokenizers.items():
        tokenizer.save(place, side)
    for part, pairs in parts.items():
        # Without cleaning.normalize a sentence may hold a tab, which would end its column.
        lines = ("\t".join(side.replace("\t", " ") for side in pair) + "\n" for pair in pairs)
        write_text(place / f"{part}.tsv", "".join(lines))
        encode(pairs, tokenizers["source"], tokenizers["target"]).write(place, part)
    sizes = ", ".join(f"{len(pairs):,} {part}" for part, pairs in parts.items())
    vocabularies = f"{tokenizers['source'].size:,} source and {tokenizers['target'].size:,} target entries"
    messages.append(f"pairs: {sizes}; vocabulary: {vocabularies}")
    write_text(place / "log.txt", "".join(f"{message}\n" for message in messages))


def _parts(config: Config, raw: dict[str, list[Pair]], messages: list[str]) -> dict[str, list[Pair]]:
    data = config.data
    for spec in (data.train, *data.extra, data.dev, data.test):
        origin = provenance(spec) if spec is not None else None
        if origin and origin not in messages:
            messages.append(origin)
    train, report = clean(raw["train"], data.cleaning)
    messages.append(f"cleaning: {report}")
    if not train:
        raise UserError(f"data.train: cleaning leaves nothing of {data.train}: {report}")
    held_out = {part: normalized(raw[part], data.cleaning.normalize) for part in ("dev", "test")}
    default = min(1000, max(100, len(train) // 20))
    dev_size = 0 if raw["dev"] else data.dev_size or default
    test_size = 0 if raw["test"] else data.test_size or data.dev_size or default
    if dev_size or test_size:
        parts = split(train, dev_size, test_size, config.seed)
        train = parts.train
        held_out["dev"] = held_out["dev"] or parts.dev
        held_out["test"] = held_out["test"] or parts.test
    for part, pairs in held_out.items():
        if not pairs:
            raise UserError(f"data.{part}: {getattr(data, part)} holds no sentence pair to measure on")
        shared = overlap(train, pairs)
        if shared:
            messages.append(
                f"warning: {shared:,} of {len(pairs):,} {part} pairs share a side with a training pair; "
                f"figures measured on them flatter the model"
            )
    if raw["extra"]:
        extra, report = clean(raw["extra"], data.cleaning)
        extra = apart(extra, [*held_out["dev"], *held_out["test"]])
        messages.append(f"extra: {report}, {len(extra):,} of them apart from dev and test")
        train += extra
    return {"train": train, **held_out}


def normalized(pairs: Iterable[Pair], mend: bool) -> list[Pair]:
    """Held-out pairs as they are measured on: mended if asked for, without empty sides, nothing else dropped."""
    mended = (Pair(normalize(source), normalize(target)) if mend else Pair(source, target) for source, target in pairs)
    return [pair for pair in mended if pair.source.strip() and pair.target.strip()]
