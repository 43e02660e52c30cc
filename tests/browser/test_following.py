"""A running sweep in a browser: the page of all sweeps updates itself."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.home.directories import Home
from orchestrator.site import pages
from orchestrator.site.server import serving
from tests.browser.chromium import Page
from tests.cli.program import started
from tests.scripted import FAMILY
from tests.sweep.sweeps import spec
from tests.waiting import wait_for

START_S = 300.0


@pytest.fixture(name="driver")
def running_sweep(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A sweep of two mixes, whose runs take eight evaluations of .7 seconds."""
    settings = {"log": str(tmp_path / "log"), "steps": 8, "pace_s": 0.7}
    slow = spec(family=FAMILY, sizes=[8, 16, 32, 64], search={"method": "grid"}, settings=settings)
    (tmp_path / "space.yaml").write_text(slow.to_yaml())
    driver = started("run", tmp_path / "space.yaml", "--home", tmp_path / "home", "--engine=local")
    try:
        yield driver
    finally:
        if driver.poll() is None:
            driver.send_signal(signal.SIGINT)
        driver.communicate(timeout=200)


def test_the_page_follows_a_running_sweep(
    page: Page, driver: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "REFRESH_S", 2)
    home = Home(tmp_path / "home")
    wait_for(home.sweep_ids, START_S)
    with serving(pages.SweepPages(home), 0) as address:
        page.open(address)
        shown = page.wait("Does PROD help ADD?", "running")
        assert "So far: " in shown
        for scheme in ("light", "dark"):
            page.prefer(scheme)
            assert page.accessibility() == []
        # The page updates itself without a reload.
        page.run("window.kept = true")
        page.wait("in training", " runs · started ")
        ended = int(re.findall(r"(\d+) runs? ·", page.wait("runs ·"))[0])
        page.wait_for(f"Number(document.body.innerText.match(/(\\d+) runs? ·/)[1]) > {ended + 1}")
        page.wait_for("document.images[0]?.complete && document.images[0].naturalHeight > 0 && window.kept")
        driver.send_signal(signal.SIGINT)
        page.wait("interrupted", "To resume it, run python -m orchestrator run", without=("in training",))
