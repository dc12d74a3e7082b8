"""Folders made whole or not at all, by several processes at once, by some that were killed."""

import os
import time
from pathlib import Path

import pytest

from seq2seq.data.folders import atomic_folder, discard, remove_leftovers
from seq2seq.errors import UserError


def test_a_folder_appears_when_it_is_whole(tmp_path: Path) -> None:
    place = tmp_path / "new" / "place"
    with atomic_folder(place) as temporary:
        (temporary / "file").write_text("whole")
        assert not place.exists() and temporary.parent == place.parent
    assert (place / "file").read_text() == "whole"
    assert [path.name for path in place.parent.iterdir()] == ["place"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, UserError, OSError])
def test_a_block_that_raises_leaves_no_trace(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), atomic_folder(tmp_path / "place") as temporary:
        (temporary / "file").touch()
        raise error("out of luck")
    assert list(tmp_path.iterdir()) == []


def test_what_another_process_has_made_meanwhile_stays(tmp_path: Path) -> None:
    with atomic_folder(tmp_path / "place") as mine:
        (mine / "file").write_text("mine")
        with atomic_folder(tmp_path / "place") as theirs:
            (theirs / "file").write_text("theirs")
    assert (tmp_path / "place" / "file").read_text() == "theirs"
    assert [path.name for path in tmp_path.iterdir()] == ["place"]


def test_a_file_in_the_way_is_one_line_and_stays(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file")
    with pytest.raises(UserError, match=r"^.*place: cannot be written: .+$"), atomic_folder(tmp_path / "file/place"):
        raise AssertionError("nothing can be made there")
    with pytest.raises(UserError, match=r"^.*file: cannot be written: .+$"), atomic_folder(tmp_path / "file"):
        pass
    assert (tmp_path / "file").read_text() == "a file"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "parent" / "place").mkdir(parents=True)
    (tmp_path / "parent").chmod(0o555)
    try:
        with pytest.raises(UserError, match=r"^.*other: cannot be written: Permission denied$"):
            atomic_folder(tmp_path / "parent" / "other").__enter__()
        with pytest.raises(UserError, match=r"^.*place: cannot be written: Permission denied$"):
            discard(tmp_path / "parent" / "place")
    finally:
        (tmp_path / "parent").chmod(0o755)


def test_discarding_takes_a_folder_a_file_a_link_or_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    (tmp_path / "file").touch()
    (tmp_path / "kept").mkdir()
    names = ["folder", "file", "nothing"]
    try:
        (tmp_path / "link").symlink_to(tmp_path / "kept", target_is_directory=True)
        names.append("link")
    except OSError:
        pass  # not allowed on every Windows
    for name in names:
        discard(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_only_what_looks_temporary_and_has_not_changed_for_a_day_is_a_leftover(tmp_path: Path) -> None:
    def age(path: Path, hours: float) -> None:
        os.utime(path, (time.time() - 3600 * hours,) * 2)

    def folder(name: str, hours: float, file_hours: float) -> None:
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
        age(tmp_path / name / "file", file_hours)
        age(tmp_path / name, hours)

    folder(".0123.abcd_123", 25, 25)
    folder(".0124.abcd_123", 25, 23)
    folder(".0125.abcd_123", 23, 25)
    folder("0126.abcd_123", 99, 99)
    folder(".git", 99, 99)
    folder(".0127.backup", 99, 99)
    (tmp_path / ".a.txt.abcd_123").touch()
    age(tmp_path / ".a.txt.abcd_123", 99)
    before = {path.name for path in tmp_path.iterdir()}
    remove_leftovers(tmp_path)
    assert before - {path.name for path in tmp_path.iterdir()} == {".0123.abcd_123"}
    remove_leftovers(tmp_path / "none")
