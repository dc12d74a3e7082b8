"""Reads and writes the files of one run."""

import json
import logging
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seq2seq.checkpoint.checkpoints import Checkpoints
from seq2seq.checkpoint.formats import CHECKED, FORMAT, renamed
from seq2seq.checkpoint.guarded_files import GuardedFiles
from seq2seq.checkpoint.lock import locked
from seq2seq.checkpoint.tensors import DamagedError, read_tensors, write_tensors
from seq2seq.config import Config, dump_config, parse_config
from seq2seq.data.corpus import Pair, read_pairs
from seq2seq.data.files import write_text
from seq2seq.data.folders import remove_leftovers
from seq2seq.data.prepare import Prepared
from seq2seq.data.tokenizer import TextTokenizer, load_tokenizer
from seq2seq.errors import UserError
from seq2seq.model import Seq2Seq, build_model

log = logging.getLogger(__name__)

RUN = "run"
"""Key of the metadata that says which run a file of tensors is of."""


class LoadedRun(NamedTuple):
    """What translating needs."""

    config: Config
    source: TextTokenizer
    target: TextTokenizer
    model: Seq2Seq


class RunDirectory:
    """A run on disk; seq2seq/checkpoint/__init__.py says what it holds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = GuardedFiles(path)
        self.checkpoints = Checkpoints(path, self.load_tensors, self.save_tensors)

    @property
    def exists(self) -> bool:
        """Whether a run was begun here."""
        return (self.path / "run.json").is_file()

    def refuse_if_used(self) -> None:
        """See to it that a new run overwrites nothing.

        Raises:
            UserError: the directory already holds something, or a file stands in its way.
        """
        for parent in self.path.parents:
            if parent.exists() and not parent.is_dir():
                raise UserError(f"{parent}: is a file, so {self.path} cannot be a run directory; name another --run")
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise UserError(f"{self.path}: exists already; add --resume to go on with it, or name another --run")

    def create(self, config: Config, prepared: Prepared) -> None:
        """Begin a run: everything but the weights.

        Raises:
            UserError: the directory already holds something.
        """
        self.refuse_if_used()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(self.path.parent)
        with tempfile.TemporaryDirectory(prefix=f".{self.path.name}.", dir=self.path.parent) as temporary:
            new = RunDirectory(Path(temporary) / "run")
            new.path.mkdir()
            for side in ("source", "target"):
                prepared.tokenizer(side).save(new.path, side)
            for part in ("dev", "test"):
                write_text(new.path / f"{part}.tsv", prepared.text_path(part).read_text(encoding="utf-8"))
            new.files.guard_all()
            new.files.write("config.yaml", dump_config(config))
            new.write_info(format=FORMAT, status="running", begun=time.time(), prepared=prepared.directory.name)
            if self.path.is_dir():  # an empty one, which not every system lets a folder replace
                self.path.rmdir()
            try:
                new.path.rename(self.path.resolve())
            except OSError as error:  # made by another training meanwhile, or a place where a disk is mounted
                raise UserError(f"{self.path}: cannot be made: {error.strerror}; name another --run") from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run for one training; what a killed one left half written is removed.

        Raises:
            UserError: another training is at work here.
        """
        self.files.refuse_link(".lock")
        with locked(self.path):
            for left in self.path.glob(".*.tmp"):
                if left.is_file():
                    left.unlink()
            yield

    def prepared(self, directory: Path = Path("data")) -> Prepared | None:
        """The corpus the run was begun with, where it is still prepared here."""
        name = str(self.info().get("prepared"))
        prepared = Prepared(directory / "prepared" / name)
        # A name from a stranger must not lead out of the folder.
        return prepared if name.isalnum() and prepared.is_complete() else None

    def info(self) -> dict[str, Any]:
        """What run.json says.

        Raises:
            UserError: this is no run directory, or one of an unknown format.
        """
        info = self.read_json("run.json")
        found = info.get("format")
        if not isinstance(found, int) or not 1 <= found <= FORMAT:
            raise UserError(
                f"{self.path}: run format {found!r}, but this version reads 1 to {FORMAT}; use a newer seq2seq"
            )
        if found >= CHECKED:
            self.files.refuse_unguarded()
        return info

    def write_info(self, **fields: Any) -> None:
        """Add fields to run.json."""
        self.write_json("run.json", (self.info() if self.exists else {}) | fields)

    def read_json(self, name: str) -> dict[str, Any]:
        """A JSON object of the run.

        Raises:
            UserError: the file is missing or damaged.
        """
        if not (self.path / name).exists():
            raise UserError(f"{self.path}: no run directory ({name} is missing); `make train` makes one")
        try:
            content = json.loads(self.files.read(name))
        except (ValueError, RecursionError) as error:
            raise UserError(f"{self.path / name}: cannot be read: {error}") from None
        if not isinstance(content, dict):
            raise UserError(f"{self.path / name}: holds no JSON object")
        return content

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        """Write a JSON object of the run."""
        self.files.write(name, json.dumps(content, ensure_ascii=False, indent=1) + "\n")

    def config(self) -> Config:
        """The configuration of the run.

        Raises:
            UserError: the file is missing or damaged.
        """
        return parse_config(self.files.read("config.yaml"), name=str(self.path / "config.yaml"))

    def tokenizers(self) -> tuple[TextTokenizer, TextTokenizer]:
        """The source and the target tokenizer the model was trained with.

        Raises:
            UserError: a file is missing or damaged.
        """
        for name in (f"tokenizer.{side}.{suffix}" for side in ("source", "target") for suffix in ("model", "json")):
            self.files.check(name)
        return load_tokenizer(self.path, "source"), load_tokenizer(self.path, "target")

    def pairs(self, part: str) -> list[Pair]:
        """The held-out pairs: `dev` or `test`.

        Raises:
            UserError: the file is missing or damaged.
        """
        self.files.require(f"{part}.tsv")
        return list(read_pairs(str(self.path / f"{part}.tsv"), "", ""))

    def save_tensors(self, name: str, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
        """Write tensors and metadata as NAME.safetensors; the old file stands until the new one is whole."""
        write_tensors(self.path / f"{name}.safetensors", tensors, {**metadata, RUN: self._identity()})

    def load_tensors(self, name: str) -> tuple[dict[str, Tensor], dict[str, str]]:
        """Tensors (on the CPU) and metadata of NAME.safetensors.

        Raises:
            DamagedError: the file is not as it was written.
            UserError: the file is missing.
        """
        path, written_by = self.path / f"{name}.safetensors", self.info()["format"]
        self.files.refuse_link(path.name)
        tensors, metadata = read_tensors(path, checked=written_by >= CHECKED)
        if metadata.pop(RUN, self._identity()) != self._identity():
            raise DamagedError(f"{path}: is of another run; copy the run anew")
        return tensors if written_by > 1 else renamed(tensors), metadata

    def _identity(self) -> str:
        return str(self.info().get("begun"))

    def metrics_up_to(self, step: int) -> str:
        """Lines of metrics.jsonl without those of later updates, which are lost, and without one that was cut off."""
        path = self.path / "metrics.jsonl"
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        return "".join(line for line in text.splitlines(keepends=True) if _step_of(line) <= step)

    def load(self, device: torch.device) -> LoadedRun:
        """The model that did best on dev, ready to translate, with all it needs.

        Raises:
            UserError: this is no run, it has no model yet, or a file is damaged.
        """
        self.info()
        config = self.config()
        source, target = self.tokenizers()
        # Without memory until the file is seen to hold what the configuration says.
        with torch.device("meta"):
            model = build_model(config, source.size, target.size)
        weights, origin = self._best_weights()
        try:
            if any(value.dtype != torch.float32 for value in weights.values()):
                raise RuntimeError("weights of another kind than float32")
            model.load_state_dict(weights, assign=True)
        except RuntimeError as error:
            first = str(error).splitlines()[-1].strip()[:200]
            raise UserError(f"{origin}: does not fit the model that config.yaml describes: {first}") from None
        return LoadedRun(config, source, target, model.to(device).eval())

    def _best_weights(self) -> tuple[dict[str, Tensor], Path]:
        """Of best.safetensors, or where that is damaged of the last checkpoint; and the file they are from."""
        best = self.path / "best.safetensors"
        try:
            return self.load_tensors("best")[0], best
        except DamagedError as error:
            if not self.checkpoints.exist:
                raise
            log.warning(f"warning: {error}; the weights of the last checkpoint are used instead")
        tensors, _, origin = self.checkpoints.load()
        for part in ("average.", "model."):
            weights = {name.removeprefix(part): each for name, each in tensors.items() if name.startswith(part)}
            if weights:
                break
        return weights, origin


def _step_of(line: str) -> float:
    """The update a line of metrics.jsonl is about; infinity for one that was cut off."""
    try:
        return float(json.loads(line)["step"]) if line.endswith("\n") else float("inf")
    except (ValueError, KeyError, TypeError):
        return float("inf")
