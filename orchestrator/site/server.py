"""Server of the page of all sweeps, on this machine alone and for requests by this machine's name.

With a token every address begins with it and POST requests act; without one there is only reading.
"""

from __future__ import annotations

import errno
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

from orchestrator.errors import SweepError, UserError
from orchestrator.home.files import Home
from orchestrator.report.page import render
from orchestrator.site.resuming import Resuming
from orchestrator.site.sweeps import SweepPages

HOST = "127.0.0.1"
NAMES = (HOST, "localhost")
"""Host names that are answered. Another one means that a page elsewhere had its own name point here (DNS
rebinding)."""
HTML, SVG, TEXT = "text/html; charset=utf-8", "image/svg+xml", "text/plain; charset=utf-8"
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'"
)
LONGEST_FORM = 4096
"""Bytes of the longest form."""
TOKEN_BYTES = 16
"""128 random bits: other users of the machine can reach its ports."""
PORT, TRIED = 5000, 20
"""The first port that ``run --watch`` tries, and ports after the first that are tried."""
WATCH_REFRESH_S = 2
"""Seconds between reloads of a page that follows a sweep."""
LOOKED_AT_S = 90.0
"""A page not asked for in this time is closed: browsers let one in the background ask once a minute."""


def new_token() -> str:
    """A secret for an address."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def free_port(first: int) -> int:
    """The first free port from this one on; any free one if the next :data:`TRIED` are taken."""
    for port in (*range(first, min(first + TRIED, 65536)), 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise RuntimeError("no port is free on this machine")


@contextmanager
def watched(home: Path, say: Callable[[str], object], options: Sequence[str] = ()) -> Iterator[str]:
    """A block in which the page is served at an address with a secret in it, which is given and said. If the whole
    sweep was stopped on the page, it stays after the block as long as a browser shows it, so that it can resume the
    sweep, with these ``options`` of ``run``."""
    pages = SweepPages(Home(home.resolve()), refresh_s=WATCH_REFRESH_S, resuming=Resuming(options))
    with serving(pages, free_port(PORT), new_token()) as address:
        say(f"page    {address} shows all of this on this machine, stops and resumes it, as long as this runs")
        try:
            yield address
        finally:
            if pages.stopped_a_sweep:
                say("The page stays as long as a browser shows it, to resume the sweep there; Ctrl-C ends it.")
                while time.monotonic() - pages.asked_at < LOOKED_AT_S:
                    time.sleep(WATCH_REFRESH_S)
            elif time.monotonic() - pages.asked_at < 2 * WATCH_REFRESH_S:
                time.sleep(WATCH_REFRESH_S + 1)  # So that an open page shows the end.


@contextmanager
def serving(pages: SweepPages, port: int, token: str = "") -> Iterator[str]:
    """A block in which the page is served; gives its address. Raises :class:`UserError` for a taken port."""
    try:
        server = _Server(port, pages, token)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        raise UserError(
            f"port {port} cannot be used ({error.strerror}), perhaps by `ui`: --port {free_port(port + 1)} is free"
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="page", daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_address[1]}/{f'{token}/' if token else ''}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    """Answers with these pages; with a ``token`` every address begins with it."""

    daemon_threads = True

    def __init__(self, port: int, pages: SweepPages, token: str) -> None:
        super().__init__((HOST, port), _Handler)
        self.pages = pages
        self.token = token


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: _Server

    def do_GET(self) -> None:
        if (path := self._asked()) is None:
            return
        if (asked := _page(self.server.pages, path, may_steer=bool(self.server.token))) is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        make, kind = asked
        try:
            body = make().encode()
        except (UserError, SweepError) as error:
            self.send_error(HTTPStatus.NOT_FOUND, explain=str(error))
            return
        self._send(body, kind)

    def do_POST(self) -> None:
        if (path := self._asked()) is None:
            return
        what, _, sweep_id = path.partition("/")
        length = self.headers.get("Content-Length", "")
        known = self.server.token and what in ("stop", "resume")
        if not known or not length.isdigit() or int(length) > LONGEST_FORM:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        form = parse_qs(self.rfile.read(int(length)).decode("utf-8", "replace"))
        try:
            if what == "stop":
                self.server.pages.stop(sweep_id, form.get("mix", [""])[0])
            else:
                self.server.pages.resume(sweep_id)
        except UserError as error:
            self.send_error(HTTPStatus.CONFLICT, explain=str(error))
            return
        self.send_response(HTTPStatus.SEE_OTHER)
        self.send_header("Location", f"/{self.server.token}/#{quote(sweep_id)}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _asked(self) -> str | None:
        """The path without the token; None after an error was sent."""
        if self.headers.get("Host", "").rpartition(":")[0] not in NAMES:
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, explain="Open this page as 127.0.0.1 or localhost.")
            return None
        origin = self.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != self.headers["Host"]:
            self.send_error(HTTPStatus.FORBIDDEN, explain="Another page sent this request.")
            return None
        path, token = self.path.partition("?")[0].removeprefix("/"), self.server.token
        if not token:
            return path
        given, _, rest = path.partition("/")
        if not secrets.compare_digest(given.encode(), token.encode()):
            self.send_error(HTTPStatus.FORBIDDEN, explain="The address lacks its secret.")
            return None
        return rest

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer with a page that says what is wrong."""
        phrase, known = self.responses.get(code, ("Error", ""))
        explained = explain or message or known
        self._send(render("error.html.j2", code=int(code), phrase=phrase, explained=explained).encode(), HTML, code)

    def _send(self, body: bytes, kind: str, status: int = HTTPStatus.OK) -> None:
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            ("Content-Security-Policy", POLICY),
            ("Referrer-Policy", "same-origin"),
        ):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing: the terminal shows the address, not every request."""


def _page(pages: SweepPages, path: str, *, may_steer: bool) -> tuple[Callable[[], str], str] | None:
    """A function that makes the page of a path, and its type; None for an unknown path."""
    folder, _, name = path.partition("/")
    if path == "":
        return lambda: pages.index(may_steer=may_steer), HTML
    if folder == "sweep" and name:
        return lambda: pages.report(name), HTML
    if folder == "mark" and name:
        return lambda: pages.mark(name), TEXT
    if folder in ("figure", "narrow") and name.endswith(".svg"):
        return lambda: pages.figure(name.removesuffix(".svg"), narrow=folder == "narrow"), SVG
    return None
