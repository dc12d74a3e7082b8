"""python -m seq2seq.translate TEXT ...: translations on stdout, nothing else."""

import argparse
import dataclasses
import io
import json
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from seq2seq import cli
from seq2seq.errors import UserError

if TYPE_CHECKING:
    from seq2seq.inference.translator import Translation

# By name: run as a command, this module is called __main__.
log = logging.getLogger("seq2seq.translate")

CHUNK = 1000
"""Lines translated together at most: enough to batch like lengths, few enough to stream."""


def main(arguments: argparse.Namespace) -> None:
    """One line of output for each text or input line."""
    from seq2seq.data.files import check_named, check_writable

    check_named(input=arguments.input, output=arguments.output, attention=arguments.attention)
    _check_unicode(arguments.texts)
    if bool(arguments.texts) == bool(arguments.input):
        both = "give either TEXT or --input, not both"
        raise UserError(both if arguments.texts else "nothing to translate: give TEXT, or --input FILE (- is stdin)")
    if arguments.output is not None:
        check_writable(arguments.output)
    show = _attention_shown(arguments)
    from seq2seq.checkpoint import find_run
    from seq2seq.devices import choose_device, use_threads
    from seq2seq.inference.translator import Translator, check_attention

    run = find_run(arguments.model)
    for option in ("attention", "alignments"):
        if getattr(arguments, option):
            check_attention(run.config(), run.path, f"--{option}")
    use_threads(None)
    translator = Translator.load(run.path, choose_device(arguments.device))
    attention = arguments.json or arguments.alignments or show is not None
    number = 0
    with _output(arguments.output) as output:
        for chunk in _chunks(arguments):
            for translation in translator.translate(chunk, arguments.beam, attention):
                number += 1
                output.write(_format(translation, arguments.json, arguments.alignments) + "\n")
                if show is not None:
                    show(number, translation)
            output.flush()


def _format(translation: "Translation", as_json: bool, alignments: bool) -> str:
    if as_json:
        fields = _fields(translation)
        if alignments:
            fields["alignment"] = translation.alignment()
        return json.dumps(fields, ensure_ascii=False)
    if not alignments:
        return translation.text
    return f"{translation.text} ||| {' '.join(f'{source}-{target}' for source, target in translation.alignment())}"


def _fields(translation: "Translation") -> dict[str, Any]:
    """What a line of JSON holds; the attention of a text in pieces stands with each of them: joined it is mostly 0."""
    shown = dataclasses.replace(translation, attention=None) if translation.pieces else translation
    fields = {field.name: getattr(shown, field.name) for field in dataclasses.fields(shown)}
    pieces = [_fields(piece) for piece in fields.pop("pieces")]
    return {**fields, "pieces": pieces} if pieces else fields


def _attention_shown(arguments: argparse.Namespace) -> "Callable[[int, Translation], None] | None":
    """What is to be done with the attention of text number n; None: nothing."""
    name = arguments.attention
    if name is None:
        return None
    if name == "-":
        if arguments.json and arguments.output is None:
            raise UserError("--attention - would stand between the lines of --json; add --output FILE or leave one out")
        return _print_attention
    from seq2seq.plotting.heatmap import check_picture_path, draw_attention

    path, alone = Path(name), len(arguments.texts) == 1
    check_picture_path(path)

    def draw(number: int, seen: "Translation") -> None:
        if not seen.source_tokens:
            log.warning(f"text {number} is empty: there is no attention to draw")
            return
        for count, piece in enumerate(seen.pieces or [seen], 1):
            numbers = ([] if alone else [number]) + ([count] if seen.pieces else [])
            to = path.with_name("-".join(map(str, [path.stem, *numbers])) + path.suffix)
            draw_attention(to, piece.source_tokens, piece.target_tokens, piece.attention or [], piece.text)

    return draw


def _print_attention(_: int, seen: "Translation") -> None:
    from seq2seq.plotting.terminal import attention_lines, takes_colour

    for piece in seen.pieces or [seen]:
        if piece.attention:
            lines = attention_lines(piece.source_tokens, piece.target_tokens, piece.attention, takes_colour(sys.stdout))
            # Where the reader of stdout has gone, the file of --output is still finished.
            with suppress(BrokenPipeError):
                print(*lines, "", sep="\n")


def _chunks(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """The texts as they come: what is there is not kept waiting for more."""
    from seq2seq.data.files import decode_as_they_come, read_as_they_come

    if arguments.input is None:
        groups = iter([arguments.texts])
    else:
        # No read-ahead in another thread: while one chunk is translated, the pipe itself collects the next.
        stdin = arguments.input == "-"
        lines = decode_as_they_come(_stdin(), "stdin") if stdin else read_as_they_come(arguments.input)
        groups = ([text for _, text in group] for group in lines)
    for group in groups:
        for start in range(0, len(group), CHUNK):
            yield group[start : start + CHUNK]


def _stdin() -> BinaryIO:
    if sys.stdin is None:  # closed by the caller: <&-
        raise UserError("stdin is closed; pipe text into it, or name a file with --input")
    return sys.stdin.buffer


def _check_unicode(texts: Sequence[str]) -> None:
    for number, text in enumerate(texts, 1):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            # Python keeps a byte that is no text in the locale's encoding as U+DC80 to U+DCFF.
            code = ord(text[error.start])
            if 0xDC80 <= code <= 0xDCFF:
                fault = f"byte 0x{code - 0xDC00:02x} at byte {len(text[: error.start].encode()) + 1} of the text"
            else:
                fault = f"lone surrogate U+{code:04X} at character {error.start + 1} of the text"
            raise UserError(f"TEXT {number}: not valid UTF-8 ({fault}); give it in UTF-8") from None


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
    parser.add_argument(
        "--attention",
        metavar="FILE",
        help="draw the attention as .png, .svg or .html: out.png; where there are several texts or --input, out-1.png, "
        "out-2.png ..., by the number of the text; out-1-1.png, out-1-2.png ... for the pieces of a long text; - shows "
        "it on stdout after each translation",
    )
    parser.add_argument(
        "--alignments",
        action="store_true",
        help="after each translation ' ||| ' and source-target links, 0-0 1-2 ..., over the tokens of the model from 0 "
        "(--json shows them) without </s>: each target token with the source token of most attention",
    )
    return parser


if __name__ == "__main__":
    sys.exit(cli.run(arguments(), main))
