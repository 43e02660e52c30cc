"""How long people wait who look at a home: each look a program of its own, and what MLflow's page asks."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from mlflow import MlflowClient

from orchestrator.store.files import Home
from orchestrator.tracking import store
from tests.tracking.servers import free_port

WITHIN_S = 900.0
"""The longest that anybody waits here."""


@dataclass(frozen=True)
class Wait:
    """What one look took: seconds on the clock, and of its processor time, and the most memory of one of its
    processes; zeros where that was another program's."""

    what: str
    clock_s: float
    processor_s: float = 0.0
    memory_mb: float = 0.0


def looked_at(home: Path) -> list[Wait]:
    """Every look at the newest sweep of a home."""
    newest = Home(home.resolve()).sweep_ids()[0]
    beside = ["--home", str(home)]
    waits = [
        _program("sweeps", ["sweeps", *beside]),
        _program("status", ["status", newest, *beside]),
        _program("explain", ["explain", newest, *beside]),
        _program("report", ["report", newest, *beside, "--output", str(home / "report.html")]),
        _program("sync, nothing missing", ["sync", newest, *beside]),
    ]
    return [*waits, *_page(home), *_questions(home)]


def _program(what: str, words: Sequence[str]) -> Wait:
    begun = time.perf_counter()
    with subprocess.Popen([sys.executable, "-m", "orchestrator", *words], stdout=subprocess.DEVNULL) as started:
        _, status, used = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
    if started.returncode:
        raise RuntimeError(f"{what} ended with {started.returncode}")
    return _said(Wait(what, time.perf_counter() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3))


def _page(home: Path) -> list[Wait]:
    """The page of all sweeps: until it is there, and asked again; with a server's store there is none but MLflow's."""
    if store.choose(home).artifacts is None:
        return []
    port = free_port()
    words = ["ui", "--home", str(home), "--port", str(port), "--mlflow-port", str(free_port())]
    begun = time.perf_counter()
    shown = subprocess.Popen([sys.executable, "-m", "orchestrator", *words], stdout=subprocess.DEVNULL)
    try:
        while not _asked(f"http://127.0.0.1:{port}/"):
            if shown.poll() is not None or time.perf_counter() - begun > WITHIN_S:
                raise RuntimeError("the page does not come")
            time.sleep(0.1)
        first = _said(Wait("ui, until its page is there", time.perf_counter() - begun))
        begun = time.perf_counter()
        _asked(f"http://127.0.0.1:{port}/")
        return [first, _said(Wait("ui, its page again", time.perf_counter() - begun))]
    finally:
        if shown.poll() is None:  # MLflow's server has a process group of its own.
            for each in (*psutil.Process(shown.pid).children(recursive=True), shown):
                each.kill()
        shown.wait()


def _asked(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=WITHIN_S) as answer:
            return bool(answer.read())
    except OSError:
        return False


def _questions(home: Path) -> list[Wait]:
    """What MLflow's page asks its store for: a page of runs in the order of a column, and one run's curve."""
    client = MlflowClient(store.choose(home).uri)
    experiments = [each.experiment_id for each in client.search_experiments()]

    def runs(order: str) -> object:
        return client.search_runs(experiments, "tags.kind = 'run'", max_results=100, order_by=[order])

    first = client.search_runs(experiments, "tags.kind = 'run'", max_results=1)[0]
    metric = sorted(first.data.metrics)[0]
    return [
        _timed("MLflow: 100 newest runs", lambda: runs("attributes.start_time DESC")),
        _timed(f"MLflow: 100 runs by {metric}", lambda: runs(f"metrics.`{metric}` DESC")),
        _timed("MLflow: the curve of a run", lambda: client.get_metric_history(first.info.run_id, metric)),
    ]


def _timed(what: str, ask: Callable[[], object]) -> Wait:
    begun = time.perf_counter()
    ask()
    return _said(Wait(what, time.perf_counter() - begun))


def _said(wait: Wait) -> Wait:
    print(f"{wait.what:30} {wait.clock_s:7.2f} s", flush=True)
    return wait
