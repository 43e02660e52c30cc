"""Serves the page of all sweeps on this machine alone, to who asks for this machine by its name.

With a token every address begins with it, and what is asked by POST is done, too; without, there is only reading.
"""

from __future__ import annotations

import errno
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, urlsplit

from orchestrator.errors import SweepError, UserError
from orchestrator.site.shelf import Shelf

HOST = "127.0.0.1"
NAMES = (HOST, "localhost")
"""Names a browser may ask this server by. Another one in a request means that some page elsewhere had its own name
point here (DNS rebinding); it gets nothing."""
HTML, SVG, TEXT = "text/html; charset=utf-8", "image/svg+xml", "text/plain; charset=utf-8"
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'"
)
LONGEST_FORM = 4096
"""Bytes of a form that is read."""
TOKEN_BYTES = 16
"""Nobody guesses 128 random bits; other users of the machine can reach its ports."""


def new_token() -> str:
    """A secret for an address."""
    return secrets.token_urlsafe(TOKEN_BYTES)


@contextmanager
def serving(shelf: Shelf, port: int, token: str = "") -> Iterator[str]:
    """A block in which the page is served; gives its address. Raises :class:`UserError` for a port that is taken."""
    try:
        server = _Server(port, shelf, token)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        raise UserError(
            f"port {port} cannot be used ({error.strerror}): something else answers there; name another with --port"
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
    """Answers for one shelf; with a ``token`` every address begins with it."""

    daemon_threads = True

    def __init__(self, port: int, shelf: Shelf, token: str) -> None:
        super().__init__((HOST, port), _Handler)
        self.shelf = shelf
        self.token = token


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: _Server

    def do_GET(self) -> None:
        if (path := self._asked()) is None:
            return
        if (asked := _page(self.server.shelf, path, may_steer=bool(self.server.token))) is None:
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
                self.server.shelf.stop(sweep_id, form.get("mix", [""])[0])
            else:
                self.server.shelf.resume(sweep_id)
        except UserError as error:
            self.send_error(HTTPStatus.CONFLICT, explain=str(error))
            return
        self.send_response(HTTPStatus.SEE_OTHER)
        self.send_header("Location", f"/{self.server.token}/#{quote(sweep_id)}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _asked(self) -> str | None:
        """What is asked for, without the token; None where that is not this machine's page, which is said."""
        if self.headers.get("Host", "").rpartition(":")[0] not in NAMES:
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "ask by 127.0.0.1 or localhost")
            return None
        origin = self.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != self.headers["Host"]:
            self.send_error(HTTPStatus.FORBIDDEN, "asked by another page")
            return None
        path, token = self.path.partition("?")[0].removeprefix("/"), self.server.token
        if not token:
            return path
        given, _, rest = path.partition("/")
        if not secrets.compare_digest(given.encode(), token.encode()):
            self.send_error(HTTPStatus.FORBIDDEN, "the address lacks its secret")
            return None
        return rest

    def _send(self, body: bytes, kind: str) -> None:
        self.send_response(HTTPStatus.OK)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            ("Content-Security-Policy", POLICY),
            ("Referrer-Policy", "same-origin"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing: a person at the terminal wants the address, not every request."""


def _page(shelf: Shelf, path: str, *, may_steer: bool) -> tuple[Callable[[], str], str] | None:
    """What a path asks for and of which type it is; None for a path that leads nowhere."""
    folder, _, name = path.partition("/")
    if path == "":
        return lambda: shelf.index(may_steer=may_steer), HTML
    if folder == "sweep" and name:
        return lambda: shelf.report(name), HTML
    if folder == "mark" and name:
        return lambda: shelf.mark(name), TEXT
    if folder == "figure" and name.endswith(".svg"):
        return lambda: shelf.figure(name.removesuffix(".svg")), SVG
    if folder == "narrow" and name.endswith(".svg"):
        return lambda: shelf.narrow_figure(name.removesuffix(".svg")), SVG
    return None
