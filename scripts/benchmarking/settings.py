"""The configuration of a training that is measured, and the arguments it comes from."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from seq2seq.config import Config, dump_config, parse_config
from seq2seq.config.yaml_text import dump_yaml
from seq2seq.data.files import write_text
from seq2seq.data.prepare import Prepared, prepare
from seq2seq.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
TATOEBA = ROOT.parent / "shared" / "data" / "tatoeba"
SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "opennmt": {"encoder": {"hidden_size": 256}, "decoder": {"hidden_size": 512, "tie_embeddings": False}},
    "joeynmt": {"encoder": {"hidden_size": 512}, "decoder": {"hidden_size": 512, "tie_embeddings": False}},
    "default": {"encoder": {}, "decoder": {}},
}
"""Of the peers (a recurrent decoder has an output layer of its own there), and our own defaults; embeddings are 256,
and an encoder's size is that of each direction."""
FOREVER = 1_000_000_000
"""Updates that no measurement reaches."""


class Ours(NamedTuple):
    """A training of ours, ready to be started."""

    config: Config
    prepared: Prepared
    command: Sequence[str]
    """It stands still until it is told to run; see stopwatch.py."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments that decide what is trained."""
    add = parser.add_argument
    text = "TSV, or a folder of train.tsv, dev.tsv and test.tsv (default: ../shared/data/tatoeba)"
    add("--data", type=Path, default=TATOEBA, help=text)
    add("--batch-tokens", type=int, default=2048, metavar="N", help="tokens in a batch at most (default: 2048)")
    add("--attend", choices=("after", "before"), default="after", help="order of the decoder (default: after)")
    add("--sizes", choices=tuple(SIZES), help="sizes of the model (default: those of --against, else default)")
    add("--threads", type=int, default=available_cores(), metavar="N", help="CPU threads (default: one for each core)")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="override a key of our configuration")
    add("--debug", action="store_true", help="show the traceback of an error")


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def prepare_training(given: argparse.Namespace, sizes: str, folder: Path) -> Ours:
    """The training that the arguments describe, its corpus prepared below data/, its run in `folder`.

    Raises:
        UserError: there is no such data, or an override does not fit.
    """
    config = training_config(given.data, sizes, given.attend, given.batch_tokens, given.threads, given.set)
    prepared = prepare(config)
    settings = folder / "seq2seq.yaml"
    write_text(settings, dump_config(config))
    module = [sys.executable, "-m", "benchmarking.run_seq2seq"]
    return Ours(config, prepared, [*module, str(settings), "--run", str(folder / "run")])


def training_config(
    data: Path, sizes: str, attend: str, batch_tokens: int, threads: int, overrides: Sequence[str] = ()
) -> Config:
    """A training that goes on for as long as it is measured, with nothing but updates.

    Raises:
        UserError: there is no such data, or an override does not fit.
    """
    if not data.exists():
        raise UserError(f"{data}: no such file or folder; name a TSV with --data")
    data = data.resolve()
    parts = ("train", "dev", "test")
    chosen = SIZES[sizes]
    document: dict[str, Any] = {
        "device": "cpu",
        "threads": threads,
        "data": {part: str(data / f"{part}.tsv") for part in parts} if data.is_dir() else {"train": str(data)},
        "tokenizer": {"source": {"vocabulary_size": 8000}, "target": {"vocabulary_size": 5800}},
        "encoder": {"embedding_dropout": 0.3, **chosen["encoder"]},
        "attention": {"kind": "additive"},
        "decoder": {"attend": attend, "embedding_dropout": 0.3, "dropout": 0.3, **chosen["decoder"]},
        "training": {
            "max_steps": FOREVER,
            "validate_every": FOREVER,
            "checkpoint_minutes": None,
            "batch_tokens": batch_tokens,
            "learning_rate": 5e-4,
            "warmup_steps": 0,
            "schedule": "constant",
        },
    }
    return parse_config(dump_yaml(document), overrides, "benchmark")
