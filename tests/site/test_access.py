"""Who can open the pages: a browser that has visited the address with the token. Other users, pages and ports cannot.

MLflow is a small server that records the requests it receives; ``tests/test_other_users.py`` runs the real one.
"""

from __future__ import annotations

import re
import socket
import socketserver
import stat
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from orchestrator.history.sweeps import REPORT_FILE
from orchestrator.home.directories import Home
from orchestrator.site.mlflow_proxy import MlflowPage
from orchestrator.site.pages import SweepPages
from orchestrator.site.server import MLFLOW, free_port, serving
from orchestrator.system.environment import socket_directory
from tests.catalog.fabricated import runs_of, write_sweep
from tests.site.browsing import BROWSER, cookie, get, opened
from tests.sweep.sweeps import spec

EVIL = "<script>fetch('..')</script>"


@dataclass
class Recorded(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Server on a Unix socket that keeps the method, path and body of each request."""

    path: str
    requests: list[tuple[str, str, bytes]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__(self.path, _Recording)


class _Recording(BaseHTTPRequestHandler):
    server: Recorded

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests.append((self.command, self.path, body))
        self.server.headers = dict(self.headers.items())
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Access-Control-Allow-Origin", "*")
        self.end_headers()
        self.wfile.write(EVIL.encode())

    do_POST = do_GET

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@dataclass(frozen=True)
class Served:
    """The pages of a home: the address with the token, the one behind it, and MLflow's stand-in."""

    home: Home
    first: str
    address: str
    mlflow: Recorded

    @property
    def port(self) -> int:
        return urlsplit(self.address).port or 0

    @property
    def token(self) -> str:
        return parse_qs(urlsplit(self.first).query)["token"][0]


@contextmanager
def recording(path: Path) -> Iterator[Recorded]:
    with Recorded(str(path)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(name="site")
def served_site(tmp_path: Path) -> Iterator[Served]:
    home = Home(tmp_path / "home")
    write_sweep(home)
    with ExitStack() as cleanup:
        directory = cleanup.enter_context(socket_directory())
        mlflow = cleanup.enter_context(recording(directory / "mlflow"))
        first = cleanup.enter_context(serving(SweepPages(home), 0, MlflowPage(directory / "mlflow")))
        yield Served(home, first, opened(first), mlflow)


def status(address: str, body: bytes | None = None, **headers: str) -> int:
    """Return the status of a request without the browser's cookies."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        with urllib.request.urlopen(urllib.request.Request(address, body, named), timeout=60) as answered:
            return int(answered.status)
    except urllib.error.HTTPError as error:
        return error.code


def refused(address: str, body: bytes | None = None, **headers: str) -> int:
    """Return the status of a request with the browser's cookies that is refused."""
    with pytest.raises(urllib.error.HTTPError) as error:
        get(address, body, **headers)
    return error.value.code


def test_only_the_address_with_the_token_opens_the_pages(site: Served) -> None:
    sweep = site.home.sweep_ids()[0]
    base = f"http://127.0.0.1:{site.port}/"
    paths = (
        "",
        f"sweep/{sweep}",
        f"figure/{sweep}.svg",
        "compare",
        "mlflow/",
        "mlflow/get-artifact?run_uuid=a",
        "none",
    )
    for root in (base, site.address):  # Nobody else knows the folder, which is not enough either.
        assert {status(f"{root}{path}") for path in paths} == {403}
    for wrong in ("", "0" * 32, site.token[:-1], f"{site.token}0", "%ff"):
        assert status(f"{base}?token={wrong}") == 403
    assert status(f"{base}?token={site.token}&token={site.token}") == 403
    assert status(site.address, Cookie="orchestrator=wrong") == 403
    assert status(base, Cookie=cookie(site.address)) == 403, "the cookie does not open another folder"
    assert sweep in get(site.address)
    assert site.mlflow.requests == []


def test_the_cookie_stays_in_a_secret_folder_that_no_script_can_read(site: Served) -> None:
    """Browsers send the cookies of a host to all its ports, also to those of other users."""
    with pytest.raises(urllib.error.HTTPError) as redirected, urllib.request.build_opener(_Stays()).open(site.first):
        pass
    stored = redirected.value.headers["Set-Cookie"]
    assert redirected.value.code == 303
    assert re.fullmatch(r"orchestrator=[0-9a-f]{32}; Path=/[0-9a-f]{32}/; HttpOnly; SameSite=Lax", stored)
    assert site.token not in redirected.value.headers["Location"]
    assert site.token not in stored
    assert cookie(f"http://127.0.0.1:{site.port + 1}/") == "None"


class _Stays(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments: object) -> None:
        """Do not follow."""


def test_the_address_is_kept_for_its_user_alone_and_ends_with_the_server(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for planted in (None, "file", "link"):
        home = Home(tmp_path / str(planted))
        write_sweep(home, runs=runs_of(spec())[:1])
        port = free_port(21_000)
        path = home.root / f".ui-{port}.url"
        if planted == "file":
            path.touch(0o666)
        if planted == "link":
            path.symlink_to(victim)
        with serving(SweepPages(home), port) as address:
            assert path.read_text() == f"{address}\n"
            assert stat.S_IMODE(path.lstat().st_mode) == 0o600
        assert not path.exists()
    assert victim.read_text() == "precious"


def test_requests_of_other_pages_are_refused(site: Served) -> None:
    query = f"{site.address}mlflow/ajax-api/2.0/mlflow/runs/search"
    for headers in (
        {"Origin": f"http://127.0.0.1:{site.port + 1}"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "no-cors"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "cors"},
    ):
        assert refused(query, b"{}", **headers) == 403
        assert refused(site.address, None, **headers) == 403
    assert site.mlflow.requests == []
    own = {"Origin": f"http://127.0.0.1:{site.port}", "Sec_Fetch_Site": "same-origin", "Sec_Fetch_Mode": "cors"}
    assert get(query, b'{"a": 1}', **own) == EVIL
    assert site.mlflow.requests == [("POST", "/ajax-api/2.0/mlflow/runs/search", b'{"a": 1}')]
    assert "Origin" not in site.mlflow.headers, "MLflow would allow other ports"
    assert "Cookie" not in site.mlflow.headers
    link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    assert "<article" in get(site.address, None, **link), "a followed link only opens the page"


@pytest.mark.parametrize(
    "path",
    [
        "experiments/create",
        "runs/create",
        "runs/log-artifact",
        "runs/log-batch",
        "upload-artifact?run_uuid=a&path=b",
        "registered-models/create",
        "model-versions/create",
        "gateway-proxy",
        "logged-models",
        "traces",
        "runs/search/../create",
        "runs/%63reate",
    ],
)
def test_creation_and_uploads_are_refused(site: Served, path: str) -> None:
    for prefix in ("ajax-api/2.0/mlflow/", "api/2.0/mlflow/", "ajax-api/3.0/mlflow/"):
        assert refused(f"{site.address}{MLFLOW}{prefix}{path}", b"{}") == 403
    assert refused(f"{site.address}{MLFLOW}api/2.0/mlflow-artifacts/artifacts/x", b"x") == 403
    request = urllib.request.Request(f"{site.address}{MLFLOW}api/2.0/mlflow-artifacts/artifacts/x", b"x", method="PUT")
    with pytest.raises(urllib.error.HTTPError) as error:
        BROWSER.open(request, timeout=60)
    assert error.value.code == 501
    assert site.mlflow.requests == []


def test_queries_and_annotations_reach_mlflow(site: Served) -> None:
    paths = [
        *("graphql", "ajax-api/2.0/mlflow/runs/search", "ajax-api/2.0/mlflow/experiments/search"),
        *("ajax-api/2.0/mlflow/runs/set-tag", "ajax-api/2.0/mlflow/runs/update", "ajax-api/2.0/mlflow/runs/delete"),
    ]
    for path in paths:
        assert get(f"{site.address}{MLFLOW}{path}", b"{}") == EVIL
    assert get(f"{site.address}{MLFLOW}ajax-api/2.0/mlflow/runs/get?run_id=a&b=%20c") == EVIL
    expected = [("POST", f"/{path}", b"{}") for path in paths]
    assert site.mlflow.requests == [*expected, ("GET", "/ajax-api/2.0/mlflow/runs/get?run_id=a&b=%20c", b"")]


@pytest.mark.parametrize("query", ["a=\x01", "a=\x7f&run_id=b", "a=\x1b[2J", "a=\xe9"])
def test_a_query_with_control_characters_is_refused(query: str, site: Served) -> None:
    """Browsers encode them. MLflow's connection would raise an exception, which drops the browser's."""
    with socket.create_connection(("127.0.0.1", site.port), timeout=60) as connection:
        path = urlsplit(site.address).path
        head = f"GET {path}{MLFLOW}version?{query} HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\n"
        connection.sendall(f"{head}Cookie: {cookie(site.address)}\r\n\r\n".encode("latin-1"))
        assert b" 403 " in connection.makefile("rb").readline()
    assert site.mlflow.requests == []


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("length", ["9" * 5000, "0" * 5000 + "2"], ids=["huge", "padded"])
def test_a_length_of_thousands_of_digits_is_refused(length: str, method: str, site: Served) -> None:
    """Python raises an exception for such a number."""
    with socket.create_connection(("127.0.0.1", site.port), timeout=60) as connection:
        path = f"{urlsplit(site.address).path}{MLFLOW}{'version' if method == 'GET' else 'graphql'}"
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\nContent-Length: {length}\r\n"
        connection.sendall(f"{head}Cookie: {cookie(site.address)}\r\n\r\n".encode("latin-1"))
        assert b" 413 " in connection.makefile("rb").readline()
    assert site.mlflow.requests == []


def headers_of(address: str) -> dict[str, str]:
    with BROWSER.open(address, timeout=60) as answered:
        return dict(answered.headers.items())


@pytest.mark.parametrize("path", ["get-artifact?run_uuid=a&path=b.html", "ajax-api/2.0/mlflow/runs/get?run_id=a"])
def test_files_of_the_record_do_not_run_as_pages(site: Served, path: str) -> None:
    headers = headers_of(f"{site.address}{MLFLOW}{path}")
    assert headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'; ")
    assert "Access-Control-Allow-Origin" not in headers
    policy = headers_of(f"{site.address}{MLFLOW}")["Content-Security-Policy"]
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert "sandbox" not in directives
    # MLflow's pages show HTML files in frames, which inherit this.
    assert directives["default-src"] == "'none'"
    assert directives["script-src"] == directives["connect-src"] == "'self'"
    assert not any(source in policy for source in ("unsafe-eval", "http:", "https:", "*"))


@pytest.mark.parametrize(
    "path",
    [
        *("%67et-artifact?run_uuid=a&path=b.html", "/get-artifact?run_uuid=a", "static-files//../get-artifact?path=a"),
        *(
            "model-versions/get-artifact?name=a",
            "ajax-api/2.0/mlflow/logged-models/m/artifacts/files?artifact_file_path=a",
        ),
        *("ajax-api/3.0/mlflow/get-trace-artifact?request_id=a", "ajax-api/3.0/mlflow/traces/get?trace_id=a"),
        *("ajax-api/3.0/mlflow/assistant/providers/a/health", "ajax-api/3.0/mlflow/assistant/sessions/a/stream"),
        *("ajax-api/3.0/jobs/a", "ajax-api/3.0/mlflow/jobs/a", "ajax-api/3.0/jobs"),
        *("ajax-api/2.0/mlflow/gateway-proxy?gateway_path=a", "ajax-api/2.0/mlflow-artifacts/artifacts?path=a"),
    ],
)
def test_other_addresses_of_files_are_refused(site: Served, path: str) -> None:
    assert refused(f"{site.address}{MLFLOW}{path}") == 403
    assert site.mlflow.requests == []


@pytest.mark.parametrize("path", ["get-artifact?run_uuid=a&path=b", "ajax-api/2.0/mlflow/artifacts/list?run_id=a"])
def test_files_outside_a_home_are_not_asked_for(site: Served, path: str) -> None:
    with serving(SweepPages(site.home), 0, MlflowPage(Path(site.mlflow.path), has_files=False)) as first:
        address = opened(first)
        assert refused(f"{address}{MLFLOW}{path}") == 403
        assert site.mlflow.requests == []
        assert get(f"{address}{MLFLOW}ajax-api/2.0/mlflow/runs/get?run_id=a") == EVIL
    assert get(f"{site.address}{MLFLOW}{path}") == EVIL


@pytest.mark.parametrize(
    "others",
    ['state={"a": "b, c"}; {own}', "{own}; orchestrator=planted", "orchestrator=; {own}; =;;\xe9"],
)
def test_cookies_of_other_ports_do_not_lock_the_user_out(site: Served, others: str) -> None:
    """Every program at a port of this host can set cookies that the browser sends here."""
    own = cookie(site.address)
    assert status(site.address, Cookie=others.replace("{own}", own)) == 200
    assert status(site.address, Cookie=others.replace("{own}", "orchestrator=0")) == 403


def test_a_stored_report_is_served_in_a_sandbox(site: Served) -> None:
    files = site.home.sweep(site.home.sweep_ids()[0])
    (files.directory / REPORT_FILE).write_text(EVIL)
    files.spec.write_text("no: [space")
    around = get(f"{site.address}sweep/{files.id}")
    assert EVIL not in around
    assert f'src="../stored/{files.id}"' in around
    address = f"{site.address}stored/{files.id}"
    assert get(address) == EVIL
    policy = headers_of(address)["Content-Security-Policy"]
    assert policy.startswith("sandbox; default-src 'none';")
    assert "script-src" not in policy


def test_only_scripts_of_this_program_run(site: Served) -> None:
    """Even a script that escapes from a question has no nonce, and nonces differ in each answer."""
    sweep = write_sweep(site.home, spec(question=EVIL), runs=runs_of(spec())[:6], answered=False)
    nonces = set()
    with site.home.sweep(sweep.id).driving():
        for path in ("", "", f"sweep/{sweep.id}", f"sweep/{sweep.id}"):
            with BROWSER.open(f"{site.address}{path}", timeout=60) as answered:
                html, policy = answered.read().decode(), answered.headers["Content-Security-Policy"]
            allowed = re.findall(r"script-src 'nonce-([0-9a-f]{32})';", policy)
            assert set(re.findall(r"<script[^>]*>", html)) == {f'<script nonce="{allowed[0]}">'}
            assert "unsafe-inline" not in policy.replace("style-src 'unsafe-inline'", "")
            assert EVIL not in html
            nonces.update(allowed)
    assert len(nonces) == 4
