"""Other toolkits: an environment for each, and its own configuration of a training like ours."""

import subprocess
import sys
import venv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tqdm import tqdm

from benchmarking.settings import FOREVER, ROOT
from seq2seq.config import Config
from seq2seq.config.yaml_text import dump_yaml
from seq2seq.data.files import write_text
from seq2seq.errors import UserError

TORCH = "torch==" + torch.__version__.partition("+")[0]
"""The peers run on our own version."""


class Peer(NamedTuple):
    """A toolkit, and how to make it train what we train."""

    title: str
    module: str
    """Runs its own command with a stopwatch between the updates."""
    command: Sequence[str]
    """Arguments of that command; the path of its configuration follows."""
    requirements: Sequence[str]
    """With their own requirements, which include those of `alone` as far as they are needed to train."""
    alone: Sequence[str]
    """Without theirs, which do not go with this version of PyTorch, of Python, or with each other."""
    settings: Callable[[Config, Path, int], dict[str, Any]]
    """Its configuration from ours, the folder of the pieces, and the pairs in there."""


def joeynmt(config: Config, folder: Path, pairs: int) -> dict[str, Any]:
    """JoeyNMT's YAML."""
    encoder, decoder, training = config.encoder, config.decoder, config.training
    sides = {
        name: {"lang": side, "level": "word", "voc_file": str(folder / f"vocabulary.{side}")}
        for name, side in (("src", "source"), ("trg", "target"))
    }
    return {
        "name": "benchmark",
        "model_dir": str(folder / "joeynmt"),
        "use_cuda": False,
        "random_seed": config.seed,
        "data": {"train": str(folder / "train"), "dev": str(folder / "dev"), "dataset_type": "plain", **sides},
        "testing": {},
        "training": {
            "optimizer": "adam",
            "learning_rate": training.learning_rate,
            "learning_rate_min": 0.0,
            # Constant: "plateau" does not go with this version of PyTorch.
            "scheduling": "exponential",
            "decrease_factor": 1.0,
            "label_smoothing": training.label_smoothing,
            "clip_grad_norm": training.clip_norm,
            "normalization": "tokens",
            "batch_size": training.batch_tokens,
            "batch_type": "token",
            "epochs": FOREVER,
            "logging_freq": 100,
            "validation_freq": FOREVER,
        },
        "model": {
            "encoder": {
                "type": "recurrent",
                "rnn_type": encoder.cell,
                "bidirectional": encoder.bidirectional,
                "embeddings": {"embedding_dim": encoder.embedding_size, "dropout": encoder.embedding_dropout},
                "hidden_size": encoder.hidden_size,
                "num_layers": encoder.layers,
                "dropout": encoder.dropout,
            },
            "decoder": {
                "type": "recurrent",
                "rnn_type": decoder.cell,
                "embeddings": {"embedding_dim": decoder.embedding_size, "dropout": decoder.embedding_dropout},
                "hidden_size": decoder.hidden_size,
                "num_layers": decoder.layers,
                "hidden_dropout": decoder.dropout,
                "dropout": decoder.dropout,
                "attention": "bahdanau",
                "init_hidden": "bridge",
                "input_feeding": decoder.attend == "before",
            },
        },
    }


def opennmt(config: Config, folder: Path, pairs: int) -> dict[str, Any]:
    """OpenNMT-py's YAML.

    Raises:
        UserError: sizes that it cannot have.
    """
    encoder, decoder, training = config.encoder, config.decoder, config.training
    if encoder.output_size != decoder.hidden_size:
        raise UserError(
            f"encoder.hidden_size: OpenNMT-py needs annotations of the decoder's size, {decoder.hidden_size}, "
            f"not {encoder.output_size}; choose --sizes opennmt"
        )
    corpora = {
        name: {"path_src": str(folder / f"{part}.source"), "path_tgt": str(folder / f"{part}.target"), "transforms": []}
        for name, part in (("corpus", "train"), ("valid", "dev"))
    }
    return {
        "data": corpora,
        "src_vocab": str(folder / "vocabulary.source"),
        "tgt_vocab": str(folder / "vocabulary.target"),
        "save_model": str(folder / "opennmt" / "model"),
        "seed": config.seed,
        # An epoch is sorted and batched at a time, in the process that trains.
        "bucket_size": pairs,
        "num_workers": 0,
        "encoder_type": "brnn" if encoder.bidirectional else "rnn",
        "decoder_type": "rnn",
        "rnn_type": encoder.cell.upper(),
        "enc_layers": encoder.layers,
        "dec_layers": decoder.layers,
        "src_word_vec_size": encoder.embedding_size,
        "tgt_word_vec_size": decoder.embedding_size,
        # Of both directions together.
        "enc_hid_size": encoder.output_size,
        "dec_hid_size": decoder.hidden_size,
        "global_attention": "mlp",
        "input_feed": int(decoder.attend == "before"),
        "dropout": [decoder.dropout],
        "label_smoothing": training.label_smoothing,
        "optim": "adam",
        "learning_rate": training.learning_rate,
        "max_grad_norm": training.clip_norm,
        "batch_type": "tokens",
        "batch_size": training.batch_tokens,
        "normalization": "tokens",
        "train_steps": FOREVER,
        "valid_steps": FOREVER,
        "save_checkpoint_steps": FOREVER,
    }


PEERS = {
    "joeynmt": Peer(
        "JoeyNMT 2.3.0",
        "benchmarking.run_joeynmt",
        ("train",),
        (
            *("importlib_metadata", "matplotlib", "numpy", "packaging", "pandas", "pillow", "protobuf", "pyyaml"),
            *("sacrebleu", "seaborn", "setuptools<81", "subword-nmt", "tensorboard"),
        ),
        ("joeynmt==2.3.0", "sentencepiece==0.2.0"),
        joeynmt,
    ),
    "opennmt": Peer(
        "OpenNMT-py 3.5.1",
        "benchmarking.run_opennmt",
        ("-config",),
        (
            *("configargparse", "ctranslate2", "fasttext-wheel", "pyahocorasick", "pyonmttok", "pyyaml", "rapidfuzz"),
            *("sacrebleu", "setuptools<81", "six", "spacy", "tensorboard"),
        ),
        ("OpenNMT-py==3.5.1",),
        opennmt,
    ),
}


def peer_python(name: str) -> Path:
    """The interpreter of the peer's environment, which is made below build/peers the first time.

    Raises:
        UserError: pip cannot install it.
    """
    peer, place = PEERS[name], ROOT / "build" / "peers" / name
    python = place / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    done = place / "installed.txt"
    wanted = "\n".join((TORCH, *peer.requirements, *peer.alone, ""))
    if done.is_file() and done.read_text(encoding="utf-8") == wanted:
        return python
    tqdm.write(f"Installing {peer.title} into {place} (minutes, once) ...", file=sys.stderr)
    venv.create(place, clear=True, with_pip=True)
    for arguments in ((TORCH, *peer.requirements), ("--no-deps", *peer.alone)):
        pip = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", *arguments]
        if subprocess.run(pip, check=False).returncode:
            raise UserError(f"{peer.title}: pip cannot install it with {Path(sys.executable).name}, see above")
    write_text(done, wanted)
    return python


def peer_command(name: str, config: Config, folder: Path, pairs: int) -> list[str]:
    """The command that trains in `folder`, where the pieces are, what `config` describes."""
    peer = PEERS[name]
    settings = folder / f"{name}.yaml"
    write_text(settings, dump_yaml(peer.settings(config, folder, pairs)))
    return [str(peer_python(name)), "-m", peer.module, *peer.command, str(settings)]
