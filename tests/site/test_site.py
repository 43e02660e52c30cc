"""The page of all sweeps, requested over HTTP as a browser does."""

from __future__ import annotations

import http.client
import re
import shutil
import socket
import struct
import threading
import time
import urllib.error
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import escape, unescape
from http.server import ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from orchestrator.catalog.export import compared
from orchestrator.catalog.reading import read_sweep
from orchestrator.catalog.summary import mixes_of, summarize
from orchestrator.history.journal import Answered, Journal
from orchestrator.history.stop_requests import ask_to_stop
from orchestrator.history.sweeps import REPORT_FILE
from orchestrator.home.directories import Home
from orchestrator.record.tracker import StoreError
from orchestrator.report.answer_table import comparison_rows
from orchestrator.report.figures.comparisons import PHONE_IN
from orchestrator.report.figures.style import WIDTH_IN
from orchestrator.report.sentences.transitions import verdict_lines
from orchestrator.report.side_by_side import finding
from orchestrator.site import server
from orchestrator.site.pages import SweepPages, age, intervals, spans
from orchestrator.site.server import free_port, serving
from orchestrator.system.errors import UserError
from orchestrator.transition.types import Estimate, Point, Verdict
from tests.catalog.fabricated import leave_stack, runs_of, write_sweep
from tests.cli.program import command
from tests.report.samples import make_answer, transition
from tests.site.browsing import BROWSER, cookie, get, opened
from tests.sweep.sweeps import spec
from tests.waiting import wait_for


