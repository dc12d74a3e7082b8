"""Reading lines and writing files whole."""

import bz2
import errno
import gzip
import io
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seq2seq.data.files import (
    atomic_write,
    check_named,
    check_writable,
    decode_as_they_come,
    decode_lines,
    read_lines,
    write_text,
)
from seq2seq.errors import UserError


def test_only_newline_ends_a_line(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("a\u2028b\u0085c\rd\x0be\r\nf\n\nlast\r".encode())
    assert list(read_lines(path)) == [(1, "a\u2028b\u0085c\rd\x0be"), (2, "f"), (3, ""), (4, "last\r")]


def test_a_bom_is_dropped_at_the_start_and_nowhere_else(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeff你好\n\ufeff再见\n".encode())
    assert [line for _, line in read_lines(path)] == ["你好", "\ufeff再见"]


@pytest.mark.parametrize(("suffix", "compress"), [("gz", gzip.compress), ("bz2", bz2.compress), ("GZ", gzip.compress)])
def test_compressed_text_reads_like_plain_text(tmp_path: Path, suffix: str, compress) -> None:
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(compress("一\n二\n".encode()))
    assert list(read_lines(path)) == [(1, "一"), (2, "二")]


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    assert list(read_lines(tmp_path / "a.txt")) == []


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\ufeff"))))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
def test_what_is_written_line_by_line_is_read_back(tmp_path: Path, lines: list[str]) -> None:
    write_text(tmp_path / "a.txt", "".join(f"{line}\n" for line in lines))
    assert [line for _, line in read_lines(tmp_path / "a.txt")] == lines


def test_invalid_utf8_is_refused_with_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("好\n".encode() + "好的\n".encode("gbk"))
    with pytest.raises(UserError, match=r"a\.txt, line 2: not valid UTF-8 \(byte 0xba at byte 1 of the line\)"):
        list(read_lines(path))


def test_a_missing_file_and_a_folder_are_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^.*none: no such file$"):
        list(read_lines(tmp_path / "none"))
    with pytest.raises(UserError, match=r"^.*is a folder.*$"):
        list(read_lines(tmp_path))


@pytest.mark.parametrize("suffix", ["gz", "bz2"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "plain"])
def test_damaged_compression_is_refused_in_one_line(tmp_path: Path, suffix: str, damage: str) -> None:
    text = "".join(f"{n * n}\n" for n in range(5000)).encode()
    whole = gzip.compress(text) if suffix == "gz" else bz2.compress(text)
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes([whole[middle] ^ 0xFF]) + whole[middle + 1 :]
    path = tmp_path / f"a.{suffix}"
    path.write_bytes({"cut": whole[:middle], "flipped": flipped, "plain": text}[damage])
    with pytest.raises(UserError, match=rf"a\.{suffix}: damaged or cut short") as caught:
        list(read_lines(path))
    assert "\n" not in str(caught.value)


class Blocks(io.RawIOBase):
    """A file that gives one block for each read, and raises what stands among them."""

    def __init__(self, *blocks: bytes | Exception) -> None:
        self.blocks = list(blocks)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self.blocks.pop(0) if self.blocks else b""
        if isinstance(block, Exception):
            raise block
        buffer[: len(block)] = block
        return len(block)


def test_a_stream_is_read_as_it_comes() -> None:
    stream = Blocks(b"on", b"e\ntw", b"o\nthree\n", b"\n", b"fo", AssertionError("read ahead"))
    groups = decode_as_they_come(io.BufferedReader(stream), "stdin")
    assert [next(groups) for _ in range(3)] == [[(1, "one")], [(2, "two"), (3, "three")], [(4, "")]]
    assert next(decode_lines(io.BufferedReader(Blocks(b"1\n", AssertionError("read ahead"))), "stdin")) == (1, "1")


def test_an_error_of_a_stream_comes_after_the_lines_before_it() -> None:
    for fault, message in (
        (b"c\xff\nd\n", "stdin, line 3: not valid UTF-8 (byte 0xff at byte 2 of the line)"),
        (OSError(errno.EIO, "Input/output error"), "stdin: damaged or cut short after line 2 ("),
    ):
        found = []
        with pytest.raises(UserError, match=re.escape(message)):
            for number, line in decode_lines(io.BufferedReader(Blocks(b"a\nb\n", fault)), "stdin"):
                found.append((number, line))
        assert found == [(1, "a"), (2, "b")]


@given(st.lists(st.text(st.sampled_from("ab好\r\n\ufeff"), min_size=1).map(str.encode), max_size=8), st.integers(1, 4))
def test_lines_do_not_depend_on_where_a_stream_is_cut(blocks: list[bytes], size: int) -> None:
    content = b"".join(blocks)
    cut = [content[start : start + size] for start in range(0, len(content), size)]
    expected = content.decode().removeprefix("\ufeff").split("\n")
    expected = [line.removesuffix("\r") for line in expected[:-1]] + ([expected[-1]] if expected[-1] else [])
    for given_blocks in (blocks, cut):
        found = list(decode_lines(io.BufferedReader(Blocks(*given_blocks)), "x"))
        assert found == list(enumerate(expected, 1))


def test_text_is_written_as_given_into_a_new_folder(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.txt"
    write_text(path, "一\n二\r\n")
    assert path.read_bytes() == "一\n二\r\n".encode()
    assert list(path.parent.iterdir()) == [path]


def test_the_old_file_stands_while_the_block_runs_and_when_it_fails(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), atomic_write(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_text() == "old"
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_block_may_close_the_file(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "a") as file:
        file.write(b"new")
        file.close()
    assert (tmp_path / "a").read_bytes() == b"new"


def test_what_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"^.*a\.txt: cannot be written: .*$"):
        write_text(tmp_path / "file" / "a.txt", "text")
    with pytest.raises(UserError, match="is a folder, not a file; name a file to write"):
        write_text(tmp_path, "text")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("call", ["os.fsync", "pathlib.Path.replace"])
def test_a_file_that_cannot_be_finished_is_named_and_leaves_nothing(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "disk full")

    monkeypatch.setattr(call, fail)
    with pytest.raises(UserError, match=r"^.*b: cannot be written: disk full$"):
        write_text(tmp_path / "b", "text")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
@pytest.mark.parametrize("size", [100, 1_000_000], ids=["at the end", "while it is written"])
def test_a_full_disk_is_blamed_on_the_file_that_is_written(size: int, tmp_path: Path) -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with (
        pytest.raises(UserError, match=r"^.*b: cannot be written: File too large$"),
        atomic_write(tmp_path / "b") as file,
    ):
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
        try:
            file.write(b"x" * size)
            file.close()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


def test_what_the_block_raises_for_its_own_reasons_is_not_blamed_on_the_file(tmp_path: Path) -> None:
    with pytest.raises(BrokenPipeError), atomic_write(tmp_path / "b") as file:
        file.write(b"text")
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")
    assert list(tmp_path.iterdir()) == []


def test_a_place_where_nothing_can_be_written_is_refused_beforehand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"deep.a: cannot be written: .*file is a file, not a folder"):
        check_writable(tmp_path / "file" / "deep" / "a")
    for folder in (tmp_path, "."):
        with pytest.raises(UserError, match="is a folder, not a file; name a file to write"):
            check_writable(folder)
    check_writable(tmp_path / "new" / "folder" / "a")
    check_writable(tmp_path / "file")
    asked: list[object] = []
    monkeypatch.setattr(os, "access", lambda path, mode: asked.append((path, mode)))
    with pytest.raises(UserError, match="no permission to write in"):
        check_writable(tmp_path / "new" / "a")
    assert asked == [(tmp_path, os.W_OK | os.X_OK)]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_empty_name_is_refused_with_its_option() -> None:
    check_named(input=None, output="-")
    with pytest.raises(UserError, match=r"^--output is empty; name a file$"):
        check_named(input=None, output="")
