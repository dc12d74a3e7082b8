"""python -m seq2seq.train CONFIG: prepare the text, train, report on held-out sentences."""

import argparse
import datetime
import logging
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from seq2seq import cli
from seq2seq.errors import UserError

if TYPE_CHECKING:
    import torch

    from seq2seq.checkpoint import RunDirectory
    from seq2seq.config import Config
    from seq2seq.data.prepare import Prepared
    from seq2seq.training.processes import Processes
    from seq2seq.training.trainer import Trainer

# By name: run as a command, this module is called __main__.
log = logging.getLogger("seq2seq.train")


def main(arguments: argparse.Namespace) -> int:
    """Train as the configuration says, then evaluate the best checkpoint on test."""
    from seq2seq.checkpoint import RUNS, adopt
    from seq2seq.config import load_config
    from seq2seq.data.budget import check_budget
    from seq2seq.data.prepare import prepare
    from seq2seq.devices import choose_device, use_threads
    from seq2seq.evaluation import evaluate_run
    from seq2seq.training.processes import join

    config = load_config(arguments.config, arguments.set)
    device = choose_device(config.device)
    use_threads(config.threads)
    processes = join(device)
    if not processes.is_first:
        logging.getLogger("seq2seq").setLevel(logging.WARNING)
        return _take_part(config, device, processes)
    run = _run_directory(arguments)
    prepared = prepare(config)
    check_budget(prepared, config.training.batch_tokens)
    if not arguments.resume:
        run.create(config, prepared)
    with run.locked():
        if arguments.resume:
            adopt(run, config, prepared)
            if not run.checkpoints.exist and (run.path / "best.safetensors").exists():
                raise UserError(f"{run.path}: no checkpoint is left to go on from; start a new run")
        processes.from_first(run.path)
        trainer = _trainer(config, prepared, run, device, processes)
        if processes.from_first(run.checkpoints.exist):
            trainer.resume()
        log.info(f"run directory: {run.path}")
        with _saying_how_to_go_on(arguments, run):
            with _stop_on_signal(trainer) as caught:
                done = trainer.fit()
            if caught or not done:  # or another process was asked to stop
                raise cli.Interrupted(128 + (caught or [signal.SIGTERM])[0])
            report = evaluate_run(run, "test", device)
            run.write_json("report.json", report.to_json())
            run.write_info(status="finished", finished=time.time())
    print(report.to_text())
    print(f"run directory: {run.path}")
    model = "" if run.path.parent == RUNS else shlex.join(["--model", str(run.path)]) + " "
    print(f'translate with: {cli.python()} -m seq2seq.translate {model}"..."')
    return 0


@contextmanager
def _saying_how_to_go_on(arguments: argparse.Namespace, run: "RunDirectory") -> Iterator[None]:
    """Whatever ends a training early, a line says how to take it up again."""
    try:
        yield
    except BaseException:
        if run.checkpoints.exist:
            sets = [part for each in arguments.set for part in ("--set", each)]
            command = ["-m", "seq2seq.train", arguments.config, "--run", str(run.path), "--resume", *sets]
            log.info(f"stopped; go on from the last checkpoint with: {cli.python()} {shlex.join(command)}")
        raise


def _take_part(config: "Config", device: "torch.device", processes: "Processes") -> int:
    """What all processes but the first do: their part of each batch, once the first has prepared the corpus."""
    from seq2seq.checkpoint import RunDirectory
    from seq2seq.data.prepare import prepare

    run = RunDirectory(processes.from_first(Path()))
    trainer = _trainer(config, prepare(config), run, device, processes)
    if processes.from_first(False):
        trainer.resume()
    with _stop_on_signal(trainer):
        trainer.fit()
    return 0


def _run_directory(arguments: argparse.Namespace) -> "RunDirectory":
    from seq2seq.checkpoint import RUNS, RunDirectory, find_unfinished

    name = Path(arguments.config).stem
    if not arguments.resume:
        run = RunDirectory(Path(arguments.run or RUNS / f"{name}-{datetime.datetime.now():%Y%m%d-%H%M%S}"))
        run.refuse_if_used()
        return run
    run = RunDirectory(Path(arguments.run)) if arguments.run else find_unfinished(name)
    if run.info().get("status") == "finished":
        raise UserError(f"{run.path}: finished already; train anew without --resume")
    return run


def _trainer(
    config: "Config", prepared: "Prepared", run: "RunDirectory", device: "torch.device", processes: "Processes"
) -> "Trainer":
    import torch

    from seq2seq.data.batching import Batches
    from seq2seq.data.sampling import SubwordSampler
    from seq2seq.evaluation import dev_bleu
    from seq2seq.model import build_model
    from seq2seq.training.trainer import Trainer

    source, target = prepared.tokenizer("source"), prepared.tokenizer("target")
    torch.manual_seed(config.seed)
    model = build_model(config, source.size, target.size).to(device)
    if processes.rank:  # the same weights, but other dropout
        torch.manual_seed(config.seed + processes.rank)
    alphas = config.tokenizer.source.sampling_alpha, config.tokenizer.target.sampling_alpha
    sampler = SubwordSampler(prepared.pairs("train"), source, target, *alphas, config.seed) if any(alphas) else None
    train = Batches(prepared.store("train"), config.training.batch_tokens, config.seed, sampler)
    dev = Batches(prepared.store("dev"), 4 * config.training.batch_tokens)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    log.info(
        f"model: {parameters:,} parameters on {device}; {len(train.plan(0)):,} batches an epoch, "
        f"{train.padding_share():.1%} padding"
    )
    return Trainer(
        model, config, train, dev, dev_bleu(config, prepared, processes), prepared.origins().describe, run, processes
    )


@contextmanager
def _stop_on_signal(trainer: "Trainer") -> Iterator[list[int]]:
    """The first Ctrl-C, SIGTERM or SIGHUP ends training after the update under way; a second one at once.

    Gives a list that holds the signal once it has come.
    """
    caught: list[int] = []

    def stop(number: int, frame: object) -> None:
        caught.append(number)
        for each in before:
            signal.signal(each, signal.SIG_DFL)
        trainer.request_stop()

    wanted = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    # What is ignored on purpose (nohup) stays so.
    before = {number: signal.getsignal(number) for number in wanted if signal.getsignal(number) != signal.SIG_IGN}
    for number in before:
        signal.signal(number, stop)
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def arguments() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = cli.parser("train", "Train a translator and report on held-out sentences.")
    parser.add_argument("config", metavar="CONFIG", help="a YAML file; configs/ holds some")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a key of the config")
    parser.add_argument("--run", metavar="DIR", help="run directory (default: runs/NAME-TIME)")
    parser.add_argument("--resume", action="store_true", help="go on with the run in --run, or the newest unfinished")
    return parser


if __name__ == "__main__":
    sys.exit(cli.run(arguments(), main))
