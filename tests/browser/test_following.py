"""A running sweep in a browser: the page of all sweeps updates itself."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.home.directories import Home
from orchestrator.site import pages
from orchestrator.site.server import serving
from tests.browser.chromium import Page
from tests.catalog.fabricated import write_sweep
from tests.scripted import FAMILY
from tests.sweep.sweeps import spec
from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
START_S = 300.0


@contextmanager
def running(tmp_path: Path, evaluation_s: float, *words: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Run a sweep of two mixes, whose runs take eight evaluations of ``evaluation_s`` seconds. Yield the process and
    its log."""
    sweep_spec = spec(
        family=FAMILY,
        sizes=[8, 16, 32, 64],
        seeds=2,
        search={"method": "grid"},
        settings={"log": str(tmp_path / "log"), "steps": 8, "pace_s": evaluation_s},
    )
    (tmp_path / "space.yaml").write_text(sweep_spec.to_yaml())
    command = [sys.executable, "-m", "orchestrator", "run", str(tmp_path / "space.yaml")]
    command += ["--home", str(tmp_path / "home"), *words]
    log = tmp_path / "output"
    with log.open("w") as out:
        driver = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out, text=True)
    try:
        yield driver, log
    finally:
        if driver.poll() is None:
            driver.send_signal(signal.SIGINT)
        driver.wait(200)


def wait_for_output(log: Path, pattern: str, driver: subprocess.Popen[str]) -> str:
    def look() -> list[str]:
        matches = re.findall(pattern, log.read_text())
        assert matches or driver.poll() is None, log.read_text()
        return matches

    return wait_for(look, START_S, log.read_text)[0]


def test_the_page_follows_a_running_sweep(page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "REFRESH_S", 2)
    with running(tmp_path, 0.7, "--engine=local") as (driver, log):
        wait_for_output(log, r"sweep (logistic-\S+)", driver)
        with serving(pages.SweepPages(Home(tmp_path / "home")), 0) as address:
            page.open(address)
            shown = page.wait("Does PROD help ADD?", "running", "in training", " runs · started ")
            assert "So far: " in shown
            for scheme in ("light", "dark"):
                page.prefer(scheme)
                assert page.accessibility() == []
            # The page updates itself without a reload.
            page.run("window.kept = true")
            ended = int(re.findall(r"(\d+) runs ·", shown)[0])
            page.wait_for(f"Number(document.body.innerText.match(/(\\d+) runs? ·/)[1]) > {ended + 1}")
            page.wait_for("document.images[0]?.complete && document.images[0].naturalHeight > 0 && window.kept")
            driver.send_signal(signal.SIGINT)
            page.wait("interrupted", "To resume it, run orchestrator run", without=("in training",))


@pytest.mark.parametrize(("sweeps", "record"), [(1, "mlflow/"), (2, "")])
def test_the_page_stops_updating_once_nothing_runs(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sweeps: int, record: str
) -> None:
    """A page with other scripts stops, too: that of several sweeps, and one with a record."""
    monkeypatch.setattr(pages, "REFRESH_S", 1)
    home = Home(tmp_path)
    ids = [write_sweep(home, spec(seed=seed)).id for seed in range(sweeps)]
    with serving(pages.SweepPages(home, record=record), 0) as address:
        with home.sweep(ids[0]).driving():
            page.open(address)
            page.wait("updated every 1 s")
        page.wait("finished", without=("updated every",))
        requests = "return performance.getEntriesByType('resource').filter(each => each.name === location.href).length"
        before = page.run(requests)
        assert isinstance(before, int)
        assert before > 0
        time.sleep(4)
        assert page.run(requests) == before
