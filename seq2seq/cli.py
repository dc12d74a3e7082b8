"""What all commands share: one-line errors with exit status 2, messages on stderr, quiet pipes."""

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from seq2seq.config.schema import MAX_BEAM
from seq2seq.errors import UserError, is_out_of_memory

INTERRUPTIONS = (130, 143, 129)
"""Exit statuses after Ctrl-C, SIGTERM and SIGHUP, as a shell gives them: 128 plus the signal's number."""


class Interrupted(KeyboardInterrupt):
    """A signal ended the command, and all that there was to say of it has been said.

    Args:
        status: one of INTERRUPTIONS.
    """

    def __init__(self, status: int = 130) -> None:
        super().__init__()
        self.status = status


class _Patient:
    """stderr, of which no trouble (a reader that has gone, a full disk) is to end what the command does."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}; see --help\n")


def parser(module: str, description: str) -> argparse.ArgumentParser:
    """An argument parser for `python -m seq2seq.MODULE`."""
    made = _Parser(prog=f"python -m seq2seq.{module}", description=description, allow_abbrev=False)
    made.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return made


def run(
    made: argparse.ArgumentParser,
    main: Callable[[argparse.Namespace], int | None],
    arguments: Sequence[str] | None = None,
) -> int:
    """Parse the arguments, run the command, turn what a user can cause into one line; gives the exit status."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller: >&-
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
    parsed = made.parse_args(arguments)
    sys.stderr = _Patient(sys.stderr)
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    logging.getLogger("seq2seq").setLevel(logging.INFO)
    try:
        status = main(parsed) or 0
        sys.stdout.flush()
        return status
    except UserError as error:
        return _fail(made.prog, str(error), parsed.debug)
    except ModuleNotFoundError as error:
        line = f"package {error.name} is missing here: use the environment `make train` makes (. .venv/bin/activate)"
        return _fail(made.prog, line, parsed.debug)
    except BrokenPipeError:
        # The reader has gone (`| head -1`): no more output, no complaint at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        # Whatever the system refuses: a full disk, a folder that may not be written, a file in a folder's place.
        where = f"{error.filename}: " if error.filename else ""
        return _fail(made.prog, f"{where}{error.strerror or error}", parsed.debug)
    except Interrupted as stop:
        return stop.status
    except KeyboardInterrupt:
        print(f"{made.prog}: interrupted", file=sys.stderr)
        return Interrupted().status
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return _fail(
            made.prog, "out of memory; lower search.batch_tokens, --beam or training.batch_tokens", parsed.debug
        )


def add_model_arguments(made: argparse.ArgumentParser) -> None:
    """The arguments of every command that translates: --model, --beam, --device."""
    made.add_argument("--model", metavar="DIR", help="run directory (default: $SEQ2SEQ_MODEL, else the newest run)")
    made.add_argument("--beam", type=beam_size, metavar="K", help="beam size (default: the run's search.beam)")
    made.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:N or mps")


def beam_size(text: str) -> int:
    """The argument of --beam."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MAX_BEAM:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {MAX_BEAM}")
    return int(text)


def python() -> str:
    """The interpreter as a person would type it here."""
    try:
        here = os.path.relpath(sys.executable)
    except ValueError:  # another drive, on Windows
        return sys.executable
    return sys.executable if here.startswith("..") else here


def _fail(program: str, line: str, debug: bool) -> int:
    if debug:
        raise
    print(f"{program}: error: {line}", file=sys.stderr)
    return 2
