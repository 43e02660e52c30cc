"""MLflow's page and the report in a browser: a real server on a store filled by a real sweep."""

from __future__ import annotations

import json
import subprocess
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from orchestrator.site.server import free_port
from tests.browser.chromium import Page
from tests.cli.program import command, started
from tests.site.browsing import get, opened
from tests.sweep.sweeps import spec
from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
START_S = 200.0
PLUS = "document.querySelector('.ag-row a[href*=\"/runs/\"]')?.closest('[role=gridcell]')?.querySelector('button')"
"""JavaScript for the button that unfolds the first sweep of the table."""
TRAINING = "workflowType=machine_learning"
"""Selects MLflow's view for training; its default is the view for traces of language models."""


COLUMNS = (
    "[...document.querySelectorAll('.ag-header-cell[col-id]')].filter(cell => cell.innerText.trim())"
    ".sort((one, other) => one.getBoundingClientRect().left - other.getBoundingClientRect().left)"
    ".map(cell => cell.innerText.trim())"
)
"""JavaScript for the heads of the table's columns, from left to right."""
ASSISTANT = "Ask questions about your experiments"
"""Text in the panel of MLflow's assistant."""
CURVES = "curve/median vs curve/low vs curve/high"
"""Name that MLflow gives to a chart of several metrics."""


@dataclass(frozen=True)
class Site:
    """MLflow's page on a store with one sweep, and the ``index`` of all sweeps. A second experiment, ``telling``,
    has a sweep of the logistic test family that decided its comparison."""

    base: str
    index: str
    experiment: str
    telling: str
    sweep: Run
    runs: tuple[Run, ...]
    transitions: tuple[Run, ...]
    home: Path

    @property
    def report(self) -> Path:
        """Path of the report of the sweep of transformers."""
        return self.home / "sweeps" / str(self.sweep.info.run_name) / "report.html"

    def of(self, run: Run, tab: str = "") -> str:
        """Return the address of a run's page, or of one of its tabs."""
        return f"{self.base}/#/experiments/{self.experiment}/runs/{run.info.run_id}{tab}?{TRAINING}"


