"""python -m seq2seq.evaluate: a run's figures on held-out text, beside two baselines."""

import argparse
import sys
from pathlib import Path

from seq2seq import cli
from seq2seq.errors import UserError


def main(arguments: argparse.Namespace) -> None:
    """Translate, score, print the report."""
    import dataclasses
    import json

    from seq2seq.data.files import check_named, check_writable, write_text

    check_named(data=arguments.data, gold=arguments.gold, json=arguments.json)
    if arguments.gold_base is not None and arguments.gold is None:
        raise UserError("--gold-base says what --gold counts from; add --gold FILE or leave it out")
    if arguments.json is not None:
        check_writable(arguments.json)
    from seq2seq.checkpoint import find_run
    from seq2seq.devices import choose_device, use_threads
    from seq2seq.evaluation import evaluate_run
    from seq2seq.evaluation.alignment import evaluate_alignment

    run = find_run(arguments.model)
    use_threads(None)
    device = choose_device(arguments.device)
    alignment = None
    if arguments.gold is not None:
        alignment = evaluate_alignment(run, arguments.data, Path(arguments.gold), device, arguments.gold_base or 0)
    report = evaluate_run(run, arguments.data, device, arguments.beam)
    text, found = report.to_text(), report.to_json()
    if alignment is not None:
        text += f"\n\n{alignment.to_text()}"
        found["alignment"] = dataclasses.asdict(alignment)
    try:
        print(text)
    finally:
        # The file is written even where the reader of stdout has gone.
        if arguments.json is not None:
            write_text(arguments.json, json.dumps(found, ensure_ascii=False, indent=1) + "\n")


def arguments() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = cli.parser("evaluate", "BLEU, chrF, TER and perplexity of a run, beside two baselines.")
    cli.add_model_arguments(parser)
    parser.add_argument("--data", default="test", metavar="dev|test|PATH", help="what to translate (default: test)")
    parser.add_argument("--json", metavar="FILE", help="write the report as JSON, too")
    parser.add_argument(
        "--gold",
        metavar="FILE",
        help="alignment error rate of the attention, too: one line of links for each line of --data, i-j sure and i?j "
        "possible (source-target), over its words between blanks, or characters where Chinese has no blanks",
    )
    parser.add_argument("--gold-base", type=int, choices=(0, 1), help="what --gold counts from (default: 0)")
    return parser


if __name__ == "__main__":
    sys.exit(cli.run(arguments(), main))
