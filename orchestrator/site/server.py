"""A read-only server for the page of all sweeps. It only answers requests from this machine to its own name."""

from __future__ import annotations

import errno
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from orchestrator.errors import SweepError, UserError
from orchestrator.report.page import render
from orchestrator.site.pages import SweepPages

HOST = "127.0.0.1"
NAMES = (HOST, "localhost")
"""Accepted host names. Any other name means that a foreign page points its name here (DNS rebinding)."""
HTML, SVG = "text/html; charset=utf-8", "image/svg+xml"
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-src 'self'; base-uri 'none'; frame-ancestors 'none'"
)
STORED = "text/html; charset=utf-8; stored"
"""Type of a page that somebody else may have written."""
SANDBOX = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'self'"
)
"""Policy of such a page: no scripts, no forms, no navigation of other pages, and an origin of its own."""
TRIED = 20
"""Number of ports to try after the first."""


def free_port(first: int) -> int:
    """Return the first free port from ``first`` on, or any free port if the next :data:`TRIED` are taken."""
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
def serving(pages: SweepPages, port: int) -> Iterator[str]:
    """Serve the page within a block, and yield its address. Raises :class:`UserError` for a taken port."""
    try:
        server = _Server(port, pages)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        raise UserError(
            f"port {port} cannot be used ({error.strerror}; another `ui` may use it): try --port {free_port(port + 1)}"
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="page", daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, pages: SweepPages) -> None:
        super().__init__((HOST, port), _Handler)
        self.pages, self.lock = pages, threading.Lock()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print the error of a failed request, unless the browser closed the connection."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        if self.headers.get("Host", "").partition(":")[0] not in NAMES:
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, explain="Open this page at 127.0.0.1 or localhost.")
            return
        path, _, query = self.path.partition("?")
        try:
            with self.server.lock:
                body, kind = _page(self.server.pages, path.removeprefix("/"), query)
        except SweepError as error:
            self.send_error(HTTPStatus.NOT_FOUND, explain=str(error))
            return
        except Exception:
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, explain="The terminal of `ui` shows the error.")
            raise  # _Server.handle_error prints it.
        self._send(body, kind)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send a page that explains the error."""
        phrase, known = self.responses.get(code, ("Error", ""))
        explained = explain or message or known
        self._send(render("error.html.j2", code=int(code), phrase=phrase, explained=explained), HTML, code)

    def _send(self, text: str, kind: str, status: int = HTTPStatus.OK) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in (
            ("Content-Type", HTML if kind == STORED else kind),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            ("Content-Security-Policy", SANDBOX if kind == STORED else POLICY.format(nonce=self.server.pages.nonce)),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "same-origin"),
        ):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing: the terminal shows the address, not every request."""


def _page(pages: SweepPages, path: str, query: str) -> tuple[str, str]:
    """Return the page of a path and its type. Raises :class:`UserError` for an unknown path."""
    folder, _, name = path.partition("/")
    if path == "":
        return pages.index(), HTML
    if path == "compare":
        return pages.compare(parse_qs(query).get("sweep", [])), HTML
    if folder == "sweep" and name:
        return pages.report(name), HTML
    if folder == "stored" and name:
        return pages.stored_report(name), STORED
    if folder in ("figure", "narrow") and name.endswith(".svg"):
        return pages.figure(name.removesuffix(".svg"), narrow=folder == "narrow"), SVG
    raise UserError("This address has no page.")
