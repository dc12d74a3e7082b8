"""The corpus tatoeba: from an archive put there, from a server, from the exports, or in vain."""

import bz2
import io
import logging
import zipfile
from pathlib import Path

import pytest

from seq2seq.data import tatoeba
from seq2seq.data.corpus import Pair, read_pairs
from seq2seq.errors import UserError

CREDIT = "CC-BY 2.0 (France) Attribution: tatoeba.org #1 (a) & #2 (b)"
EXPORTS = {
    "/cmn_sentences.tsv.bz2": "11\tcmn\t你好。\n12\tcmn\t再见。\n13\tcmn\t谁？\n",
    "/eng_sentences.tsv.bz2": "21\teng\tHello.\n22\teng\tHi.\n23\teng\tBye.\n24\teng\tUnlinked.\n",
    "/cmn-eng_links.tsv.bz2": "11\t21\n11\t22\n12\t23\n13\t99\n",
}


def archive(text: str = f"Hi.\t你好。\t{CREDIT}\nBye!\t再见！\t{CREDIT}\n", member: str = "cmn.txt") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("_about.txt", "about")
        file.writestr(member, text)
    return buffer.getvalue()


@pytest.fixture
def served(site, monkeypatch):
    """The site, to which both sources point."""
    monkeypatch.setattr(tatoeba, "ARCHIVE_URL", f"{site.url}/cmn-eng.zip")
    monkeypatch.setattr(tatoeba, "EXPORT_URLS", tuple(f"{site.url}{path}" for path in EXPORTS))
    return site


def read(directory: Path) -> list[Pair]:
    return list(read_pairs("tatoeba", "zh", "en", directory))


FROM_ARCHIVE = [Pair("你好。", "Hi."), Pair("再见！", "Bye!")]
FROM_EXPORTS = [Pair("你好。", "Hello."), Pair("你好。", "Hi."), Pair("再见。", "Bye.")]


def test_the_archive_is_downloaded_once_and_kept_with_its_attributions(served, page, tmp_path: Path) -> None:
    served.pages["/cmn-eng.zip"] = page(archive())
    assert read(tmp_path) == read(tmp_path) == FROM_ARCHIVE
    assert len(served.requests) == 1
    rows = (tmp_path / "tatoeba" / "cmn-eng.tsv").read_text(encoding="utf-8").splitlines()
    assert [row.split("\t")[2] for row in rows] == [CREDIT, CREDIT]


def test_english_to_chinese_turns_the_pairs(served, page, tmp_path: Path) -> None:
    served.pages["/cmn-eng.zip"] = page(archive())
    assert list(read_pairs("tatoeba", "en", "zh", tmp_path)) == [Pair(en, zh) for zh, en in FROM_ARCHIVE]


def test_an_archive_put_there_by_hand_needs_no_server(served, tmp_path: Path) -> None:
    (tmp_path / "tatoeba").mkdir()
    (tmp_path / "tatoeba" / "cmn-eng.zip").write_bytes(archive())
    assert read(tmp_path) == FROM_ARCHIVE
    assert not served.requests


def test_exports_put_there_by_hand_need_no_server(served, tmp_path: Path) -> None:
    (tmp_path / "tatoeba").mkdir()
    for path, text in EXPORTS.items():
        (tmp_path / "tatoeba" / path[1:]).write_bytes(bz2.compress(text.encode()))
    assert read(tmp_path) == FROM_EXPORTS
    assert not served.requests


@pytest.mark.parametrize(
    "body", [archive()[:-30], b"<html>too busy</html>", archive(member="other.txt"), archive("no tabs\n")]
)
def test_a_broken_archive_from_the_server_gives_way_to_the_exports(served, page, tmp_path: Path, body, caplog) -> None:
    served.pages |= {path: page(bz2.compress(text.encode())) for path, text in EXPORTS.items()}
    served.pages["/cmn-eng.zip"] = page(body)
    with caplog.at_level(logging.WARNING):
        assert read(tmp_path) == FROM_EXPORTS
    assert "cmn-eng.zip" in caplog.text
    assert not (tmp_path / "tatoeba" / "cmn-eng.zip").exists()


def test_flipped_bits_inside_an_archive_are_noticed(served, page, tmp_path: Path) -> None:
    body = archive("".join(f"{n}\t{n * n}\t{CREDIT}\n" for n in range(500)))
    middle = len(body) // 2
    served.pages["/cmn-eng.zip"] = page(body[:middle] + bytes([body[middle] ^ 0xFF]) + body[middle + 1 :])
    with pytest.raises(UserError, match=r"^corpus tatoeba is missing and cannot be downloaded .*$"):
        read(tmp_path)
    assert not any((tmp_path / "tatoeba").glob("*.zip"))
    assert not (tmp_path / "tatoeba" / "cmn-eng.tsv").exists()


def test_a_broken_archive_put_there_by_hand_is_named(served, tmp_path: Path) -> None:
    (tmp_path / "tatoeba").mkdir()
    (tmp_path / "tatoeba" / "cmn-eng.zip").write_bytes(archive()[:-30])
    with pytest.raises(UserError, match=r"^.*cmn-eng\.zip: not a readable zip archive .*; delete it.*$"):
        read(tmp_path)
    assert not served.requests


def test_offline_one_line_says_what_to_download_and_where_to_put_it(monkeypatch, tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:9/cmn-eng.zip"
    monkeypatch.setattr(tatoeba, "ARCHIVE_URL", nowhere)
    monkeypatch.setattr(tatoeba, "EXPORT_URLS", ("http://127.0.0.1:9/cmn_sentences.tsv.bz2",) * 3)
    with pytest.raises(UserError) as caught:
        read(tmp_path)
    message = str(caught.value)
    assert f"download {nowhere} and put it into {tmp_path / 'tatoeba'}" in message
    assert "\n" not in message
