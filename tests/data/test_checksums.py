"""SHA256SUMS: what sha256sum would write, and every kind of damage."""

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from seq2seq.data.checksums import SUMS, damaged, write_checksums

FILES = {"a.txt": b"one\n", "b.npy": bytes(range(256)) * 9000, "empty": b"", "你 好.tsv": "好".encode()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    write_checksums(tmp_path)
    return tmp_path


def test_the_list_is_that_of_sha256sum(folder: Path) -> None:
    lines = [f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(FILES.items())]
    assert (folder / SUMS).read_text(encoding="utf-8") == "".join(lines)
    assert damaged(folder) == []


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="needs the command sha256sum")
def test_sha256sum_checks_the_list_and_its_own_list_is_taken(folder: Path) -> None:
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", SUMS], cwd=folder, check=True)
    for mode in ("--text", "--binary"):
        listed = subprocess.run(["sha256sum", mode, *FILES], cwd=folder, check=True, capture_output=True).stdout
        (folder / SUMS).write_bytes(listed)
        assert damaged(folder) == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("b.npy", FILES["b.npy"][:-1]),
        ("b.npy", FILES["b.npy"] + b"x"),
        ("b.npy", FILES["b.npy"][:1_500_000] + b"\xff" + FILES["b.npy"][1_500_001:]),
        ("a.txt", b""),
        ("empty", b"\n"),
    ],
)
def test_a_changed_file_is_named(folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)
    assert damaged(folder) == [name]


def test_missing_files_folders_and_new_files_are_named_in_order_but_hidden_ones_are_not_looked_at(folder: Path) -> None:
    (folder / "empty").unlink()
    (folder / "a.txt").unlink()
    (folder / "a.txt").mkdir()
    (folder / "new").touch()
    (folder / ".hidden").touch()
    assert damaged(folder) == ["a.txt", "empty", "new"]


def test_a_symbolic_link_is_damage_even_to_the_same_content(folder: Path, tmp_path_factory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "a.txt"
    (folder / "a.txt").rename(elsewhere)
    try:
        (folder / "a.txt").symlink_to(elsewhere)
    except OSError:
        pytest.skip("symbolic links are not allowed here")
    assert damaged(folder) == ["a.txt"]
    (folder / SUMS).rename(elsewhere)
    (folder / SUMS).symlink_to(elsewhere)
    assert damaged(folder) == [SUMS]


@pytest.mark.parametrize("name", ["../a.txt", "..", ".", "/a.txt", "sub/a.txt", "sub\\a.txt", "c:a.txt", "a.txt\x00"])
def test_a_name_that_is_no_plain_one_is_damage_even_where_such_a_file_is_whole(folder: Path, name: str) -> None:
    inner = folder / "folder"
    inner.mkdir()
    (inner / "sub").mkdir()
    for path in (inner / "a.txt", inner / "sub" / "a.txt"):
        path.write_bytes(FILES["a.txt"])
    write_checksums(inner, ["*.txt"])
    with (inner / SUMS).open("a", encoding="utf-8", newline="\n") as file:
        file.write(f"{hashlib.sha256(FILES['a.txt']).hexdigest()}  {name}\n")
    assert damaged(inner, ["*.txt"]) == [name]


@pytest.mark.parametrize("content", [b"nonsense\n", b"\xff\xfe\n", b"ab  a.txt\n", b"0" * 64 + b" a.txt\n", None])
def test_a_list_that_is_none_is_named_alone(folder: Path, content: bytes | None) -> None:
    (folder / SUMS).unlink()
    if content is not None:
        (folder / SUMS).write_bytes(content)
    (folder / "a.txt").unlink()
    assert damaged(folder) == [SUMS]


@pytest.mark.parametrize("lines", [0, 1, 3])
def test_a_list_cut_short_vouches_for_nothing_that_it_lacks(folder: Path, lines: int) -> None:
    whole = (folder / SUMS).read_bytes().splitlines(keepends=True)
    (folder / SUMS).write_bytes(b"".join(whole[:lines]))
    assert damaged(folder) == sorted(FILES)[lines:]


def test_only_files_that_fit_a_pattern_are_covered(folder: Path) -> None:
    write_checksums(folder, ["*.tsv", "a.*"])
    (folder / "b.npy").write_bytes(b"changed")
    assert damaged(folder, ["*.tsv", "a.*"]) == []
    (folder / "a.json").touch()
    (folder / "a.txt").write_bytes(b"two\n")
    assert damaged(folder, ["*.tsv", "a.*"]) == ["a.json", "a.txt"]


def test_a_file_that_cannot_be_read_is_damage(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.open

    def refuse(self: Path, *arguments, **more):
        if self.name == "b.npy":
            raise PermissionError(13, "Permission denied")
        return real(self, *arguments, **more)

    monkeypatch.setattr(Path, "open", refuse)
    assert damaged(folder) == ["b.npy"]


def test_a_folder_that_is_not_there_has_no_list(tmp_path: Path) -> None:
    assert damaged(tmp_path / "none") == [SUMS]
