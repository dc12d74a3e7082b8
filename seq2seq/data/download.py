"""Download over HTTP with the standard library: resumed where it broke off, checked, atomic."""

import http.client
import logging
import os
import re
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import suppress
from email.message import Message
from pathlib import Path

from tqdm import tqdm

from seq2seq.data.folders import remove_leftovers
from seq2seq.errors import UserError

logger = logging.getLogger(__name__)

# Some servers refuse Python's own name with 403 or 406.
_USER_AGENT = "Mozilla/5.0 (compatible; seq2seq)"
_CHUNK = 1 << 16
_TRY_AGAIN = {408, 425, 429, 500, 502, 503, 504}


class _TransferError(Exception):
    """A transfer that may go better next time; says why in a few words."""


def download(url: str, path: str | Path, *, timeout: float = 30.0, attempts: int = 4, backoff: float = 1.0) -> None:
    """Fetch `url` into `path`; what a transfer that broke off has brought is kept as `path`.part and continued.

    A partial file is continued only if the server vouches that it is still the same (RFC 9110, If-Range with ETag or
    Last-Modified); otherwise it starts over. The size is compared with what the server announced. Several processes
    may fetch the same file at once.

    Args:
        url: http or https.
        path: where the complete file lands; its folder is made if need be.
        timeout: seconds without a sign of life before an attempt is given up.
        attempts: attempts in all; no connection, or an answer such as 404, is final at once.
        backoff: seconds before the second attempt; doubled before each further one.

    Raises:
        UserError: no connection, an HTTP error, a transfer that keeps breaking off, or `path` cannot be written.
    """
    path = Path(path)
    kept = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path.parent)
        # In a folder of its own, so that two processes do not write into one file.
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent, ignore_cleanup_errors=True) as own:
            part = Path(own) / kept.name
            _move(kept, part)
            try:
                _fetch_with_patience(url, part, timeout, attempts, backoff)
                part.replace(path)
            except OSError:
                raise  # without keeping anything: a full disk gets its room back
            except BaseException:
                _move(part, kept)
                raise
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}") from None


def _move(part: Path, to: Path) -> None:
    """Rename a partial file and its validator, if there are any."""
    with suppress(OSError):
        part.replace(to)
        _validator_path(part).replace(_validator_path(to))


def _fetch_with_patience(url: str, part: Path, timeout: float, attempts: int, backoff: float) -> None:
    reason = ""
    for attempt in range(attempts):
        if attempt:
            logger.info("%s: %s; trying again", url, reason)
            time.sleep(backoff * 2 ** (attempt - 1))
        try:
            return _fetch(url, part, timeout)
        except _TransferError as error:
            reason = str(error)
    raise UserError(f"{url}: {reason} (attempt {attempts} of {attempts}); try again later, what has arrived is kept")


def _fetch(url: str, part: Path, timeout: float) -> None:
    """One attempt: continue or start `part`; return when it is complete."""
    known = _validator_path(part)
    validator, start = None, 0
    if known.exists() and part.exists():
        validator = _usable(known.read_text(encoding="utf-8", errors="replace"))
        start = part.stat().st_size
    headers = {"User-Agent": _USER_AGENT, "Accept-Encoding": "identity"}
    if validator and start:
        headers |= {"Range": f"bytes={start}-", "If-Range": validator}
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:
            part.unlink(missing_ok=True)
            raise _TransferError("the server has nothing to add to the partial file") from None
        if error.code in _TRY_AGAIN:
            raise _TransferError(f"the server answers {error.code} {error.reason}") from None
        raise UserError(f"{url}: the server answers {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise UserError(f"{url}: no connection: {getattr(error.reason, 'strerror', None) or error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        raise _TransferError(_reason(error, timeout)) from None
    with response:
        now = _validator(response.headers)
        if response.status == 206:
            total = _range_total(response.headers, start)
            if total is None or now not in (None, validator):
                part.unlink(missing_ok=True)
                raise _TransferError("the server continues another file than the one begun")
        else:
            start = 0
            length = response.headers["Content-Length"]
            total = int(length) if length and length.isdecimal() else None
            # The old bytes go before the new validator comes, so that it never vouches for them.
            part.write_bytes(b"")
            known.write_text(now or "", encoding="utf-8", newline="\n")
        size = _receive(response, part, start, total, timeout)
    if total is not None and size > total:
        part.unlink()
        raise _TransferError(f"{size:,} bytes arrived where {total:,} were announced")
    if total is not None and size < total:
        raise _TransferError(f"the transfer broke off at {size:,} of {total:,} bytes")


def _receive(response: http.client.HTTPResponse, part: Path, start: int, total: int | None, timeout: float) -> int:
    """Append the body to `part`, which holds `start` bytes; return its size."""
    bar = tqdm(total=total, initial=start, unit="B", unit_scale=True, desc=part.stem, leave=False)
    with bar, part.open("ab") as file:
        while True:
            try:
                chunk = response.read(_CHUNK)
            except (OSError, http.client.HTTPException) as error:
                raise _TransferError(_reason(error, timeout)) from None
            if not chunk:
                break
            file.write(chunk)
            bar.update(len(chunk))
        file.flush()
        os.fsync(file.fileno())
        return file.tell()


def _reason(error: Exception, timeout: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no sign of life for {timeout:g} s"
    if isinstance(error, http.client.IncompleteRead):
        return "the transfer broke off"
    return " ".join(str(error).split()) or type(error).__name__


def _validator_path(part: Path) -> Path:
    return part.with_name(part.name + ".validator")


def _validator(headers: Message) -> str | None:
    """What If-Range may hold: a strong ETag, else Last-Modified (RFC 9110, section 13.1.5)."""
    etag = headers["ETag"]
    return _usable(etag if etag and not etag.startswith("W/") else headers["Last-Modified"])


def _usable(validator: str | None) -> str | None:
    """The validator, where a header can carry it."""
    return validator if validator and validator.isascii() and validator.isprintable() else None


def _range_total(headers: Message, start: int) -> int | None:
    """Size of the whole file if the answer continues at `start`, else None."""
    match = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", headers["Content-Range"] or "")
    return int(match[2]) if match and int(match[1]) == start else None
