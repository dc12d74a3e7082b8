"""Small faults that neither the linter nor the type checker sees: one line for each, exit status 1 if there are any.

Text files: UTF-8, no carriage returns, one newline at the end, no trailing blanks, no left-over markers or debuggers.
Python files: at most 400 lines; no print() in the library outside its commands; no long run of lines written twice.
"""

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

BINARY = {".gif", ".gz", ".ico", ".jpeg", ".jpg", ".npy", ".pdf", ".png", ".safetensors", ".woff2", ".zip"}
MAX_LINES = 400
REPEATED_LINES = 8
PRINTING = {
    "seq2seq/cli.py",
    "seq2seq/compare.py",
    "seq2seq/config/__main__.py",
    "seq2seq/evaluate.py",
    "seq2seq/train.py",
    "seq2seq/translate.py",
}
# In pieces, so that this file does not find itself.
LEFTOVERS = re.compile(
    r"\b(TO" r"DO|FIX" r"ME)\b|@" r"@[A-Z]|\bimport (pdb|ipdb)\b|\bi?pdb\.set_" r"trace\b|\bbreak" r"point\("
)


def listed_files(root: Path) -> list[Path]:
    """What git tracks or would add, without what has been deleted; paths relative to root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=root, capture_output=True, check=True).stdout.decode("utf-8")
    files = sorted({Path(name) for name in listing.split("\0") if name})
    return [file for file in files if (root / file).is_file() and not (root / file).is_symlink()]


def text_faults(file: Path, text: str) -> Iterator[str]:
    """Faults of any text file."""
    if "\r" in text:
        yield f"{file}:{text[: text.index(chr(13))].count(chr(10)) + 1}: carriage return; lines end in \\n alone"
    if text and not text.endswith("\n"):
        yield f"{file}: no newline at the end"
    for number, line in enumerate(text.split("\n"), start=1):
        if line.rstrip("\r") != line.rstrip("\r").rstrip(" \t"):
            yield f"{file}:{number}: blanks at the end of the line"
        if found := LEFTOVERS.search(line):
            yield f"{file}:{number}: left-over {found.group()}"


def python_faults(file: Path, text: str) -> Iterator[str]:
    """Faults of one Python file."""
    count = text.count("\n")
    if count > MAX_LINES:
        yield f"{file}: {count} lines, over {MAX_LINES}; is it still one job?"
    if file.parts[0] != "seq2seq" or file.as_posix() in PRINTING:
        return
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        yield f"{file}:{error.lineno}: not valid Python: {error.msg}"
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield f"{file}:{node.lineno}: print() inside the library; use logging"


def repetitions(texts: dict[Path, str]) -> Iterator[str]:
    """Runs of code lines that stand in two places; blanks, comments, imports and lone brackets do not count."""
    first_seen: dict[tuple[str, ...], tuple[Path, int]] = {}
    for file, text in texts.items():
        lines = [(n, line.strip()) for n, line in enumerate(text.split("\n"), start=1)]
        code = [
            (n, line) for n, line in lines if re.search(r"\w", line) and not line.startswith(("#", "import ", "from "))
        ]
        inside = False
        for start in range(len(code) - REPEATED_LINES + 1):
            run = code[start : start + REPEATED_LINES]
            here = (file, run[0][0])
            there = first_seen.setdefault(tuple(line for _, line in run), here)
            if there != here and not inside:
                yield f"{file}:{here[1]}: repeats {REPEATED_LINES} or more lines of {there[0]}:{there[1]}"
            inside = there != here


def faults(root: Path) -> Iterable[str]:
    """All faults under root."""
    library: dict[Path, str] = {}
    for file in listed_files(root):
        if file.suffix.lower() in BINARY:
            continue
        try:
            text = (root / file).read_bytes().decode("utf-8")
        except UnicodeDecodeError as error:
            yield f"{file}: not UTF-8 at byte {error.start}"
            continue
        yield from text_faults(file, text)
        if file.suffix == ".py":
            yield from python_faults(file, text)
            if file.parts[0] != "tests":
                library[file] = text
    yield from repetitions(library)


def main() -> int:
    """The command; gives the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(__file__).resolve().parent.parent
    parser.add_argument("root", nargs="?", type=Path, default=default, help="a git work tree; default: this project")
    try:
        found = list(faults(parser.parse_args().root))
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"check_hygiene: git cannot list the files: {error}", file=sys.stderr)
        return 2
    for fault in found:
        print(fault)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
