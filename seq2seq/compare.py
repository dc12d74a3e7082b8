"""python -m seq2seq.compare: train variants under one budget, one after another, and report on them side by side."""

import argparse
import dataclasses
import json
import logging
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from seq2seq import cli
from seq2seq.errors import UserError

if TYPE_CHECKING:
    import torch

    from seq2seq.checkpoint import RunDirectory
    from seq2seq.config import Config
    from seq2seq.config.comparison import Comparison
    from seq2seq.evaluation.comparison_markdown import AttentionSample

# By name: run as a command, this module is called __main__.
log = logging.getLogger("seq2seq.compare")

Rows = Mapping[str, Sequence["RunDirectory"]]
"""Variant -> its runs, one for each seed."""


def main(arguments: argparse.Namespace) -> int:
    """Train what is not trained yet, translate what is not translated yet, report."""
    try:
        given = [Path(path) for path in arguments.paths]
        if len(given) == 1 and not given[0].is_dir():
            name, output, rows, sentence = _trained(given[0], arguments)
        else:
            name, output, rows, sentence = _given(given, arguments)
        _report(name, output, rows, sentence)
    except KeyboardInterrupt:
        log.info(f"stopped; go on with: {_again(arguments)}")
        return cli.INTERRUPTED
    return 0


def _trained(path: Path, arguments: argparse.Namespace) -> tuple[str, Path, Rows, str | None]:
    """The runs of a comparison's YAML, trained as far as need be."""
    from seq2seq.checkpoint import RUNS, RunDirectory
    from seq2seq.config.comparison import load_comparison

    for override in arguments.set:
        for key, option in (("seed", "--seeds"), ("training.max_minutes", "--minutes")):
            if override.partition("=")[0].strip() == key:
                raise UserError(f"--set {override}: give {option} instead")
    changes = {key: value for key in ("minutes", "seeds") if (value := getattr(arguments, key)) is not None}
    comparison = load_comparison(path).model_copy(update=changes)
    if arguments.only:
        comparison = comparison.only(arguments.only)
    output = Path(arguments.output or RUNS / f"compare-{path.stem}")
    trainings = [(variant, seed) for seed in comparison.seeds for variant in comparison.variants]
    runs = {each: RunDirectory(output / f"{each[0]}-s{each[1]}") for each in trainings}
    # All are looked at before the first is trained: a fault in the last must not come to light after hours.
    for (variant, seed), run in runs.items():
        _refuse_another(run, comparison.config(variant, seed, arguments.set), variant)
    waiting = {each: run for each, run in runs.items() if not _finished(run)}
    budget = "" if comparison.minutes is None else f" of {comparison.minutes:g} minutes"
    log.info(f"{len(trainings)} trainings{budget}, {len(trainings) - len(waiting)} of them done; in {output}")
    for number, ((variant, seed), run) in enumerate(waiting.items(), start=1):
        log.info(f"training {number} of {len(waiting)}: {variant}, seed {seed}")
        _train(comparison, variant, seed, run, arguments.set)
    rows = {variant: [runs[variant, seed] for seed in comparison.seeds] for variant in comparison.variants}
    return path.stem, output, rows, comparison.sentence


def _given(paths: Sequence[Path], arguments: argparse.Namespace) -> tuple[str, Path, Rows, str | None]:
    """Run directories that are named on the command line, each a variant."""
    from seq2seq.checkpoint import RUNS, RunDirectory

    for option in ("minutes", "seeds", "set", "only"):
        if getattr(arguments, option):
            raise UserError(f"--{option}: goes with the YAML of a comparison, not with run directories")
    for path in paths:
        if path.exists() and not path.is_dir():
            raise UserError(f"{path}: is no run directory; the YAML of a comparison stands alone")
    if len({path.resolve() for path in paths}) < max(len(paths), 2):
        raise UserError("give the YAML of a comparison, or two or more different run directories")
    names = [path.resolve().name for path in paths]
    if len(set(names)) < len(names):
        names = ["-".join(path.resolve().parts[-2:]) for path in paths]
    rows = {name: [RunDirectory(path)] for name, path in zip(names, paths, strict=True)}
    if len(rows) < len(paths):
        raise UserError(f"run directories of the same name: {', '.join(map(str, paths))}; rename one of them")
    name = "-".join(names)
    # File systems limit a name to 255 bytes.
    return name, Path(arguments.output or RUNS / f"compare-{name}"[:100]), rows, None


def _refuse_another(run: "RunDirectory", config: "Config", variant: str) -> None:
    """See to it that a run directory that exists is one of this very configuration."""
    from seq2seq.evaluation.comparison import flat

    if not run.exists:
        if run.path.is_dir() and any(run.path.iterdir()):
            raise UserError(f"{run.path}: holds no run, but stands where that of variant {variant} goes; remove it")
        run.refuse_if_used()
        return
    there, asked = flat(run.config().model_dump(mode="json")), flat(config.model_dump(mode="json"))
    for key in dict.fromkeys([*there, *asked]):
        if there.get(key) != asked.get(key):
            raise UserError(
                f"{run.path}: was trained with {key}: {there.get(key)}, but variant {variant} now has "
                f"{asked.get(key)}; remove the folder or name another --output"
            )


