"""python -m seq2seq.config: the JSON schema of the configuration, so that editors complete and check it."""

import argparse
import json
import sys

from seq2seq import cli
from seq2seq.config import Config
from seq2seq.data.files import check_named, write_text


def main(arguments: argparse.Namespace) -> None:
    """Print the schema, or write it to a file."""
    check_named(output=arguments.output)
    schema = json.dumps(Config.model_json_schema(), indent=1, ensure_ascii=False) + "\n"
    if arguments.output:
        write_text(arguments.output, schema)
    else:
        print(schema, end="")


def arguments() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = cli.parser("config", "Print the JSON schema of the configuration.")
    parser.add_argument("--output", metavar="FILE", help="write here instead of stdout (configs/schema.json)")
    return parser


if __name__ == "__main__":
    sys.exit(cli.run(arguments(), main))
