"""A small configuration; a web server on this machine that behaves well or badly, as a test asks."""

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from seq2seq.config import Config, parse_config


@pytest.fixture(scope="session")
def config() -> Callable[..., Config]:
    """Makes a configuration of small tokenizers of characters and the given KEY=VALUE settings."""
    characters = "{kind: characters, vocabulary_size: 60}"
    common = [f"tokenizer.source={characters}", f"tokenizer.target={characters}", "data.source_language=en"]
    return lambda *sets: parse_config("", [*common, *sets])


@dataclass
class Page:
    """What the server does with one path."""

    body: bytes
    status: int = 200
    etag: str | None = '"one"'
    ranges: bool = True
    """Whether Range and If-Range are honoured."""
    careless: bool = False
    """Whether Range is honoured whatever If-Range says."""
    break_after: list[int] = field(default_factory=list)
    """For each request in turn: the connection closes after this many bytes of the answer's body."""
    stall_after: list[int] = field(default_factory=list)
    """For each request in turn: nothing more comes after this many bytes."""
    pause: float = 0.0
    """Seconds before each eighth of the body."""
    hang_up: int = 0
    """Requests that get no answer at all, before those that get one."""
    chunked: bool = False
    """Whether the body comes in chunks, without its length."""
    announced: int | None = None
    """Size of the whole that an answer to Range announces; None: the true one."""


class Site:
    """Pages by path, and the headers of each request that came."""

    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}
        self.requests: list[tuple[str, Any]] = []
        self.closing = threading.Event()
        self.url = ""


def _handler(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.requests.append((self.path, self.headers))
            page = site.pages.get(self.path, Page(b"not here", status=404, ranges=False))
            body, status = page.body, page.status
            if page.hang_up:
                page.hang_up -= 1
                return
            start = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            if start and page.ranges and (page.careless or self.headers.get("If-Range") == page.etag):
                status, body = 206, page.body[int(start[1]) :]
            self.send_response(status if body else 416)
            if start and status == 206 and body:
                self.send_header(
                    "Content-Range", f"bytes {start[1]}-{len(page.body) - 1}/{page.announced or len(page.body)}"
                )
            if page.etag:
                self.send_header("ETag", page.etag)
            if page.chunked:
                self.send_header("Transfer-Encoding", "chunked")
                body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
            else:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if page.break_after:
                self.wfile.write(body[: page.break_after.pop(0)])
            elif page.stall_after:
                self.wfile.write(body[: page.stall_after.pop(0)])
                site.closing.wait(10)
            else:
                step = len(body) // 8 + 1
                for first in range(0, len(body), step):
                    site.closing.wait(page.pause)
                    self.wfile.write(body[first : first + step])

        def log_message(self, *args: object) -> None:
            pass

    return Handler


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A running server without pages; `site.url` is its address without a slash at the end."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    site = Site()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(site)) as server:
        site.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield site
        site.closing.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def page() -> type[Page]:
    """The class of the pages that a site serves."""
    return Page
