"""The pages that `ui` serves, as pictures."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.browser.chromium import Page
from tests.tracking.servers import free_port

START_S = 300.0
NO_ASSISTANT = """
  for (const key of Object.keys(localStorage)) {
    if (key.includes('assistant') && key.includes('panelOpen')) localStorage.setItem(key, 'false');
  }"""
"""MLflow opens a pane for an assistant on a browser's first visit, and keeps it open."""


@contextmanager
def served(home: Path, cwd: Path) -> Iterator[str]:
    """A block in which `ui` serves a home; gives the address of the page of all sweeps."""
    own, beside = free_port(), free_port()
    command = [sys.executable, "-m", "orchestrator", "ui", "--home", str(home)]
    server = subprocess.Popen(
        [*command, "--port", str(own), "--mlflow-port", str(beside)], cwd=cwd, stdout=subprocess.DEVNULL, env=os.environ
    )
    try:
        _wait_for(f"http://127.0.0.1:{beside}/health", server)
        yield f"http://127.0.0.1:{own}/"
    finally:
        server.terminate()
        server.wait(60)


def _wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError as error:
            if server.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{url} does not answer") from error
            time.sleep(0.3)


def picture_index(page: Page, address: str, path: Path) -> None:
    """The page of all sweeps, as its first screen shows it."""
    page.resize(1300, 860)
    page.open(address)
    page.wait("Report", "finished")
    page.wait_for("[...document.images].slice(0, 2).every(each => each.complete && each.naturalHeight > 0)")
    page.screenshot(path)


def picture_transitions(page: Page, address: str, path: Path) -> None:
    """MLflow's view of the transitions of the newest sweep that is recorded."""
    page.resize(1900, 560)
    page.open(address)
    page.wait("Transitions in MLflow")
    link = "[...document.links].find(link => link.textContent === 'Transitions in MLflow')"
    transitions = str(page.run(f"return ({link}).href"))
    page.open(transitions)
    page.wait("matching runs")
    page.run(NO_ASSISTANT)
    page.open(transitions)
    page.wait("matching runs", "transition add+prod", "\nfound\n")
    page.screenshot(path)


def picture_drawing(page: Page, svg: str, path: Path, scratch: Path) -> None:
    """An SVG in its own size."""
    html = scratch / "drawing.html"
    html.write_text(f'<!doctype html><meta charset="utf-8"><body style="margin:0;overflow:hidden">{svg}</body>')
    page.open(html.as_uri())
    size = page.run("const box = document.querySelector('svg').viewBox.baseVal; return [box.width, box.height]")
    assert isinstance(size, list)
    width, height = (round(float(side)) for side in size)
    page.resize(width, height)
    page.open(html.as_uri())
    page.wait_for("document.querySelector('svg').getBoundingClientRect().width > 0")
    page.screenshot(path)
