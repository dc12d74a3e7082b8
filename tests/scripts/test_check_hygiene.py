"""The hygiene check finds each planted fault, at its line, and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "check_hygiene.py"
RUN = "".join(f"value_{n} = {n}\n" for n in range(8))


def check(root: Path) -> tuple[int, list[str]]:
    done = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A clean work tree with nothing committed."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "seq2seq" / "config").mkdir(parents=True)
    (tmp_path / "tests").mkdir()
    (tmp_path / ".gitignore").write_bytes(b"/ignored/\n")
    (tmp_path / "seq2seq" / "train.py").write_bytes('"""A command."""\n\nprint("你好")\n'.encode())
    return tmp_path


def test_a_clean_tree_passes(tree: Path) -> None:
    assert check(tree) == (0, [])


@pytest.mark.parametrize(
    ("content", "where"),
    [
        (b"a = '\xff'\n", "seq2seq/x.py: not UTF-8"),
        (b"a = 1\nb = 2\r\n", "seq2seq/x.py:2: carriage return"),
        (b"a = 1", "seq2seq/x.py: no newline"),
        (b"a = 1\n\nb = 2 \n", "seq2seq/x.py:3: blanks"),
        (b"a = 1\n" * 401, "seq2seq/x.py: 401 lines"),
        (b'"""Never print(this)."""\n\nprint(1)\n', "seq2seq/x.py:3: print()"),
        (b"a = 1  # TO" + b"DO: more\n", "seq2seq/x.py:1: left-over"),
        (b"import p" + b"db\n", "seq2seq/x.py:1: left-over"),
        (b"a = (\n", "seq2seq/x.py:1: not valid Python"),
    ],
)
def test_each_fault_is_found_where_it_stands(tree: Path, content: bytes, where: str) -> None:
    (tree / "seq2seq" / "x.py").write_bytes(content)
    status, lines = check(tree)
    assert status == 1
    assert any(line.startswith(where) for line in lines)
    assert all(line.startswith(("seq2seq/x.py:", where)) for line in lines)


def test_a_run_of_lines_in_two_places_is_found_once_despite_indentation_blanks_and_comments(tree: Path) -> None:
    (tree / "seq2seq" / "a.py").write_text(RUN + "last = 1\n", encoding="utf-8", newline="\n")
    copied = "".join(f"\n    # why\n    {line}\n" for line in [*RUN.splitlines(), "last = 1"])
    (tree / "seq2seq" / "b.py").write_text(f"def f():\n{copied}", encoding="utf-8", newline="\n")
    status, lines = check(tree)
    assert status == 1
    assert len(lines) == 1
    assert lines[0].startswith("seq2seq/b.py:4: repeats")
    assert lines[0].endswith("seq2seq/a.py:1")


def test_a_shorter_run_and_runs_within_the_tests_pass(tree: Path) -> None:
    for name in ("seq2seq/a.py", "seq2seq/b.py"):
        (tree / name).write_text("".join(RUN.splitlines(True)[:7]), encoding="utf-8", newline="\n")
    for name in ("tests/a.py", "tests/b.py"):
        (tree / name).write_text(RUN, encoding="utf-8", newline="\n")
    assert check(tree) == (0, [])


def test_ignored_and_binary_files_are_left_alone(tree: Path) -> None:
    (tree / "ignored").mkdir()
    (tree / "ignored" / "x.py").write_bytes(b"print(1) ")
    (tree / "picture.png").write_bytes(b"\x89PNG\r\n")
    assert check(tree) == (0, [])