@pytest.fixture(scope="module", name="site")
def served_site(page: Page, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home = tmp_path_factory.mktemp("home")
    smoke = ("add_vs_add_prod", "--profile", "smoke", "--set", "sizes=[4, 8]")
    decides = spec(seeds=8, search={"method": "pairs", "aim": "factor"})
    (home / "logistic.yaml").write_text(decides.to_yaml())
    for words in (smoke, (home / "logistic.yaml",)):
        done = command("run", *words, "--engine=local", "--home", home)
        assert done.code == 0, done.err
    client = MlflowClient(f"sqlite:///{home / 'mlflow.db'}")
    experiment, telling = map(client.get_experiment_by_name, ("add_vs_add_prod", "logistic"))
    assert experiment is not None
    assert telling is not None

    def kind(name: str) -> tuple[Run, ...]:
        return tuple(client.search_runs([experiment.experiment_id], f"tags.kind = '{name}'"))

    server = started("ui", "--home", home, "--port", free_port(5000))
    try:
        assert server.stdout is not None
        first = server.stdout.readline().rpartition(" ")[2].strip()
        own = opened(first)
        wait_for(lambda: _answers(f"{own}mlflow/health", server), START_S)
        page.open(first)  # Stores the cookie in the browser.
        index = str(page.run("return location.href"))
        assert index == own
        base = f"{index}mlflow"
        ids = (str(experiment.experiment_id), str(telling.experiment_id))
        yield Site(base, index, *ids, kind("sweep")[0], kind("run"), kind("transition"), home)
    finally:
        server.terminate()
        server.wait(60)


def _answers(url: str, server: subprocess.Popen[str]) -> bool:
    assert server.poll() is None, "the server ended"
    with suppress(OSError):
        return get(url) == "OK"
    return False


def test_the_first_screen_shows_the_answer_and_links_to_more(site: Site, page: Page) -> None:
    page.open(site.index)
    shown = page.wait(
        "Can a smaller transformer", "finished", "add+prod", "started ", "Report", "Transitions in MLflow"
    )
    assert shown.index("add+prod") < shown.index("Report")
    page.wait_for("document.images[0].complete && document.images[0].naturalHeight > 0")
    # All of it is visible without scrolling.
    page.wait_for("document.querySelector('.links').getBoundingClientRect().bottom < window.innerHeight")
    page.click("[...document.links].find(link => link.textContent === 'Transitions in MLflow')")
    page.wait("2 matching runs", "add+prod ")
    page.open(site.index)
    # The newest sweep is first on the page and has decided. Its curves over sizes are MLflow's charts.
    page.click("[...document.links].find(link => link.textContent === 'Transitions as charts')")
    page.wait("curve/median", "curve/low", "curve/high")
    page.open(site.index)
    sweep = str(site.sweep.info.run_name)
    page.click(f"[...document.links].find(link => link.textContent === 'Report' && link.href.includes('{sweep}'))")
    page.wait(sweep, "How sure")


def follow(site: Site, page: Page, text: str) -> None:
    """Open the first link with this text on the page of all sweeps: that of the newest sweep."""
    page.open(site.index)
    page.click(f"[...document.links].find(link => link.textContent === '{text}')")


def test_transitions_show_their_estimates_first(site: Site, page: Page) -> None:
    """The first columns after the fixed ones: name and time of creation."""
    follow(site, page, "Transitions in MLflow")
    page.wait("2 matching runs", "transition", "mix", without=(ASSISTANT,))
    page.wait_for(f"{COLUMNS}.length > 6")
    columns = page.run(f"return {COLUMNS}")
    assert isinstance(columns, list)
    assert columns[:7] == ["Run Name", "Created", "transition", "low", "high", "mix", "sweep"]
    page.wait_for("document.querySelector('.ag-body-viewport').innerText.includes('logistic-')")


def test_three_charts_come_before_all_others(site: Site, page: Page) -> None:
    follow(site, page, "Transitions as charts")
    shown = page.wait(CURVES, "interval", "evidence", "Model metrics", without=(ASSISTANT,))
    places = [shown.index(f"\n{text}\n") for text in (CURVES, "interval", "evidence", "Model metrics")]
    assert places == sorted(places)
    assert "\nTransitions\n(3)\n" in shown
    # All three have a line for each run, and the first for each of its metrics. MLflow draws lines twice.
    lines = (
        "[...document.querySelectorAll('.js-plotly-plot')].map(plot => new Set((plot.data ?? [])"
        ".filter(line => line.x?.length > 1).map(line => JSON.stringify([[...line.x], [...line.y]]))).size)"
    )
    page.wait_for(f"{lines}.slice(0, 3).join() === '6,2,1'")
    ends = "document.querySelectorAll('.js-plotly-plot')[1].data.map(line => [...line.x].join())"
    assert page.run(f"return [...new Set({ends})]") == ["5,50,95"]


def test_runs_show_what_was_trained_first(site: Site, page: Page) -> None:
    follow(site, page, "Runs in MLflow")
    page.wait("matching runs", "units", "seed")
    page.wait_for(f"{COLUMNS}.length > 6")
    columns = page.run(f"return {COLUMNS}")
    assert isinstance(columns, list)
    assert columns[:6] == ["Run Name", "Created", "mix", "units", "seed", "test_accuracy/add"]


def test_sweeps_are_filtered_by_words(site: Site, page: Page) -> None:
    page.open(site.index)
    page.wait("2 sweeps in", "on logarithmic axes from units 8 to 96; from n_embed 4 to 8")
    shown = "return [...document.querySelectorAll('.sweep')].filter(one => one.offsetHeight).length"
    assert page.run(shown) == 2
    for words, count in (("PROD", 2), ("smoke", 1), ("smoke finished", 1), ("smoke running", 0), ("", 2)):
        page.run(
            f"const field = document.getElementById('filter'); field.value = '{words}'; "
            "field.dispatchEvent(new Event('input'))"
        )
        assert page.run(shown) == count, words


def test_the_experiment_shows_the_sweep_with_its_runs(site: Site, page: Page) -> None:
    page.open(f"{site.base}/#/experiments/{site.experiment}/runs?{TRAINING}")
    page.wait(site.sweep.info.run_name, f"{len(site.runs) + 3} matching runs")
    page.click(PLUS)
    shown = page.wait(*(run.info.run_name for run in (*site.transitions, *site.runs)))
    assert "add_vs_add_prod" in shown


def test_transitions_are_found_with_the_described_filter(site: Site, page: Page) -> None:
    query = urllib.parse.quote('tags.kind = "transition"')
    page.open(f"{site.base}/#/experiments/{site.experiment}/runs?{TRAINING}&searchFilter={query}")
    page.wait("3 matching runs")  # Two transitions and their sweep.
    page.click(PLUS)
    page.wait(*(run.info.run_name for run in site.transitions), without=(site.runs[0].info.run_name,))


def test_a_sweep_shows_its_question_and_answer(site: Site, page: Page) -> None:
    page.open(site.of(site.sweep))
    page.wait("add, modulus 4: size at", "Nested below", "search_space.yaml", "search.method")


def test_a_sweep_shows_its_report(site: Site, page: Page) -> None:
    page.open(site.of(site.sweep, "/artifacts/report.html"))
    page.wait("report.html", "search_space.yaml")
    page.wait_for("[...document.querySelectorAll('iframe')].some(frame => frame.getBoundingClientRect().height > 200)")


def test_a_run_shows_its_learning_curves(site: Site, page: Page) -> None:
    page.open(site.of(site.runs[0], "/model-metrics"))
    page.wait(f"{site.runs[0].info.run_name} (accuracy/add)", "test_accuracy")
    page.wait_for("document.querySelectorAll('.js-plotly-plot .trace, .js-plotly-plot path.js-line').length > 0")


def test_a_run_shows_its_embeddings(site: Site, page: Page) -> None:
    pictured = next(run for run in site.runs if run.data.params["seed"] == "0")
    page.open(site.of(pictured, "/artifacts/similarity.png"))
    page.wait("similarity.png", "arrays.npz")
    page.wait_for("[...document.images].some(image => image.naturalWidth > 900)")


def test_two_transitions_are_compared(site: Site, page: Page) -> None:
    runs = urllib.parse.quote(json.dumps([run.info.run_id for run in site.transitions]))
    experiments = urllib.parse.quote(json.dumps([site.experiment]))
    page.open(f"{site.base}/#/compare-runs?runs={runs}&experiments={experiments}")
    shown = page.wait("Comparing 2 Runs", *(run.info.run_name for run in site.transitions), "verdict")
    assert "add+prod" in shown


def test_the_report_is_a_self_contained_page(site: Site, page: Page, tmp_path: Path) -> None:
    sweep, path = site.sweep.info.run_name, tmp_path / "report.html"
    command("report", sweep, "--home", site.home, "--output", path).succeeded()
    page.resize(1280, 900)
    page.open(path.as_uri())
    page.wait(str(sweep), "add+prod", "n_embed")
    # The question, the answer and its figure are on the first screen. One click leads to the embeddings.
    page.wait_for("document.querySelector('#answer table').getBoundingClientRect().bottom < window.innerHeight")
    page.wait_for("document.querySelector('#curves svg').getBoundingClientRect().bottom < window.innerHeight")
    page.click("document.querySelector('nav a[href=\"#similarities\"]')")
    page.wait_for("document.getElementById('similarities').getBoundingClientRect().top < window.innerHeight / 2")
    page.wait_for("performance.getEntriesByType('resource').length === 0")


@pytest.mark.parametrize("width", [390, 720])
def test_the_report_fits_on_a_phone_and_on_paper(site: Site, page: Page, width: int) -> None:
    """The page is not wider than the screen, and text in figures is at least 7.5 pixels high. 720 pixels are the
    width of A4 paper at 96 pixels an inch without margins, which fits all columns of the table of runs."""
    page.resize(width, 1000)
    page.open(site.report.as_uri())
    page.run("for (const each of document.querySelectorAll('details')) each.open = true")
    if width == 720:
        page.print_media()
        page.wait_for(
            "document.querySelector('#runs table').getBoundingClientRect().right <= document.body.clientWidth + 1"
        )
    page.wait_for("document.documentElement.scrollWidth <= window.innerWidth + 1")
    if width == 390:
        least = page.run("""
          const shown = [...document.querySelectorAll('#curves svg')].filter(svg => svg.getBoundingClientRect().width);
          return Math.min(...shown.map(svg => svg.getBoundingClientRect().width / svg.viewBox.baseVal.width)) * 7.5""")
        assert float(str(least)) >= 7.5


@contextmanager
def stranger() -> Iterator[tuple[str, list[str]]]:
    """Yield the address of another user's server, and the paths that it was asked for."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(200)
            self.send_header("Access-Control-Allow-Origin", "*")
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", paths
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("place", ["file", "note"])
def test_text_of_a_record_sends_nothing_away(site: Site, page: Page, place: str) -> None:
    """MLflow shows HTML files and notes, which another user may have written, between its own pages."""
    client = MlflowClient(f"sqlite:///{site.home / 'mlflow.db'}")
    with stranger() as (address, asked):
        script = f"<script>fetch('{address}/script?' + document.referrer)</script>"
        text = f"<h1>by a stranger</h1><img src='{address}/image' onerror='fetch(\"{address}/error\")'>{script}"
        if place == "file":
            folder = Path(urllib.parse.urlsplit(site.sweep.info.artifact_uri).path)
            (folder / "strange.html").write_text(text)
            page.open(site.of(site.sweep, "/artifacts/strange.html"))
            page.wait_for("document.querySelector('iframe#html')")
            page.wait("strange.html")
        else:
            client.set_tag(site.sweep.info.run_id, "mlflow.note.content", f"{text} ![]({address}/picture)")
            page.open(site.of(site.sweep))
            page.wait("by a stranger")
        page.run("return new Promise(done => setTimeout(done, 3000))")
        assert asked == []
