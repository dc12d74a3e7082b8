"""python -m seq2seq.evaluate: a run's figures on held-out text, beside two baselines."""

import argparse
import sys
from pathlib import Path

from seq2seq import cli


def main(arguments: argparse.Namespace) -> None:
    """Translate, score, print the report."""
    import json

    from seq2seq.checkpoint import find_run
    from seq2seq.data.files import write_text
    from seq2seq.devices import choose_device, use_threads
    from seq2seq.evaluation import evaluate_run

    run = find_run(arguments.model)
    use_threads(None)
    report = evaluate_run(run, arguments.data, choose_device(arguments.device), arguments.beam)
    print(report.to_text())
    if arguments.json:
        write_text(Path(arguments.json), json.dumps(report.to_json(), ensure_ascii=False, indent=1) + "\n")


def arguments() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = cli.parser("evaluate", "BLEU, chrF, TER and perplexity of a run, beside two baselines.")
    cli.add_model_arguments(parser)
    parser.add_argument("--data", default="test", metavar="dev|test|PATH", help="what to translate (default: test)")
    parser.add_argument("--json", metavar="FILE", help="write the report as JSON, too")
    return parser


if __name__ == "__main__":
    sys.exit(cli.run(arguments(), main))
