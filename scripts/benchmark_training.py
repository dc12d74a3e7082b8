"""Train at full speed and measure it, alone or in turn with another toolkit of the same sizes on the same data.

    python scripts/benchmark_training.py [--against opennmt|joeynmt] [--attend before] [--batch-tokens 512]

Every training is a real one: seq2seq.train, or the other toolkit's own command, in a process of its own that stands
still while another runs. A target token is one that is predicted: </s> counts, padding does not. Against another
toolkit `--attend after` meets its decoder without input feeding, `--attend before` that with it; its environment is
made below build/peers the first time.
"""

import argparse
import logging
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from benchmarking.arithmetic import forward_flops, training_flops
from benchmarking.measurement import measure
from benchmarking.peers import PEERS, peer_command
from benchmarking.pieces import write_pieces
from benchmarking.report import report
from benchmarking.settings import Ours, add_arguments, prepare_training
from benchmarking.stopwatch import Work
from benchmarking.training_process import TrainingProcess
from seq2seq import cli

PRODUCT_SECONDS = 1.0
"""For the rate of a plain product, after each block."""


def main(given: argparse.Namespace) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as running:
        folder = Path(temporary)
        ours = prepare_training(given, given.sizes or given.against or "default", folder)
        store, vocabulary = ours.prepared.store("train"), ours.prepared.tokenizer("target").size
        forward_flops(ours.config, vocabulary, Work())  # refuses before hours of work what it cannot count
        commands = {"seq2seq": ours.command}
        if given.against:
            write_pieces(ours.prepared, folder)
            commands[PEERS[given.against].title] = peer_command(given.against, ours.config, folder, len(store))
        print(_description(given, ours, len(store)))
        trainings = [
            running.enter_context(TrainingProcess(name, command, folder / f"{number}.log", given.threads))
            for number, (name, command) in enumerate(commands.items())
        ]
        figures = measure(trainings, given.seconds, given.rounds, given.warm_up, PRODUCT_SECONDS)
    flops = [training_flops(ours.config, vocabulary, block.work) for block in figures[0].blocks]
    by_part = forward_flops(ours.config, vocabulary, figures[0].work)
    epoch_tokens = int(store.target.lengths.sum()) + len(store)
    print(report(dict(zip(commands, figures, strict=True)), epoch_tokens, flops, by_part))


def _description(given: argparse.Namespace, ours: Ours, pairs: int) -> str:
    encoder, decoder = ours.config.encoder, ours.config.decoder
    source, target = (ours.prepared.tokenizer(side).size for side in ("source", "target"))
    return (
        f"{pairs:,} pairs, vocabulary {source:,} and {target:,}; {encoder.cell} {encoder.output_size} to "
        f"{decoder.hidden_size}, attend {decoder.attend}; batches of {ours.config.training.batch_tokens:,} tokens; "
        f"threads: {given.threads}; {given.rounds} blocks of {given.seconds / given.rounds:.0f} s in turn, "
        f"after {given.warm_up:.0f} s"
    )


def arguments() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    add_arguments(parser)
    add = parser.add_argument
    add("--against", choices=tuple(PEERS), help="another toolkit to measure beside ours")
    add("--seconds", type=float, default=60.0, metavar="S", help="of each training, in all blocks (default: 60)")
    add("--rounds", type=int, default=3, metavar="N", help="blocks of each training (default: 3)")
    add("--warm-up", type=float, default=15.0, metavar="S", help="of each training, not measured (default: 15)")
    return parser


if __name__ == "__main__":
    logging.getLogger("seq2seq.data").setLevel(logging.WARNING)
    sys.exit(cli.run(arguments(), main))
