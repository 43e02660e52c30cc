"""Serves the page of all sweeps and MLflow's page. It answers only this user's requests, and only to its own name."""

from __future__ import annotations

import errno
import re
import secrets
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from orchestrator.site import render
from orchestrator.site.access import PARAMETER, Access, kept_address
from orchestrator.site.mlflow_proxy import (
    FILES,
    LONGEST_BODY,
    PAGES,
    RETURNED_HEADERS,
    MlflowPage,
    is_allowed,
    lists_files,
)
from orchestrator.site.pages import SweepPages
from orchestrator.system.errors import SweepError, UserError

HOST = "127.0.0.1"
"""Address of the server. Other machines cannot connect to it."""
HOST_NAMES = (HOST, "localhost")
"""Accepted host names. Any other name means that a foreign page points its name here (DNS rebinding)."""
HTML = "text/html; charset=utf-8"
"""Content type of pages."""
HOST_HEADER = re.compile(rf"({'|'.join(map(re.escape, HOST_NAMES))})(:[0-9]{{1,5}})?")
"""Pattern of the header ``Host``. The port may be that of a tunnel (``ssh -L``)."""
SVG = "image/svg+xml"
"""Content type of figures."""
MLFLOW = "mlflow/"
"""Folder of MLflow's page, below the folder of the page of all sweeps."""
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-{nonce}'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-src 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Policy of this program's pages. Only scripts with this response's nonce run, so text in a home can never be one."""
SANDBOX = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'self'"
)
"""Policy of files that someone else may have written, such as stored reports: no scripts, forms or connections. In the
sandbox, they also have a separate origin."""
MLFLOW_POLICY = (
    "default-src 'none'; script-src 'self'; worker-src 'self' blob:; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; media-src 'self' blob:; font-src 'self' data:; manifest-src 'self'; "
    "connect-src 'self'; frame-src 'self' blob:; form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
)
"""Policy of MLflow's own pages. They show pictures, notes and reports of the record, which another user may have
written, in frames that inherit this policy. So only MLflow's files run as scripts, and nothing is sent elsewhere."""
IDLE_S = 60
"""Seconds until an idle connection is closed."""
UNKNOWN_S = 5
"""Seconds until a connection is closed that has not sent a request with the token or the cookie."""
MOST_CONNECTIONS = 128
"""Most connections that may be open at once. Each takes a thread, and any user of the machine can connect."""
LOCKED = (
    "Open the address that the terminal of `ui` shows. It contains a token, so that only you can read these pages; "
    "{file} in the home also contains it."
)
"""Explanation for a browser that has not opened the address with the token."""
OUTSIDE_FILES = "The record names files outside its home, which are not shown: run `sync --rebuild`, then `ui` again."
"""Explanation for a request for a file, if the record names files outside its home."""
LENGTH = re.compile("[0-9]{1,9}")
"""Pattern of the length of a body. Python refuses to read a number of thousands of digits."""
PORTS_TRIED = 20
"""Number of ports to try."""