def _finished(run: "RunDirectory") -> bool:
    return run.exists and run.info().get("status") == "finished"


def _train(comparison: "Comparison", variant: str, seed: int, run: "RunDirectory", overrides: Sequence[str]) -> None:
    sets = [part for each in comparison.overrides(variant, seed, overrides) for part in ("--set", each)]
    resume = ["--resume"] if run.exists else []
    command = [sys.executable, "-m", "seq2seq.train", comparison.base, *sets, "--run", str(run.path), *resume]
    children: list[subprocess.Popen[bytes]] = []
    with _stop_with_child(children) as stopped:
        children.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
        status = children[0].wait()
    if stopped or status == cli.INTERRUPTED:
        raise KeyboardInterrupt
    if status:
        raise UserError(
            f"{run.path}: training of variant {variant} failed with exit status {status}, see above; "
            f"mend it, or leave the variant out with --only"
        )


@contextmanager
def _stop_with_child(children: Sequence["subprocess.Popen[bytes]"]) -> Iterator[list[int]]:
    """Outlive Ctrl-C, which the terminal gives to the training as well, until that has saved; pass SIGTERM on to it.

    Gives the signals that came.
    """
    stopped: list[int] = []

    def stop(number: int, frame: object) -> None:
        stopped.append(number)
        if number == signal.SIGTERM:
            for child in children:
                child.terminate()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _report(name: str, output: Path, rows: Rows, sentence: str | None) -> None:
    from seq2seq.data.files import write_text
    from seq2seq.devices import choose_device, use_threads
    from seq2seq.evaluation.comparison import compare_runs
    from seq2seq.evaluation.comparison_markdown import bucket_label, mean_by_length, results_table, to_markdown
    from seq2seq.plotting.curves import draw_bleu_by_length, draw_learning_curves

    device = choose_device("auto")
    use_threads(None)
    report = compare_runs(name, rows, output / "translations", device)
    curves = {variant.name: [outcome.dev_curve for outcome in variant.outcomes] for variant in report.variants}
    by_length = {variant.name: mean_by_length(variant) for variant in report.variants}
    for kind in ("png", "svg"):
        draw_learning_curves(output / f"learning_curves.{kind}", curves)
        draw_bleu_by_length(output / f"bleu_by_length.{kind}", list(map(bucket_label, report.buckets)), by_length)
    sample = _attention_sample(rows, output, sentence, device)
    write_text(output / "report.md", to_markdown(report, sample))
    content = {**report.to_json(), "sample": dataclasses.asdict(sample)}
    write_text(output / "report.json", json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False) + "\n")
    print(results_table(report))
    print(f"\nreport: {output / 'report.md'}")


def _attention_sample(rows: Rows, output: Path, sentence: str | None, device: "torch.device") -> "AttentionSample":
    """One sentence translated by each variant, with its attention maps where they can be drawn."""
    from seq2seq.evaluation.comparison_markdown import AttentionSample
    from seq2seq.inference.translator import Translator
    from seq2seq.plotting.heatmap import draw_attention

    pairs = next(iter(rows.values()))[0].pairs("test")
    references = dict(reversed(pairs))
    if sentence is None:
        median = sorted(len(pair.source) for pair in pairs)[len(pairs) // 2]
        sentence = next(pair.source for pair in pairs if len(pair.source) == median)
    translations: dict[str, str] = {}
    maps: dict[str, str] = {}
    left_out = None
    for variant, runs in rows.items():
        (found,) = Translator.load(runs[0].path, device).translate([sentence], attention=True)
        translations[variant] = found.text
        if left_out is None and found.attention:
            file = f"attention/{variant}.png"
            try:
                draw_attention(output / file, found.source_tokens, found.target_tokens, found.attention, variant)
                maps[variant] = file
            except UserError as error:
                left_out = str(error)
                log.warning(f"the attention maps were left out: {left_out}")
    return AttentionSample(sentence, references.get(sentence), translations, maps, left_out)


def _again(arguments: argparse.Namespace) -> str:
    """The command that goes on where this one stopped."""
    command = ["-m", "seq2seq.compare", *arguments.paths]
    command += [part for each in arguments.set for part in ("--set", each)]
    for option in ("minutes", "output"):
        if getattr(arguments, option) is not None:
            command += [f"--{option}", str(getattr(arguments, option))]
    for option in ("seeds", "only"):
        if getattr(arguments, option):
            command += [f"--{option}", ",".join(map(str, getattr(arguments, option)))]
    return f"{cli.python()} {shlex.join(command)}"


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
