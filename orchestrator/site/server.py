"""Serves the page of all sweeps on this machine alone: it answers reading requests to this machine's name."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from orchestrator.errors import SweepError, UserError
from orchestrator.site.shelf import Shelf

HOST = "127.0.0.1"
NAMES = (HOST, "localhost")
"""Names a browser may ask this server by. Another one in a request means that some page elsewhere had its own name
point here (DNS rebinding); it gets nothing."""
HTML, SVG = "text/html; charset=utf-8", "image/svg+xml"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src 'self' data:"


@contextmanager
def serving(shelf: Shelf, port: int) -> Iterator[str]:
    """A block in which the page is served; gives its address. Raises :class:`UserError` for a port that is taken."""
    try:
        server = ThreadingHTTPServer((HOST, port), _handler(shelf))
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        raise UserError(
            f"port {port} cannot be used ({error.strerror}): something else answers there; name another with --port"
        ) from error
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="page", daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(shelf: Shelf) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers for one shelf."""

        def do_GET(self) -> None:
            if self.headers.get("Host", "").rpartition(":")[0] not in NAMES:
                self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "ask by 127.0.0.1 or localhost")
                return
            if (asked := _page(shelf, self.path.partition("?")[0])) is None:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            make, kind = asked
            try:
                body = make().encode()
            except (UserError, SweepError) as error:
                self.send_error(HTTPStatus.NOT_FOUND, explain=str(error))
                return
            self.send_response(HTTPStatus.OK)
            for name, value in (
                ("Content-Type", kind),
                ("Content-Length", str(len(body))),
                ("Cache-Control", "no-store"),
                ("Content-Security-Policy", POLICY),
            ):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing: a person at the terminal wants the address, not every request."""

    return Handler


def _page(shelf: Shelf, path: str) -> tuple[Callable[[], str], str] | None:
    """What a path asks for and of which type it is; None for a path that leads nowhere."""
    folder, _, name = path[1:].partition("/")
    if path == "/":
        return shelf.index, HTML
    if folder == "sweep" and name:
        return lambda: shelf.report(name), HTML
    if folder == "figure" and name.endswith(".svg"):
        return lambda: shelf.figure(name.removesuffix(".svg")), SVG
    return None
