"""python -m seq2seq.config: the JSON schema of the configuration, so that editors complete and check it."""

import argparse
import json
import sys
from pathlib import Path

from seq2seq import cli
from seq2seq.config import Config


def main(arguments: argparse.Namespace) -> None:
    """Print the schema, or write it to a file."""
    schema = json.dumps(Config.model_json_schema(), indent=1, ensure_ascii=False) + "\n"
    if arguments.output:
        Path(arguments.output).write_text(schema, encoding="utf-8", newline="\n")
    else:
        print(schema, end="")


def arguments() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = cli.parser("config", "Print the JSON schema of the configuration.")
    parser.add_argument("--output", metavar="FILE", help="write here instead of stdout (configs/schema.json)")
    return parser


if __name__ == "__main__":
    sys.exit(cli.run(arguments(), main))
