"""A preparation that was damaged, cut off, or made twice at once; a disk that is full."""

import logging
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from seq2seq.data import prepare as module
from seq2seq.data.checksums import write_checksums
from seq2seq.data.prepare import Prepared, prepare
from seq2seq.errors import UserError
from tests.helpers import ROOT


@pytest.fixture
def tsv(tmp_path: Path) -> Path:
    path = tmp_path / "a.tsv"
    path.write_text("".join(f"{n}\t{n * 7}\n" for n in range(1000, 1400)), encoding="utf-8", newline="\n")
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Those of the preparation; the tokenizers have some of their own."""
    mine = (record for record in caplog.records if record.name == module.__name__)
    return [record.getMessage() for record in mine if record.levelno == logging.WARNING]


NAMES = [
    *("SHA256SUMS", "prepared.json", "log.txt", "train.origins.json", "train.origins.npy"),
    *("tokenizer.source.json", "tokenizer.target.json", "train.tsv", "dev.tsv", "test.tsv", "train.lines.npy"),
    *("train.source.ids.npy", "train.target.offsets.npy", "dev.source.offsets.npy", "test.target.ids.npy"),
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("damage", ["deleted", "cut short", "emptied", "one bit flipped"])
def test_a_damaged_file_is_named_and_the_corpus_prepared_again(
    config, tsv: Path, tmp_path: Path, name: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    prepared = prepare(config(f"data.train={tsv}"), tmp_path)
    whole = contents(prepared.directory)
    path, content = prepared.directory / name, whole[name]
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    path.write_bytes({"cut short": content[:-9], "emptied": b"", "one bit flipped": flipped}.get(damage, b""))
    if damage == "deleted":
        path.unlink()
    assert not prepared.is_complete()
    assert prepare(config(f"data.train={tsv}"), tmp_path) == prepared
    [warning] = warnings(caplog)
    assert warning.startswith(f"warning: {prepared.directory}: ") and warning.endswith("; the corpus is prepared again")
    assert "missing or damaged" in warning and (name in warning or name == "SHA256SUMS")
    assert contents(prepared.directory) == whole
    assert prepared.is_complete()
    assert [path.name for path in (tmp_path / "prepared").iterdir()] == [prepared.directory.name]


def test_what_is_whole_is_used_without_a_warning(config, tsv: Path, tmp_path: Path, caplog, monkeypatch) -> None:
    prepared = prepare(config(f"data.train={tsv}"), tmp_path)
    monkeypatch.setattr(module, "_write", None)
    assert prepare(config(f"data.train={tsv}"), tmp_path) == prepared
    assert warnings(caplog) == []


def test_one_of_another_format_or_of_another_corpus_is_made_again(
    config, tsv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = prepare(config(f"data.train={tsv}"), tmp_path)
    whole = contents(prepared.directory)
    other = prepare(config(f"data.train={tsv}", "seed=1"), tmp_path)
    shutil.rmtree(prepared.directory)
    shutil.copytree(other.directory, prepared.directory)
    assert prepared.damaged() == ["prepared.json"]
    prepare(config(f"data.train={tsv}"), tmp_path)
    assert contents(prepared.directory) == whole
    monkeypatch.setattr(module, "FORMAT", module.FORMAT + 1)
    assert prepared.damaged() == ["prepared.json"]
    assert prepare(config(f"data.train={tsv}"), tmp_path) != prepared


def test_a_folder_without_most_of_its_files_is_not_whole_whatever_its_list_says(config, tsv: Path, tmp_path) -> None:
    prepared = prepare(config(f"data.train={tsv}"), tmp_path)
    for path in prepared.directory.glob("t*"):
        path.unlink()
    write_checksums(prepared.directory)
    assert prepared.damaged()[:2] == ["train.origins.npy", "train.origins.json"]
    assert not Prepared(tmp_path / "none").is_complete()


def test_a_file_in_the_place_of_the_folder_gives_way(config, tsv: Path, tmp_path: Path, caplog) -> None:
    prepared = prepare(config(f"data.train={tsv}"), tmp_path)
    shutil.rmtree(prepared.directory)
    prepared.directory.write_text("a file")
    assert prepare(config(f"data.train={tsv}"), tmp_path).is_complete()
    assert "prepared.json, log.txt, train.origins.npy and 19 more missing or damaged" in caplog.text


def test_old_leftovers_go_and_the_work_of_others_stays(config, tsv: Path, tmp_path: Path) -> None:
    old, fresh = (tmp_path / "prepared" / f".0123456789abcdef.{name}" for name in ("abandond", "underway"))
    for folder in (old, fresh):
        folder.mkdir(parents=True)
    os.utime(old, (time.time() - 90_000,) * 2)
    prepared = prepare(config(f"data.train={tsv}"), tmp_path)
    assert {path.name for path in (tmp_path / "prepared").iterdir()} == {fresh.name, prepared.directory.name}


PREPARE = """
import argparse, logging, sys, time
from pathlib import Path
from seq2seq import cli
from seq2seq.config import parse_config
from seq2seq.data.prepare import prepare
limit, folder, *sets = sys.argv[1:]
if limit != "none":
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), -1))
config = parse_config("", sets)
sys.exit(cli.run(cli.parser("train", "prepare"), lambda _: print(prepare(config, Path(folder)).directory), []))
"""


def start(limit: int | None, tsv: Path, folder: Path) -> "subprocess.Popen[str]":
    kind = "{kind: unigram, vocabulary_size: 60}"
    sets = [f"data.train={tsv}", f"tokenizer.source={kind}", f"tokenizer.target={kind}", "data.source_language=en"]
    line = [sys.executable, "-c", PREPARE, str(limit or "none"), str(folder), *sets]
    return subprocess.Popen(
        line,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


@pytest.mark.parametrize("damaged", [False, True], ids=["new", "damaged"])
def test_processes_that_prepare_the_same_corpus_at_once_all_end_well(tsv: Path, tmp_path: Path, damaged: bool) -> None:
    if damaged:
        first = start(None, tsv, tmp_path)
        place = Path(first.communicate()[0].strip())
        (place / "train.source.ids.npy").write_bytes(b"")
    running = [start(None, tsv, tmp_path) for _ in range(3)]
    ends = [(process.communicate(), process.returncode) for process in running]
    assert [status for _, status in ends] == [0, 0, 0], ends
    assert len({out for (out, _), _ in ends}) == 1
    assert Prepared(Path(ends[0][0][0].strip())).is_complete()
    assert len(list((tmp_path / "prepared").iterdir())) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
@pytest.mark.parametrize("limit", [100, 1200, 3000])
def test_a_full_disk_is_one_line_with_the_file_and_leaves_nothing(tsv: Path, tmp_path: Path, limit: int) -> None:
    process = start(limit, tsv, tmp_path)
    _, errors = process.communicate()
    assert process.returncode == 2
    [line] = [line for line in errors.splitlines() if "tokenizer.source.vocab" not in line and "asked for" not in line]
    assert line.startswith("python -m seq2seq.train: error: ")
    assert line.endswith(": cannot be written: File too large")
    assert str(tmp_path / "prepared") in line and len(errors.splitlines()) < 5
    assert list((tmp_path / "prepared").iterdir()) == []


def test_a_place_that_cannot_be_made_is_one_line(config, tsv: Path, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(UserError, match=r"^.*data.prepared.[0-9a-f]{16}: cannot be written: .+$"):
        prepare(config(f"data.train={tsv}"), tmp_path / "data")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_one_line_unless_all_is_there(config, tsv: Path, tmp_path: Path) -> None:
    prepared = prepare(config(f"data.train={tsv}"), tmp_path)
    (tmp_path / "prepared").chmod(0o555)
    try:
        assert prepare(config(f"data.train={tsv}"), tmp_path) == prepared
        with pytest.raises(UserError, match=r"^.*: cannot be written: Permission denied$"):
            prepare(config(f"data.train={tsv}", "seed=1"), tmp_path)
        (prepared.directory / "log.txt").unlink()
        with pytest.raises(UserError, match=r"^.*: cannot be written: Permission denied$"):
            prepare(config(f"data.train={tsv}"), tmp_path)
    finally:
        (tmp_path / "prepared").chmod(0o755)
