"""Work in other processes: in order, a few pieces at a time, and nothing left behind."""

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from seq2seq.data import workers
from seq2seq.data.workers import Workers, in_pieces
from seq2seq.errors import UserError
from tests.helpers import ROOT

ALONE = workers._ALONE
WHO = "__import__('os').getpid()"


def test_items_are_handed_out_so_many_at_a_time() -> None:
    assert list(in_pieces(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert list(in_pieces([], 2)) == []


@pytest.mark.parametrize("count", [1, 2, 3])
def test_results_come_in_the_order_of_the_pieces(count: int) -> None:
    with Workers(count) as pool:
        for size in (0, 1, ALONE, 30):
            assert list(pool.map(math.sqrt, range(size))) == [math.sqrt(n) for n in range(size)]


def test_little_work_is_done_here_and_much_by_other_processes() -> None:
    with Workers(2) as pool:
        assert set(pool.map(eval, [WHO] * ALONE)) == {os.getpid()}
        found = list(pool.map(eval, [WHO] * (ALONE + 20)))
        assert set(found[:ALONE]) == {os.getpid()}
        assert os.getpid() not in found[ALONE:] and len(set(found[ALONE:])) <= 2
        assert os.getpid() not in pool.map(eval, [WHO]), "once they are there, they are used"
    with Workers(1) as pool:
        assert set(pool.map(eval, [WHO] * 30)) == {os.getpid()}


def test_no_more_pieces_are_taken_than_the_processes_need() -> None:
    taken: list[int] = []

    def pieces() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    with Workers(2) as pool:
        for number, _ in enumerate(pool.map(math.sqrt, pieces())):
            assert len(taken) <= number + 2 + 2 * 2


def test_what_the_function_raises_is_raised_here() -> None:
    error = "__import__('seq2seq.errors', fromlist=['UserError']).UserError('no such file')"
    with pytest.raises(UserError, match="no such file"), Workers(2) as pool:
        list(pool.map(eval, [*["1"] * 9, f"(_ for _ in ()).throw({error})", *["1"] * 9]))


def test_what_a_process_that_dies_leaves_undone_is_done_here() -> None:
    deadly = f"{WHO} if {WHO} == {os.getpid()} else __import__('os')._exit(3)"
    with Workers(2) as pool:
        found = list(pool.map(eval, [*["1"] * 9, *[deadly] * 4, *["2"] * 9]))
    assert found == [*[1] * 9, *[os.getpid()] * 4, *[2] * 9]


def test_what_is_printed_there_is_no_answer(capfd: pytest.CaptureFixture[str]) -> None:
    with Workers(2) as pool:
        assert list(pool.map(eval, ["print('hello') or 7"] * 9)) == [7] * 9
    assert "hello" in capfd.readouterr().err


SCRIPT = f"""
import sys, time
from seq2seq.data.workers import Workers
print("begun", flush=True)
with Workers(2) as pool:
    print(*set(pool.map(eval, ["{WHO}"] * 30)), flush=True)
    time.sleep(float(sys.argv[1]))
"""


def start(folder: Path, seconds: int) -> "subprocess.Popen[str]":
    (folder / "script.py").write_text(SCRIPT, encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, "script.py", str(seconds)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def test_a_script_without_a_guard_is_not_run_again(tmp_path: Path) -> None:
    out, errors = start(tmp_path, 0).communicate(timeout=60)
    assert out.count("begun") == 1 and len(out.split()) >= 3
    assert errors == ""


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{process}/stat")
    return not (state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z")


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize("way", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_no_process_outlives_the_one_that_started_it(tmp_path: Path, way: str) -> None:
    with start(tmp_path, 60) as script:
        assert script.stdout is not None
        assert script.stdout.readline() == "begun\n"
        processes = [int(each) for each in script.stdout.readline().split()]
        assert len(processes) >= 2
        script.send_signal(getattr(signal, way))
        script.communicate(timeout=60)
    end = time.monotonic() + 30
    while time.monotonic() < end and any(map(is_running, processes)):
        time.sleep(0.05)
    assert not any(map(is_running, processes))
