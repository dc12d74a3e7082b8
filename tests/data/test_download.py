"""Downloads from a server that is slow, breaks off, changes its mind or has nothing."""

import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from seq2seq.data.download import download
from seq2seq.errors import UserError

BODY = random.Random(0).randbytes(300_000)


def fetch(site, path: Path, **options) -> None:
    download(f"{site.url}/file", path, **{"timeout": 5.0, "attempts": 3, "backoff": 0.0} | options)


def ranges(site) -> list[str | None]:
    return [headers["Range"] for _, headers in site.requests]


def test_a_file_arrives_whole_and_leaves_nothing_else(site, page, tmp_path: Path) -> None:
    site.pages["/file"] = page(BODY)
    fetch(site, tmp_path / "new" / "file")
    assert (tmp_path / "new" / "file").read_bytes() == BODY
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["file"]
    assert "Python" not in site.requests[0][1]["User-Agent"]


def test_a_slow_server_may_take_longer_than_the_timeout_in_all(site, page, tmp_path: Path) -> None:
    site.pages["/file"] = page(BODY, pause=0.1)
    fetch(site, tmp_path / "file", timeout=0.5, attempts=1)
    assert (tmp_path / "file").read_bytes() == BODY


def test_a_transfer_that_breaks_off_goes_on_from_there(site, page, tmp_path: Path) -> None:
    site.pages["/file"] = page(BODY, break_after=[100_000, 50_000])
    fetch(site, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == BODY
    assert ranges(site) == [None, "bytes=100000-", "bytes=150000-"]


def test_a_later_call_goes_on_where_an_earlier_one_gave_up(site, page, tmp_path: Path) -> None:
    site.pages["/file"] = page(BODY, break_after=[100_000])
    with pytest.raises(UserError, match=r"^.*broke off at 100,000 of 300,000 bytes \(attempt 1 of 1\).*$"):
        fetch(site, tmp_path / "file", attempts=1)
    assert not (tmp_path / "file").exists()
    fetch(site, tmp_path / "file", attempts=1)
    assert (tmp_path / "file").read_bytes() == BODY
    assert ranges(site) == [None, "bytes=100000-"]


@pytest.mark.parametrize("careless", [False, True])
def test_a_file_that_changed_meanwhile_starts_over(site, page, tmp_path: Path, careless: bool) -> None:
    site.pages["/file"] = page(BODY[::-1], break_after=[100_000])
    with pytest.raises(UserError):
        fetch(site, tmp_path / "file", attempts=1)
    site.pages["/file"] = page(BODY, etag='"two"', careless=careless)
    fetch(site, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == BODY


@pytest.mark.parametrize("etag", [None, 'W/"weak"'])
def test_without_a_strong_validator_it_asks_for_the_whole_again(site, page, tmp_path: Path, etag: str | None) -> None:
    site.pages["/file"] = page(BODY, break_after=[100_000], etag=etag)
    fetch(site, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == BODY
    assert ranges(site) == [None, None]


def test_a_server_that_ignores_range_starts_over(site, page, tmp_path: Path) -> None:
    site.pages["/file"] = page(BODY, break_after=[100_000], ranges=False)
    fetch(site, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == BODY


def test_a_complete_partial_file_is_not_stuck(site, page, tmp_path: Path) -> None:
    site.pages["/file"] = page(BODY)
    (tmp_path / "file.part").write_bytes(BODY)
    (tmp_path / "file.part.validator").write_text('"one"')
    fetch(site, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == BODY


def test_a_stalled_transfer_times_out_and_goes_on(site, page, tmp_path: Path) -> None:
    site.pages["/file"] = page(BODY, stall_after=[100_000])
    fetch(site, tmp_path / "file", timeout=0.3)
    assert (tmp_path / "file").read_bytes() == BODY
    site.pages["/file"] = page(BODY, stall_after=[0])
    with pytest.raises(UserError, match=r"^.*no sign of life for 0\.3 s \(attempt 1 of 1\).*$"):
        fetch(site, tmp_path / "other", timeout=0.3, attempts=1)


def test_a_server_that_hangs_up_is_asked_again(site, page, tmp_path: Path) -> None:
    site.pages["/file"] = page(BODY, hang_up=2)
    fetch(site, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == BODY
    site.pages["/file"] = page(BODY, hang_up=1)
    with pytest.raises(UserError, match=r"^http.*/file: Remote end closed connection .*\(attempt 1 of 1\).*$"):
        fetch(site, tmp_path / "other", attempts=1)


def test_a_body_in_chunks_arrives_whole_or_is_fetched_again(site, page, tmp_path: Path) -> None:
    site.pages["/file"] = page(BODY, chunked=True, break_after=[100_000], ranges=False)
    with pytest.raises(UserError, match=r"^.*: the transfer broke off \(attempt 1 of 1\).*$"):
        fetch(site, tmp_path / "file", attempts=1)
    fetch(site, tmp_path / "file", attempts=1)
    assert (tmp_path / "file").read_bytes() == BODY


def test_more_than_was_announced_is_thrown_away(site, page, tmp_path: Path) -> None:
    site.pages["/file"] = page(BODY, break_after=[100_000], announced=200_000)
    fetch(site, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == BODY
    assert ranges(site) == [None, "bytes=100000-", None]


@pytest.mark.parametrize("validator", [b"", b'"one"\r\nX: y', b"\xff\xfe", '"é"'.encode()])
def test_a_damaged_validator_is_not_sent(site, page, tmp_path: Path, validator: bytes) -> None:
    site.pages["/file"] = page(BODY)
    (tmp_path / "file.part").write_bytes(b"other")
    (tmp_path / "file.part.validator").write_bytes(validator)
    fetch(site, tmp_path / "file", attempts=1)
    assert (tmp_path / "file").read_bytes() == BODY
    assert ranges(site) == [None]


def test_two_downloads_of_one_file_at_once_both_end_well(site, page, tmp_path: Path) -> None:
    site.pages["/file"] = page(BODY, pause=0.02)
    (tmp_path / "file.part").write_bytes(BODY[:5000])
    (tmp_path / "file.part.validator").write_text('"one"')
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: fetch(site, tmp_path / "file", attempts=1), range(3)))
    assert (tmp_path / "file").read_bytes() == BODY
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert sorted(map(str, ranges(site))) == ["None", "None", "bytes=5000-"]


def test_a_download_that_is_interrupted_keeps_what_has_arrived(site, page, tmp_path: Path, monkeypatch) -> None:
    site.pages["/file"] = page(BODY, break_after=[100_000])

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fetch(site, tmp_path / "file")
    assert (tmp_path / "file.part").read_bytes() == BODY[:100_000]
    fetch(site, tmp_path / "file")
    assert ranges(site) == [None, "bytes=100000-"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_a_full_disk_is_one_line_and_leaves_nothing(site, page, tmp_path: Path) -> None:
    import resource

    site.pages["/file"] = page(BODY)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(UserError, match=r"^.*file: cannot be written: File too large$"):
            fetch(site, tmp_path / "file")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []
    assert len(site.requests) == 1


def test_404_is_final_and_503_is_tried_again(site, page, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^http.*/file: the server answers 404 Not Found$"):
        fetch(site, tmp_path / "file")
    assert len(site.requests) == 1
    site.pages["/file"] = page(b"busy", status=503)
    with pytest.raises(UserError, match=r"^.*answers 503 Service Unavailable \(attempt 3 of 3\).*$"):
        fetch(site, tmp_path / "file")
    assert len(site.requests) == 4
    assert not any(tmp_path.iterdir())


def test_no_connection_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^http://127\.0\.0\.1:9/file: no connection: .*$"):
        download("http://127.0.0.1:9/file", tmp_path / "file")


def test_a_place_that_cannot_be_written_is_named(site, page, tmp_path: Path) -> None:
    site.pages["/file"] = page(BODY)
    (tmp_path / "folder").touch()
    with pytest.raises(UserError, match=r"^.*folder.file: cannot be written: .*$"):
        fetch(site, tmp_path / "folder" / "file")
    (tmp_path / "file.part").mkdir()
    with pytest.raises(UserError, match=r"^.*file: cannot be written: .*$"):
        fetch(site, tmp_path / "file")
