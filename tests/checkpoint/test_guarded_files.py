"""The small files of a run: read as they were written, from nowhere else, or not at all."""

import os
from contextlib import suppress
from pathlib import Path

import pytest

from seq2seq.checkpoint import RunDirectory
from seq2seq.checkpoint import guarded_files as module
from seq2seq.checkpoint.guarded_files import GuardedFiles
from seq2seq.checkpoint.tensors import DamagedError
from seq2seq.data.checksums import write_sums
from seq2seq.data.files import write_text
from seq2seq.errors import UserError
from seq2seq.inference.translator import Translator

SMALL = [
    "config.yaml",
    "run.json",
    "tokenizer.source.json",
    "tokenizer.target.json",
    "dev.tsv",
    "test.tsv",
    "report.json",
]


def read_all(run: RunDirectory) -> None:
    run.load_tensors("best")
    run.info(), run.config(), run.tokenizers(), run.pairs("dev"), run.pairs("test"), run.read_json("report.json")


def test_a_flipped_bit_in_any_small_file_is_noticed_and_the_file_named(run: RunDirectory) -> None:
    read_all(run)
    for name in SMALL:
        content = (run.path / name).read_bytes()
        for place in range(0, len(content), max(1, len(content) // 20)):
            spoilt = bytearray(content)
            spoilt[place] ^= 1
            (run.path / name).write_bytes(spoilt)
            with pytest.raises(DamagedError, match=f"{name}: "):
                read_all(run)
        (run.path / name).write_bytes(content)
    read_all(run)


def test_a_truncated_small_file_is_noticed_and_named(run: RunDirectory) -> None:
    for name in SMALL:
        content = (run.path / name).read_bytes()
        for keep in (0, 1, len(content) // 2, len(content) - 1):
            (run.path / name).write_bytes(content[:keep])
            with pytest.raises(UserError, match=f"{name}: "):
                read_all(run)
        (run.path / name).write_bytes(content)


@pytest.mark.parametrize("name", [*SMALL, "best.safetensors", "SHA256SUMS"])
def test_a_link_out_of_the_run_is_not_followed(run: RunDirectory, name: str) -> None:
    outside = run.path.parent / "outside"
    (run.path / name).rename(outside)
    (run.path / name).symlink_to(outside)
    with pytest.raises(DamagedError, match=name.replace(".", r"\.")):
        read_all(run)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("name", ["config.yaml", "run.json", "tokenizer.source.json", "best.safetensors", "SHA256SUMS"])
def test_a_pipe_is_refused_and_not_waited_for(run: RunDirectory, name: str) -> None:
    (run.path / name).unlink()
    os.mkfifo(run.path / name)
    with pytest.raises(UserError, match=name.replace(".", r"\.")):
        read_all(run)


def test_the_run_itself_may_be_a_link(run: RunDirectory) -> None:
    (run.path.parent / "link").symlink_to(run.path, target_is_directory=True)
    assert Translator.load(run.path.parent / "link").translate(["123"])


def test_without_its_digests_a_run_is_damaged(run: RunDirectory) -> None:
    (run.path / "SHA256SUMS").unlink()
    with pytest.raises(DamagedError, match="SHA256SUMS: missing"):
        read_all(run)


def test_a_change_that_is_meant_is_taken_once_its_digest_is_deleted(run: RunDirectory) -> None:
    text = (run.path / "config.yaml").read_text("utf-8")
    (run.path / "config.yaml").write_text(text.replace("beam: 3", "beam: 4"), encoding="utf-8")
    with pytest.raises(DamagedError, match=r"if the change is meant, delete the line of config\.yaml there"):
        run.config()
    sums = (run.path / "SHA256SUMS").read_text("utf-8").splitlines(keepends=True)
    kept = [line for line in sums if "config.yaml" not in line]
    (run.path / "SHA256SUMS").write_text("".join(kept), encoding="utf-8")
    assert run.config().search.beam == 4


@pytest.mark.parametrize("moment", [0, 1, 2, 3])
def test_a_file_is_whole_whenever_its_replacement_is_cut_off(
    moment: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = GuardedFiles(tmp_path)
    files.write("x.json", "old\n")
    left = moment

    def cut(function):
        def counted(*given):
            nonlocal left
            if not left:
                raise KeyboardInterrupt
            left -= 1
            return function(*given)

        return counted

    monkeypatch.setattr(module, "write_text", cut(write_text))
    monkeypatch.setattr(module, "write_sums", cut(write_sums))
    with suppress(KeyboardInterrupt):
        files.write("x.json", "new\n")
    # The steps: stage the text, add its digest, (rename), drop the old digest.
    assert files.read("x.json") == ("old\n" if moment < 2 else "new\n")


def test_a_file_too_large_for_a_run_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 10)
    GuardedFiles(tmp_path).write("x.json", "01234567890")
    with pytest.raises(UserError, match=r"x\.json: larger than"):
        GuardedFiles(tmp_path).read("x.json")
