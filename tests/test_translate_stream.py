"""`translate` as a part of a pipe: output as it comes, a slow or a fast writer, a reader that goes, flat memory."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from seq2seq import cli, translate
from seq2seq.inference.translator import Translation, Translator
from tests.helpers import ROOT, command

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "SEQ2SEQ_MODEL": ""}


@contextmanager
def piped(home: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """`translate --input -` with open pipes."""
    line = [sys.executable, "-m", "seq2seq.translate", "--input", "-", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(line, cwd=home, env=ENVIRONMENT, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        # A command that keeps its output to itself would be waited for without an end.
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        try:
            yield process
        finally:
            watchdog.cancel()
            process.kill()


def exchange(process: subprocess.Popen[bytes], text: bytes) -> bytes:
    """Write to the command and wait for a line of it."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(text)
    process.stdin.flush()
    return process.stdout.readline()


def test_each_line_of_a_slow_writer_is_translated_before_the_next_is_written(home: Path) -> None:
    expected = command("translate", "123", "4567", "89", cwd=home).stdout.encode().splitlines(keepends=True)
    with piped(home) as process:
        assert process.stdin is not None
        process.stdin.write(b"12")
        process.stdin.flush()
        assert exchange(process, b"3\n") == expected[0]
        assert exchange(process, b"4567\n8") == expected[1]
        assert exchange(process, b"\xff\n") == b""
        assert process.wait(60) == 2
        assert process.stderr is not None
        assert b"error: stdin, line 3: not valid UTF-8" in process.stderr.read()


def test_the_lines_of_a_fast_writer_are_translated_together(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes: list[int] = []

    def count(self: Translator, texts: list[str], *_: object) -> list[Translation]:
        sizes.append(len(texts))
        return [Translation(text, 0.0, [], [], None) for text in texts]

    monkeypatch.chdir(home)
    monkeypatch.setattr(Translator, "translate", count)
    lines = [str(number) for number in range(2500)]
    (tmp_path / "in.txt").write_text("\n".join(lines), encoding="utf-8")
    assert cli.run(translate.arguments(), translate.main, ["--input", str(tmp_path / "in.txt")]) == 0
    assert capsys.readouterr().out.splitlines() == lines
    # All but the last line, whose end is known only at the end of the file, came in one block.
    assert sizes == [1000, 1000, 499, 1]


@pytest.mark.skipif(sys.platform == "win32", reason="needs bash and POSIX signals")
class TestEnds:
    """Who stops whom."""

    def test_a_reader_that_goes_ends_it_quietly_with_a_hundred_thousand_lines_to_come(self, home: Path) -> None:
        line = f"{sys.executable} -m seq2seq.translate --beam 1 --input -"
        script = f"seq 100000 | {line} | head -1; echo ${{PIPESTATUS[1]}}"
        done = subprocess.run(
            ["bash", "-c", script], cwd=home, env=ENVIRONMENT, capture_output=True, text=True, timeout=120
        )
        assert (done.stderr, done.stdout.splitlines()[1:]) == ("", ["0"])

    def test_a_reader_that_goes_ends_it_though_the_writer_never_stops(self, home: Path) -> None:
        line = f"{sys.executable} -m seq2seq.translate --beam 1 --input - | head -2"
        done = subprocess.run(
            ["bash", "-c", f"yes 123 | {line}"], cwd=home, env=ENVIRONMENT, capture_output=True, text=True, timeout=120
        )
        assert (done.stderr, len(done.stdout.splitlines())) == ("", 2)

    def test_ctrl_c_ends_it_while_it_waits_for_a_line(self, home: Path) -> None:
        with piped(home) as process:
            assert exchange(process, b"123\n")
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
            assert process.stderr is not None
            assert process.stderr.read() == b"python -m seq2seq.translate: interrupted\n"


# The real command with a search that costs nothing; it says how much memory it had at most, in MiB.
MEASURED = """
import resource, sys
from seq2seq import cli, translate
from seq2seq.inference.search import Hypothesis
from seq2seq.inference.translator import Translator
Translator._search = lambda self, sources, *_: [Hypothesis([*ids], -1.0, -1.0, True, None) for ids in sources]
status = cli.run(translate.arguments(), translate.main, ["--input", "-", "--json"])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
print(peak, file=sys.stderr)
sys.exit(status)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs the resource module")
def test_memory_stays_flat_over_a_hundred_thousand_lines(home: Path) -> None:
    peaks = []
    for count in (10_000, 100_000):
        text = "".join(f"{number:012}\n" for number in range(count))
        done = subprocess.run(
            [sys.executable, "-c", MEASURED], cwd=home, env=ENVIRONMENT, input=text, capture_output=True, text=True,
            timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("\n") == count
        peaks.append(float(done.stderr))
    # To keep the 90,000 translations more would take 50 MiB.
    assert peaks[1] - peaks[0] < 20
