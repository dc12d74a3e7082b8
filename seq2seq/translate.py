"""python -m seq2seq.translate TEXT ...: translations on stdout, nothing else."""

import argparse
import dataclasses
import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from seq2seq import cli
from seq2seq.errors import UserError

if TYPE_CHECKING:
    from seq2seq.inference.translator import Translation

CHUNK = 1000
"""Lines translated together: enough to batch like lengths, few enough to stream."""


def main(arguments: argparse.Namespace) -> None:
    """One line of output for each text or input line."""
    if bool(arguments.texts) == bool(arguments.input):
        both = "give either TEXT or --input, not both"
        raise UserError(both if arguments.texts else "nothing to translate: give TEXT, or --input FILE (- is stdin)")
    from seq2seq.checkpoint import find_run
    from seq2seq.devices import choose_device, use_threads
    from seq2seq.inference.translator import Translator

    run = find_run(arguments.model)
    use_threads(None)
    translator = Translator.load(run.path, choose_device(arguments.device))
    lines = iter(arguments.texts) if arguments.texts else _lines(arguments.input)
    with _output(arguments.output) as output:
        while chunk := list(islice(lines, CHUNK)):
            translations = translator.translate(chunk, beam=arguments.beam, attention=arguments.json)
            output.writelines(_format(each, arguments.json) for each in translations)
            output.flush()


def _format(translation: "Translation", as_json: bool) -> str:
    text = json.dumps(dataclasses.asdict(translation), ensure_ascii=False) if as_json else translation.text
    return f"{text}\n"


def _lines(name: str) -> Iterator[str]:
    from seq2seq.data.files import decode_lines, read_lines

    return (text for _, text in (decode_lines(sys.stdin.buffer, "stdin") if name == "-" else read_lines(Path(name))))


@contextmanager
def _output(name: str | None) -> Iterator[TextIO]:
    """stdout, or a file that appears only when it is whole."""
    from seq2seq.data.files import atomic_write

    if name is None:
        yield sys.stdout
        return
    with atomic_write(Path(name)) as file, io.TextIOWrapper(file, encoding="utf-8", newline="\n") as text:
        yield text


def arguments() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = cli.parser("translate", "Translate texts with a trained run.")
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="a sentence to translate")
    parser.add_argument("--input", metavar="FILE", help="translate each line of a file; - is stdin")
    parser.add_argument("--output", metavar="FILE", help="write here instead of stdout, one line for each input line")
    cli.add_model_arguments(parser)
    parser.add_argument("--json", action="store_true", help="text, score, tokens and attention weights, as JSON lines")
    return parser


if __name__ == "__main__":
    sys.exit(cli.run(arguments(), main))
