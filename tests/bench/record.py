"""What the record costs: milliseconds a run in an MLflow store, and how fast the page of a large experiment answers.

    python -m tests.bench.record --runs 1000

Prints what recording each run took (SQLite, this thread, nothing else in the queue) and, from MLflow's real server over
the same store, the requests that the experiment's page makes first; where Chromium and the browser extra are installed
also what a person waits for who opens that page, first with an empty cache and then again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mlflow import MlflowClient

from orchestrator.store.records import RunRecord, Sweep
from orchestrator.tracking.mlflow_tracker import MlflowTracker
from orchestrator.tracking.store import Store, choose
from tests.bench.machine import describe, write_json
from tests.tracking.samples import Finished, finish
from tests.tracking.servers import free_port, serving

RUNS_A_SWEEP = 100
"""As many as a sweep of three mixes with a few seeds a size leaves."""
ROWS_OF_THE_PAGE = 100
"""Runs the page asks for at first, as MLflow 3.17's does."""


@dataclass(frozen=True)
class Cost:
    """Milliseconds that recording one run took: the median, the mean, and what one in twenty exceeds."""

    median: float
    mean: float
    p95: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Cost:
        ms = sorted(1000 * each for each in seconds)
        return cls(statistics.median(ms), statistics.fmean(ms), ms[int(0.95 * (len(ms) - 1))])


def fill(store: Store, home: Path, runs: int) -> list[float]:
    """Record ``runs`` runs in sweeps of :data:`RUNS_A_SWEEP`; the seconds each run took."""
    model = finish(home / "model")
    tracker, seconds = MlflowTracker(store), []
    for number in range(-(-runs // RUNS_A_SWEEP)):
        sweep = replace(model.sweep, id=f"add_vs_add_prod-20260102-0304{number:02d}-ab12")
        tracker.begin(sweep)
        for place in range(min(RUNS_A_SWEEP, runs - number * RUNS_A_SWEEP)):
            run = _another(model, sweep, place)
            begun = time.perf_counter()
            tracker.run_ended(sweep, run)
            seconds.append(time.perf_counter() - begun)
    return seconds


def _another(model: Finished, sweep: Sweep, place: int) -> RunRecord:
    """A finished run that no other of its sweep equals."""
    run = model.runs[place % 5]
    config = replace(run.config, seed=place)
    return replace(run, key=sweep.spec.make_family().key(config), config=config)


def page_seconds(store: Store) -> dict[str, float]:
    """How long each request takes that the page of the only experiment makes at first."""

    def ask(path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{store.uri}/ajax-api/2.0/mlflow/{path}", data)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    experiment = ask("experiments/get-by-name?experiment_name=add_vs_add_prod")["experiment"]["experiment_id"]
    search = {
        "experiment_ids": [experiment],
        "max_results": ROWS_OF_THE_PAGE,
        "order_by": ["attributes.start_time DESC"],
    }
    seconds = {}
    for what, body in (
        ("newest runs", search),
        ("transitions", search | {"filter": "tags.kind = 'transition'"}),
        (
            "runs by accuracy",
            search | {"filter": "tags.kind = 'run'", "order_by": ["metrics.`test_accuracy/add` DESC"]},
        ),
    ):
        begun = time.perf_counter()
        ask("runs/search", body)
        seconds[what] = time.perf_counter() - begun
    return seconds


def browser_seconds(store: Store, home: Path) -> dict[str, float]:
    """From the opening of the experiment's page until its table stands, in a fresh browser and twice more; nothing
    where there is no browser."""
    try:
        from tests.browser.chromium import BROWSER, DRIVER, browsing
    except ModuleNotFoundError:
        return {}
    if BROWSER is None or DRIVER is None:
        return {}
    experiment = MlflowClient(store.uri).get_experiment_by_name("add_vs_add_prod")
    assert experiment is not None
    address = f"{store.uri}/#/experiments/{experiment.experiment_id}/runs?workflowType=machine_learning"
    seconds = {}
    with browsing(home / "profile") as page:
        for visit in ("first visit", "second visit", "third visit"):
            begun = time.perf_counter()
            page.open(address)
            page.wait("matching runs", "add_vs_add_prod-")
            seconds[visit] = time.perf_counter() - begun
    return seconds


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        cost = Cost.of(fill(choose(home, {}), home, given.runs))
        print(f"recording a run: median {cost.median:.0f} ms, mean {cost.mean:.0f} ms, p95 {cost.p95:.0f} ms")
        with serving(home, free_port()) as store:
            pages = page_seconds(store)
            visits = browser_seconds(store, home)
        for what, took in pages.items():
            print(f"the page's search, {what}: {took:.2f} s with {given.runs} runs")
        for what, took in visits.items():
            print(f"the page in Chromium, {what}: {took:.2f} s with {given.runs} runs; goal 5 s")
        if not visits:
            print("the page in Chromium: not measured (no chromium and chromedriver, or not the browser extra)")
    if given.json:
        found = {"runs": given.runs, "ms": cost.__dict__, "page_s": pages, "browser_s": visits}
        write_json(given.json, {"machine": describe("cpu"), **found})


if __name__ == "__main__":
    main()