def free_port(first: int) -> int:
    """Return the first free port from ``first`` on, or any free port if :data:`PORTS_TRIED` ports are taken."""
    for port in (*range(first, min(first + PORTS_TRIED, 65536)), 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise RuntimeError("no port is free on this machine")


@contextmanager
def serving(pages: SweepPages, port: int, mlflow: MlflowPage | None = None) -> Iterator[str]:
    """Serve the pages during the block, and yield the address with the token. Raises :class:`UserError` if the port is
    taken, or if the home cannot be written."""
    try:
        server = _Server(port, pages, mlflow)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        raise UserError(
            f"port {port} cannot be used ({error.strerror}; another `ui` may use it): try --port {free_port(port + 1)}"
        ) from error
    address = f"http://{HOST}:{server.server_port}/?{PARAMETER}={server.access.token}"
    thread = threading.Thread(target=server.serve_forever, name="page", daemon=True)
    thread.start()
    try:
        with kept_address(pages.home.root, server.server_port, address) as path:
            server.address_file = path.name
            yield address
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def until_interrupted() -> None:
    """Wait until this process is interrupted or terminated."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, pages: SweepPages, mlflow: MlflowPage | None) -> None:
        super().__init__((HOST, port), _Handler)
        self.pages = pages
        self.lock = threading.Lock()
        self.access = Access()
        self.mlflow = mlflow
        self.address_file = ""
        self.free_connections = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._unknown: dict[Any, float] = {}
        """Connections of unknown users, and when to close them, as values of ``time.monotonic``."""

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection, or close it if too many are open."""
        if not self.free_connections.acquire(blocking=False):
            self.shutdown_request(request)
            return
        self._unknown[request] = time.monotonic() + UNKNOWN_S
        try:
            super().process_request(request, client_address)
        except BaseException:
            self.admit(request)
            self.free_connections.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.admit(request)
            self.free_connections.release()

    def admit(self, request: Any) -> None:
        """Let a connection stay open: its user is known, or it has ended."""
        self._unknown.pop(request, None)

    def service_actions(self) -> None:
        """Close connections whose users stay unknown, also those that send a letter now and then. This is called about
        twice a second."""
        for request in [request for request, end in self._unknown.copy().items() if time.monotonic() > end]:
            with suppress(OSError):  # It has just ended.
                request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print the error of a failed request, unless the browser closed the connection."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = IDLE_S

    def do_GET(self) -> None:
        """Answer a request for a page."""
        path, _, query = self.path.partition("?")
        if not self._is_from_here():
            return
        access = self.server.access
        # Redirect at once, so that the token does not stay in the address that the browser shows and stores.
        if access.is_first_visit(path, query):
            self.server.admit(self.connection)
            self.send_response(HTTPStatus.SEE_OTHER)
            self._send_headers({"Location": access.root, "Set-Cookie": access.set_cookie, "Content-Length": "0"})
            return
        if (inside := self._inside(path)) is None:
            return
        if inside.startswith(MLFLOW):
            self._pass_on(inside.removeprefix(MLFLOW), query)
            return
        nonce = secrets.token_hex(16)
        try:
            with self.server.lock:  # The pages and matplotlib are used by one thread at a time.
                body, kind, policy = _page(self.server.pages, inside, query, nonce)
        except SweepError as error:
            self.send_error(HTTPStatus.NOT_FOUND, explain=str(error))
            return
        except Exception:
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, explain="The terminal of `ui` shows the error.")
            raise  # _Server.handle_error prints it.
        self._send(body, kind, policy=policy.format(nonce=nonce))

    def do_POST(self) -> None:
        """Pass a request on to MLflow's page. Other pages accept no changes."""
        path, _, query = self.path.partition("?")
        if not self._is_from_here() or (inside := self._inside(path)) is None:
            return
        if not inside.startswith(MLFLOW):
            self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)
            return
        self._pass_on(inside.removeprefix(MLFLOW), query)

    def _is_from_here(self) -> bool:
        """Return True if a request is to a name of this machine and comes from no foreign page. Otherwise, send the
        error and return False.

        A page from another port of this machine is foreign too. The browser sets these headers, and a page cannot.
        """
        if not HOST_HEADER.fullmatch(self.headers.get("Host", "")):
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, explain="Open this page at 127.0.0.1 or localhost.")
            return False
        origin = self.headers.get("Origin")
        is_own = origin is None or origin == f"http://{self.headers['Host']}"
        is_opened = self.command == "GET" and self.headers.get("Sec-Fetch-Mode", "navigate") == "navigate"
        if not is_own or not (is_opened or self.headers.get("Sec-Fetch-Site", "none") in ("same-origin", "none")):
            self.send_error(HTTPStatus.FORBIDDEN, explain="Another page sent this request.")
            return False
        return True

    def _inside(self, path: str) -> str | None:
        """Return the path below the secret folder. If the browser has not opened the address with the token, send an
        error and return None."""
        inside = self.server.access.inside(path, self.headers.get("Cookie", ""))
        if inside is None:
            self.send_error(HTTPStatus.FORBIDDEN, explain=LOCKED.format(file=self.server.address_file))
        else:
            self.server.admit(self.connection)
        return inside

    def _pass_on(self, path: str, query: str) -> None:
        """Send a request to MLflow, and return MLflow's answer to the browser."""
        length = self.headers.get("Content-Length", "0")
        if not is_allowed(self.command, path, query):
            explained = "This server passes on only requests that read, name, tag or delete records."
            self.send_error(HTTPStatus.FORBIDDEN, explain=explained)
            return
        if not LENGTH.fullmatch(length) or int(length) > LONGEST_BODY or "Transfer-Encoding" in self.headers:
            self.send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return
        if self.server.mlflow is None:
            self.send_error(HTTPStatus.NOT_FOUND, explain="This server has no record.")
            return
        if FILES.fullmatch(path) and not self.server.mlflow.has_files:
            self.send_error(HTTPStatus.FORBIDDEN, explain=OUTSIDE_FILES)
            return
        body = self.rfile.read(int(length))
        if not self.server.mlflow.has_files and lists_files(path, body):
            self.send_error(HTTPStatus.FORBIDDEN, explain=OUTSIDE_FILES)
            return
        answer = self.server.mlflow.request(self.command, path, query, dict(self.headers.items()), body)
        if answer is None:
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, explain="MLflow starts; reload this page in some seconds.")
            return
        with answer:
            self.send_response(answer.status)
            policy = MLFLOW_POLICY if PAGES.fullmatch(path) else SANDBOX
            returned = {name: value for name, value in answer.getheaders() if name.lower() in RETURNED_HEADERS}
            self._send_headers(returned | {"Content-Security-Policy": policy})
            shutil.copyfileobj(answer, self.wfile)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send a page that explains the error."""
        phrase, known = self.responses.get(code, ("Error", ""))
        explained = explain or message or known
        page = render("error.html.j2", code=int(code), phrase=phrase, explained=explained)
        # This program makes the page, so it needs no sandbox. It contains no script with this nonce.
        self._send(page, HTML, code, POLICY.format(nonce=secrets.token_hex(16)))

    def _send(self, text: str, kind: str, status: int = HTTPStatus.OK, policy: str = SANDBOX) -> None:
        body = text.encode()
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store"}
        self._send_headers(headers | {"Content-Security-Policy": policy})
        if self.command != "HEAD":
            self.wfile.write(body)

    def _send_headers(self, headers: Mapping[str, str]) -> None:
        always = {
            "Referrer-Policy": "same-origin",
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin",
        }
        for name, value in {**headers, **always}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing: the terminal shows the address, not every request."""


def _page(pages: SweepPages, path: str, query: str, nonce: str) -> tuple[str, str, str]:
    """Return the page at a path, its content type and its policy. Raises :class:`UserError` for an unknown path."""
    folder, _, name = path.partition("/")
    if path == "":
        return pages.index(nonce), HTML, POLICY
    if path == "compare":
        return pages.compare(parse_qs(query).get("sweep", [])), HTML, POLICY
    if folder == "sweep" and name:
        return pages.report(name, nonce), HTML, POLICY
    if folder == "stored" and name:
        return pages.stored_report(name), HTML, SANDBOX
    if folder in ("figure", "narrow") and name.endswith(".svg"):
        return pages.figure(name.removesuffix(".svg"), narrow=folder == "narrow"), SVG, SANDBOX
    raise UserError("This address has no page.")
