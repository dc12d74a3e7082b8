"""A run directory: config, tokenizers, held-out text, weights and trainer state. No pickle anywhere.

run.json               format, status (running | finished), times
config.yaml            the whole configuration
tokenizer.source.*     tokenizer.target.*
dev.tsv  test.tsv      the held-out pairs, so that a run is measured on what it never saw, anywhere
best.safetensors       weights that did best on dev
last.safetensors       weights, optimizer and trainer state to resume from
metrics.jsonl          one line for each report of the loop
report.json            the final evaluation
"""

import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from seq2seq.config import Config, dump_config, load_config
from seq2seq.data.corpus import Pair, read_pairs
from seq2seq.data.files import atomic_write, write_text
from seq2seq.data.prepare import Prepared
from seq2seq.data.tokenizer import TextTokenizer, load_tokenizer
from seq2seq.errors import UserError
from seq2seq.model import Seq2Seq, build_model

FORMAT = 2
RUNS = Path("runs")
CHANGEABLE = ("training", "teacher_forcing", "search", "device", "threads")
"""Sections of the configuration that may change on resume."""


class RunDirectory:
    """Reads and writes the files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

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
        with tempfile.TemporaryDirectory(prefix=f".{self.path.name}.", dir=self.path.parent) as temporary:
            new = RunDirectory(Path(temporary) / "run")
            new.path.mkdir()
            new.write("config.yaml", dump_config(config))
            for side in ("source", "target"):
                prepared.tokenizer(side).save(new.path, side)
            for part in ("dev", "test"):
                shutil.copyfile(prepared.text_path(part), new.path / f"{part}.tsv")
            new.write_info(status="running", begun=time.time(), prepared=prepared.directory.name)
            new.path.replace(self.path)

    def adopt(self, config: Config, prepared: Prepared) -> None:
        """Go on with a changed configuration, where a run that is under way can take the change.

        Raises:
            UserError: the change is one of model, tokenizer or data, or the text itself has changed.
        """
        begun, now = self.config().model_dump(), config.model_dump()
        for key in begun.keys() - CHANGEABLE:
            if begun[key] != now[key]:
                raise UserError(
                    f"{self.path}: {key} is not what the run was begun with; only {', '.join(CHANGEABLE)} "
                    f"may change on resume: start a new run for the rest"
                )
        if self.info().get("prepared") != prepared.directory.name:
            raise UserError(f"{self.path}: the corpus is not the one the run was begun with; start a new run")
        self.write("config.yaml", dump_config(config))

    def prepared(self, directory: Path = Path("data")) -> Prepared | None:
        """The corpus the run was begun with, where it is still prepared here."""
        prepared = Prepared(directory / "prepared" / str(self.info().get("prepared")))
        return prepared if prepared.is_complete() else None

    def info(self) -> dict[str, Any]:
        """What run.json says.

        Raises:
            UserError: this is no run directory, or one of another format.
        """
        info = self.read_json("run.json")
        if info.get("format") != FORMAT:
            raise UserError(f"{self.path}: run format {info.get('format')!r}; this version reads format {FORMAT}")
        return info

    def write_info(self, **fields: Any) -> None:
        """Add fields to run.json."""
        known = self.info() if self.exists else {"format": FORMAT}
        self.write_json("run.json", known | fields)

    def read_json(self, name: str) -> dict[str, Any]:
        """A JSON object of the run."""
        path = self.path / name
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UserError(f"{self.path}: no run directory ({name} is missing); `make train` makes one") from None
        except (OSError, ValueError) as error:
            raise UserError(f"{path}: cannot be read: {error}") from None
        if not isinstance(content, dict):
            raise UserError(f"{path}: holds no JSON object")
        return content

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        """Write a JSON object of the run."""
        self.write(name, json.dumps(content, ensure_ascii=False, indent=1) + "\n")

    def write(self, name: str, content: str) -> None:
        """Write a text file of the run."""
        write_text(self.path / name, content)

    def config(self) -> Config:
        """The configuration of the run.

        Raises:
            UserError: the file is missing or damaged.
        """
        return load_config(self._whole("config.yaml"))

    def tokenizers(self) -> tuple[TextTokenizer, TextTokenizer]:
        """The source and the target tokenizer the model was trained with."""
        return load_tokenizer(self.path, "source"), load_tokenizer(self.path, "target")

    def pairs(self, part: str) -> list[Pair]:
        """The held-out pairs: `dev` or `test`."""
        return list(read_pairs(str(self._whole(f"{part}.tsv")), "", ""))

    def _whole(self, name: str) -> Path:
        path = self.path / name
        if not path.is_file() or not path.stat().st_size:
            raise UserError(f"{path}: missing or empty; the run is damaged, train again or copy it anew")
        return path

    def save_tensors(self, name: str, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
        """Write tensors and metadata as NAME.safetensors; the old file stands until the new one is whole."""
        content = save({key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}, metadata)
        with atomic_write(self.path / f"{name}.safetensors") as file:
            file.write(content)

    def load_tensors(self, name: str) -> tuple[dict[str, Tensor], dict[str, str]]:
        """Tensors (on the CPU) and metadata of NAME.safetensors.

        Raises:
            UserError: the file is missing or damaged.
        """
        path = self.path / f"{name}.safetensors"
        try:
            with safe_open(path, framework="pt", device="cpu") as file:
                return {key: file.get_tensor(key) for key in file.keys()}, file.metadata() or {}  # noqa: SIM118
        except FileNotFoundError:
            raise UserError(f"{path}: missing; the run has not saved a model yet") from None
        except (SafetensorError, OSError) as error:
            raise UserError(f"{path}: damaged or no safetensors file ({error})") from None

    def load(self, device: torch.device) -> "LoadedRun":
        """The model that did best on dev, ready to translate, with all it needs.

        Raises:
            UserError: this is no run, it has no model yet, or a file is damaged.
        """
        self.info()
        config = self.config()
        source, target = self.tokenizers()
        model = build_model(config, source.size, target.size)
        weights, _ = self.load_tensors("best")
        load_weights(model, weights, self.path / "best.safetensors")
        return LoadedRun(config, source, target, model.to(device).eval())


class LoadedRun(NamedTuple):
    """What translating needs."""

    config: Config
    source: TextTokenizer
    target: TextTokenizer
    model: Seq2Seq


def load_weights(model: Seq2Seq, weights: dict[str, Tensor], origin: Path) -> None:
    """Put weights into a model.

    Raises:
        UserError: names or shapes differ.
    """
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        first = str(error).splitlines()[-1].strip()[:200]
        raise UserError(f"{origin}: does not fit the model that config.yaml describes: {first}") from None


def find_run(model: str | None) -> RunDirectory:
    """The run named by --model, else by SEQ2SEQ_MODEL, else the newest finished one under runs/.

    Raises:
        UserError: there is none.
    """
    model = model or os.environ.get("SEQ2SEQ_MODEL")
    if model:
        run = RunDirectory(Path(model))
        run.info()
        return run
    finished = [(info.get("finished", 0.0), run) for info, run in runs("*") if info.get("status") == "finished"]
    if not finished:
        raise UserError(f"no finished run under {RUNS}/: train one with `make train`, or name one with --model DIR")
    return max(finished, key=lambda each: each[0])[1]


def find_unfinished(name: str) -> RunDirectory:
    """The run of configs/NAME.yaml that was begun last and not finished.

    Raises:
        UserError: there is none.
    """
    stamp = "[0-9]" * 8 + "-" + "[0-9]" * 6
    unfinished = [run for info, run in runs(f"{name}-{stamp}") if info.get("status") == "running"]
    if not unfinished:
        raise UserError(f"--resume: no unfinished run {RUNS}/{name}-*; name it with --run DIR")
    return max(unfinished, key=lambda run: run.path.name)


def runs(pattern: str) -> list[tuple[dict[str, Any], RunDirectory]]:
    """What run.json says, and the run, of each readable run under runs/ whose name fits the pattern."""
    found = []
    for path in RUNS.glob(f"{pattern}/run.json"):
        run = RunDirectory(path.parent)
        try:
            found.append((run.info(), run))
        except UserError:
            continue
    return found