@pytest.fixture(name="home")
def home_with_sweeps(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home(tmp_path_factory.mktemp("home"))


@pytest.fixture(name="address")
def served_page(home: Home) -> Iterator[str]:
    with serving(SweepPages(home), 0) as address:
        yield opened(address)


def test_every_sweep_is_shown_with_answer_state_figure_and_report_and_compared(address: str, home: Home) -> None:
    finished = write_sweep(home)
    broken = write_sweep(home, spec(question="Which one is broken?"))
    other = write_sweep(home, spec(variant="larger"))
    home.sweep(broken.id).spec.write_text("no: [space")
    begun = write_sweep(home, spec(question="Which one is under way?"), runs=runs_of(spec())[:6], answered=False)
    with home.sweep(begun.id).driving():
        html = get(address)
    assert '<meta http-equiv="refresh"' in html
    cards = {part[:80].split('"')[0]: part for part in html.split('<article class="sweep" id="')[1:]}
    assert set(cards) == {finished.id, broken.id, begun.id, other.id}
    assert '<span class="soft">logistic, larger</span>' in cards[other.id]
    legend = "Transition: the size at which the mean score reaches 80% of its asymptote, with its 90% interval"
    assert html.count(legend) == 1
    assert "Bars are the 90% intervals of transitions, on logarithmic axes from units 8 to 96." in html
    assert 'type="search" id="filter"' in html
    answer = read_sweep(home, finished.id).answer
    for line in (*verdict_lines(answer), finding(answer)[0]):
        assert line in cards[finished.id]
    assert "finished</span>" in cards[finished.id]
    assert "So far: " in cards[begun.id]
    assert "running</span>" in cards[begun.id]
    assert "cannot be read" in cards[broken.id]
    assert "figure/" not in cards[broken.id]
    assert f'src="figure/{finished.id}.svg?' in cards[finished.id]
    assert get(f"{address}figure/{finished.id}.svg").startswith("<svg ")
    assert "prefers-color-scheme: dark" in get(f"{address}figure/{finished.id}.svg")
    assert f'srcset="narrow/{finished.id}.svg?' in cards[finished.id]
    wide, narrow = (get(f"{address}{kind}/{finished.id}.svg") for kind in ("figure", "narrow"))
    widths = [re.findall(r'viewBox="0 0 (\S+) ', svg)[0] for svg in (wide, narrow)]
    assert widths == [f"{72 * WIDTH_IN:g}", f"{72 * PHONE_IN:g}"]
    report = get(f"{address}sweep/{finished.id}")
    assert "Every run is a point" in report
    assert finished.spec.question in report
    assert ">All sweeps</a>" in report
    for sweep in (finished, other):
        assert f'name="sweep" value="{sweep.id}" form="compare"' in html
    page = get(f"{address}compare?sweep={finished.id}&sweep={other.id}")
    for row in comparison_rows(compared([read_sweep(home, sweep.id) for sweep in (finished, other)])):
        assert all(escape(cell) in page for cell in row.cells)
    assert "<svg " in page
    for query in ("", f"?sweep={other.id}", f"?sweep={other.id}&sweep={other.id}", f"?sweep={other.id}&sweep=none"):
        with pytest.raises(urllib.error.HTTPError) as error:
            get(f"{address}compare{query}")
        assert error.value.code == 404


def test_a_sweep_of_a_family_that_is_gone_shows_its_last_report(address: str, home: Home) -> None:
    files = write_sweep(home).files
    (files.directory / REPORT_FILE).write_text("<p>the last report</p>")
    files.spec.write_text(files.spec.read_text().replace("tests.families", "gone.away"))
    html = get(address)
    assert "no module named &#39;gone.away&#39; was found" in html
    assert f'href="sweep/{files.id}"' in html
    assert f'<iframe sandbox title="Stored report of {files.id}" src="../stored/{files.id}">' in get(
        f"{address}sweep/{files.id}"
    )
    assert get(f"{address}stored/{files.id}") == "<p>the last report</p>"


def test_changed_sweeps_are_read_again(address: str, home: Home) -> None:
    sweep = write_sweep(home, runs=runs_of(spec())[:6], answered=False)
    page = get(address)
    assert "interrupted</span>" in page
    assert "6 runs ·" in page
    report = get(f"{address}sweep/{sweep.id}")
    assert "<p>So far: " in report
    with Journal(home.sweep(sweep.id).journal) as journal:
        journal.append(Answered())
    assert "finished</span>" in get(address)
    assert "<p>So far: " not in get(f"{address}sweep/{sweep.id}")


def test_a_report_shows_probes_that_ran_after_it_was_served(address: str, home: Home) -> None:
    sweep = write_sweep(home)
    assert "later/size" not in get(f"{address}sweep/{sweep.id}")
    command("probe", sweep.id, "tests.families:Later", "--home", home.root).succeeded()
    assert "later" in get(f"{address}sweep/{sweep.id}")


def test_runs_that_cannot_be_read_are_named(address: str, home: Home) -> None:
    sweep = write_sweep(home)
    lost = [next(home.runs.glob(f"{key[:12]}*")) for key in [run.key for run in read_sweep(home, sweep.id).runs][:5]]
    for directory in lost:
        shutil.rmtree(directory)
    damage = read_sweep(home, sweep.id).damage
    assert len(damage) > 3
    page, report = unescape(get(address)), unescape(get(f"{address}sweep/{sweep.id}"))
    assert damage[0] in page
    assert f"The report lists {len(damage) - 3} more." in page
    assert all(line in report for line in damage)


def test_a_page_that_cannot_be_made_is_an_error_page(
    address: str, home: Home, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    write_sweep(home)
    monkeypatch.setattr(SweepPages, "index", lambda pages, nonce: 1 // 0)
    with pytest.raises(urllib.error.HTTPError) as failed:
        get(address)
    assert failed.value.code == 500
    assert "The terminal of `ui` shows the error." in failed.value.read().decode()
    wait_for(lambda: "ZeroDivisionError" in capfd.readouterr().err)


@pytest.mark.parametrize(
    ("relative", "verdict", "ends", "is_open", "value"),
    [
        (Estimate(32.0, 16.0, 64.0), Verdict.FOUND, (25.0, 75.0), False, 50.0),
        (Estimate(None, None, None), Verdict.ABOVE, (75.0, 100.0), True, None),
        (Estimate(None, None, None), Verdict.BELOW, (0.0, 25.0), True, None),
        (Estimate(None, 16.0, None), Verdict.UNDECIDED, (25.0, 100.0), True, None),
        (Estimate(None, None, None), Verdict.UNDECIDED, None, False, None),
    ],
)
def test_bars_share_the_axis_of_all_sweeps(
    relative: Estimate, verdict: Verdict, ends: tuple[float, float] | None, is_open: bool, value: float | None
) -> None:
    points = tuple(Point(size, 0, 0.5, 0.1) for size in (16, 64))
    estimate = transition(verdict, relative)
    made = make_answer(replace(estimate, points=points), transition(Verdict.FOUND, Estimate(30.0, 20.0, 40.0)))
    bar = intervals(mixes_of(made), (8.0, 128.0))[0]
    assert (bar["ends"], bar["is_open"], bar["value"]) == (ends, is_open, value)


def test_the_axis_spans_the_sizes_of_all_sweeps(home: Home) -> None:
    sizes = ([8, 16], [4, 32], [16, 256])
    stored = [read_sweep(home, write_sweep(home, spec(sizes=own), runs=()).id) for own in sizes]
    assert spans(map(summarize, stored)) == {"units": (4, 256)}


def test_links_work_and_an_outage_is_reported(home: Home) -> None:
    sweep = write_sweep(home, runs=runs_of(spec())[:2])
    linked = SweepPages(home, lambda: {sweep.id: {"Runs in MLflow": "http://127.0.0.1:1/#/x?a=1&b=2"}})
    assert '<a href="http://127.0.0.1:1/#/x?a=1&amp;b=2">Runs in MLflow</a>' in linked.index()

    def fails() -> dict[str, dict[str, str]]:
        raise StoreError("no answer")

    out = SweepPages(home, fails).index()
    assert "MLflow&#39;s record cannot be read: no answer" in out
    assert sweep.id in out


@pytest.mark.parametrize("path", ["sweep/nothing", "figure/nothing.svg", "sweep/", "../etc/passwd", "other"])
def test_unknown_addresses_return_404(address: str, path: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as error:
        get(address + path)
    assert error.value.code == 404
    shown = error.value.read().decode()
    assert "<main>" in shown, "an error is a page in the style of the others"
    assert "Status 404" in shown


def test_only_requests_for_names_of_this_machine_are_answered(address: str) -> None:
    port = re.findall(r":(\d+)/", address)[0]
    for name in (f"localhost:{port}", "localhost"):  # Browsers omit port 80.
        assert "There is no sweep here yet" in get(address, Host=name)
    with pytest.raises(urllib.error.HTTPError) as error:
        get(address, Host=f"evil.example:{port}")
    assert error.value.code == 421


def test_a_browser_that_disconnects_early_causes_no_error(
    address: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The browser has moved on to another page: the connection is reset while the page is generated."""
    closed = threading.Event()
    monkeypatch.setattr(ThreadingHTTPServer, "shutdown_request", lambda *_: closed.set())
    host = urlsplit(address)
    with socket.create_connection(("127.0.0.1", host.port or 0)) as gone:
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        gone.sendall(f"GET {host.path} HTTP/1.0\r\nHost: {host.netloc}\r\nCookie: {cookie(address)}\r\n\r\n".encode())
    assert closed.wait(60)
    assert capfd.readouterr().err == ""


def test_a_connection_beyond_the_limit_is_closed_and_others_are_answered_later(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 3)
    with ExitStack() as stack:
        address = stack.enter_context(serving(SweepPages(home), 0))
        place = ("127.0.0.1", urlsplit(address).port or 0)
        open_now = [stack.enter_context(socket.create_connection(place, 30)) for _ in range(3)]
        with socket.create_connection(place, 30) as refused:
            assert refused.recv(1) == b""
        for connection in open_now:
            connection.close()
        assert wait_for(lambda: is_answered(address))


@pytest.mark.parametrize("sent", [b"", b"G"], ids=["idle", "a letter now and then"])
def test_a_connection_without_the_token_is_closed_soon(
    sent: bytes, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other users of the machine could hold all connections. The page of this user may take longer."""
    monkeypatch.setattr(server, "UNKNOWN_S", 1, raising=False)
    index = SweepPages.index

    def slow(pages: SweepPages, nonce: str = "") -> str:
        time.sleep(3)
        return index(pages, nonce)

    monkeypatch.setattr(SweepPages, "index", slow)
    with serving(SweepPages(home), 0) as address, ExitStack() as stack:
        place = ("127.0.0.1", urlsplit(address).port or 0)
        held = [stack.enter_context(socket.create_connection(place, 10)) for _ in range(3)]
        for connection in held:
            connection.setblocking(False)
        begun = time.monotonic()
        while held and time.monotonic() < begun + 10:
            time.sleep(0.1)
            held = [connection for connection in held if not is_closed(connection, sent)]
        assert held == []
        assert time.monotonic() > begun + 0.9
        assert "There is no sweep here yet" in get(opened(address))


def is_closed(connection: socket.socket, sent: bytes) -> bool:
    """Return True if the server has closed a connection. Otherwise, send something."""
    try:
        connection.send(sent)
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def is_answered(address: str) -> bool:
    try:
        return bool(opened(address))
    except (OSError, http.client.HTTPException):
        return False


def test_a_taken_port_is_reported_as_a_user_error(address: str, home: Home) -> None:
    port = int(re.findall(r":(\d+)/", address)[0])
    with pytest.raises(UserError, match=f"port {port} cannot be used"), serving(SweepPages(home), port):
        pass
    assert free_port(port) != port


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "just now"), (59, "just now"), (61, "1 min ago"), (7300, "2 h ago"), (172900, "2 days ago")],
)
def test_ages_are_worded_in_minutes_hours_and_days(seconds: int, words: str) -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    assert age(now, now - timedelta(seconds=seconds)) == words


def test_runs_in_training_and_stop_requests_are_shown(address: str, home: Home) -> None:
    sweep_spec, files = spec(), runs_of(spec())
    sweep = write_sweep(home, sweep_spec, runs=files[:3], answered=False)
    leave_stack(home, sweep, files[3:5], 4)
    assert f"--resume {sweep.id}" in get(address)
    with home.sweep(sweep.id).driving():
        ask_to_stop(sweep, "add+prod")
        html = get(address)
    assert "2 in training" in html
    assert f"units {files[3].size} seed {files[3].seed}: step 4, 0.40" in html
    assert "Stopping add+prod" in html
    assert "--resume" not in html


def policy(address: str) -> dict[str, str]:
    """Return the directives of a page's Content-Security-Policy."""
    with BROWSER.open(address, timeout=60) as answered:
        directives = answered.headers["Content-Security-Policy"].split(";")
    return {name: value for name, _, value in (directive.strip().partition(" ") for directive in directives)}


def test_a_stored_report_is_shown_without_its_scripts_and_in_an_origin_of_its_own(address: str, home: Home) -> None:
    files = write_sweep(home).files
    (files.directory / REPORT_FILE).write_text("<script>fetch('/').then(r => location = 'http://evil/')</script>")
    files.spec.write_text("no: [space")
    stored = policy(f"{address}stored/{files.id}")
    assert stored["sandbox"] == ""
    assert stored["default-src"] == "'none'"
    assert "script-src" not in stored
    assert policy(f"{address}sweep/{files.id}")["frame-src"] == "'self'"
    outside = home.root.parent / f"{home.root.name}-secret"
    outside.write_text("a secret")
    (files.directory / REPORT_FILE).unlink()
    (files.directory / REPORT_FILE).symlink_to(outside)
    with pytest.raises(urllib.error.HTTPError):
        get(f"{address}stored/{files.id}")


def test_only_own_scripts_are_allowed_and_text_of_a_home_is_escaped(address: str, home: Home) -> None:
    evil = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    sweep = write_sweep(home, spec(question=evil), runs=runs_of(spec())[:6], answered=False)
    with home.sweep(sweep.id).driving():
        index, report = get(address), get(f"{address}sweep/{sweep.id}")
    for html in (index, report):  # tests/site/test_access.py compares the nonces with the policy.
        assert evil not in html
        assert escape(evil) in html
        assert all(re.fullmatch(r'<script nonce="[0-9a-f]{32}">', tag) for tag in re.findall(r"<script[^>]*>", html))
