"""python -m seq2seq.compare: train variants under one budget, one after another, and report on them side by side."""

import argparse
import logging
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from seq2seq import cli
from seq2seq.errors import UserError

if TYPE_CHECKING:
    from seq2seq.checkpoint import RunDirectory
    from seq2seq.config.comparison import Comparison

# By name: run as a command, this module is called __main__.
log = logging.getLogger("seq2seq.compare")


def main(arguments: argparse.Namespace) -> int:
    """Train what is not trained yet, translate what is not translated yet, report."""
    from seq2seq.comparison.results import file_name
    from seq2seq.comparison.trainings import train_variants

    paths = [Path(path) for path in arguments.paths]
    try:
        if len(paths) == 1 and not paths[0].is_dir():
            comparison = _comparison(paths[0], arguments)
            name, sentence = paths[0].stem, comparison.sentence
            output = _output(arguments, name)
            rows = train_variants(comparison, output, arguments.set)
        else:
            rows = _given(paths, arguments)
            name, sentence = ", ".join(rows), None
            output = _output(arguments, file_name(name))
        _report(name, output, rows, sentence)
    except KeyboardInterrupt as stop:
        again = shlex.join(["-m", "seq2seq.compare", *sys.argv[1:]])
        log.info(f"stopped; go on with: {cli.python()} {again}")
        raise (stop if isinstance(stop, cli.Interrupted) else cli.Interrupted()) from None
    return 0


def _comparison(path: Path, arguments: argparse.Namespace) -> "Comparison":
    """What the YAML and the options ask for."""
    from seq2seq.config.comparison import load_comparison

    for override in arguments.set:
        given = override.partition("=")[0].strip()
        for key, option in (("seed", "--seeds"), ("training.max_minutes", "--minutes")):
            if given == key:
                raise UserError(f"--set {override}: give {option} instead")
            if key.startswith(f"{given}."):
                raise UserError(f"--set {override}: sets {key}, too; set the keys one by one, that one with {option}")
    changes = {key: value for key in ("minutes", "seeds") if (value := getattr(arguments, key)) is not None}
    comparison = load_comparison(path).model_copy(update=changes)
    return comparison.only(arguments.only) if arguments.only else comparison


def _given(paths: Sequence[Path], arguments: argparse.Namespace) -> dict[str, list["RunDirectory"]]:
    """Run directories that are named on the command line, each a variant."""
    from seq2seq.checkpoint import RunDirectory

    for option in ("minutes", "seeds", "set", "only"):
        if getattr(arguments, option):
            raise UserError(f"--{option}: goes with the YAML of a comparison, not with run directories")
    for path in paths:
        if path.exists() and not path.is_dir():
            raise UserError(f"{path}: is no run directory; the YAML of a comparison stands alone")
    if len({path.resolve() for path in paths}) < max(len(paths), 2):
        raise UserError("give the YAML of a comparison, or two or more different run directories")
    return {path.as_posix(): [RunDirectory(path)] for path in paths}


def _output(arguments: argparse.Namespace, name: str) -> Path:
    """Where runs and report go, looked at before anything is trained or translated for it."""
    from seq2seq.checkpoint import RUNS

    output = Path(arguments.output or RUNS / f"compare-{name}")
    for folder in (output, output / "translations", output / "attention"):
        there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        if not there.is_dir():
            raise UserError(f"--output {output}: {there} is a file, not a folder; name another folder")
        if not os.access(there, os.W_OK | os.X_OK):
            raise UserError(f"--output {output}: no permission to write in {there}; name another folder")
    return output


def _report(name: str, output: Path, rows: Mapping[str, Sequence["RunDirectory"]], sentence: str | None) -> None:
    import dataclasses
    import json

    from seq2seq.comparison.attention_sample import attention_sample
    from seq2seq.comparison.markdown import bucket_label, mean_by_length, to_markdown
    from seq2seq.comparison.results import compare_runs
    from seq2seq.comparison.text import to_text
    from seq2seq.data.files import write_text
    from seq2seq.devices import choose_device, use_threads
    from seq2seq.plotting.curves import draw_bleu_by_length, draw_learning_curves

    config = next(iter(rows.values()))[0].config()
    try:
        device = choose_device(config.device)
    except UserError:  # trained on another machine
        device = choose_device("auto")
    use_threads(config.threads)
    report = compare_runs(name, rows, output / "translations", device)
    curves = {variant.name: [outcome.dev_curve for outcome in variant.outcomes] for variant in report.variants}
    by_length = {variant.name: mean_by_length(variant) for variant in report.variants}
    for kind in ("png", "svg"):
        draw_learning_curves(output / f"learning_curves.{kind}", curves)
        draw_bleu_by_length(output / f"bleu_by_length.{kind}", list(map(bucket_label, report.buckets)), by_length)
    sample = attention_sample(rows, output, sentence, device)
    write_text(output / "report.md", to_markdown(report, sample))
    content = {**report.to_json(), "sample": dataclasses.asdict(sample)}
    write_text(output / "report.json", json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False) + "\n")
    print(to_text(report))
    print(f"\nreport: {output / 'report.md'}")


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of minutes above 0")
    return minutes


def _seeds(text: str) -> list[int]:
    parts = text.split(",")
    seeds = [int(part) for part in parts if part.isascii() and part.isdigit()]
    if len(seeds) < len(parts) or len(set(seeds)) < len(seeds) or max(seeds) >= 2**32:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of different whole numbers such as 1,2,3")
    return seeds


def arguments() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = cli.parser("compare", "Train variants under one budget and report on them side by side.")
    parser.add_argument(
        "paths", nargs="+", metavar="YAML|DIR", help="a comparison (configs/compare/ holds some), or finished runs"
    )
    parser.add_argument("--minutes", type=_minutes, metavar="M", help="minutes of each training (default: the YAML's)")
    parser.add_argument("--seeds", type=_seeds, metavar="N,N", help="seeds of the trainings (default: the YAML's)")
    parser.add_argument("--only", type=lambda text: text.split(","), metavar="NAME,NAME", help="these variants alone")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a key of the base")
    parser.add_argument("--output", metavar="DIR", help="runs and report (default: runs/compare-NAME)")
    return parser


if __name__ == "__main__":
    sys.exit(cli.run(arguments(), main))
