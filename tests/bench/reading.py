"""How long people wait who look at a large sweep: ``status``, ``load`` with its tables, ``report``, each as a program
of its own, over finished runs put on disk by the real writers.

    python -m tests.bench.reading --runs 1000 --out /tmp/reading
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from orchestrator.space.spec import SweepSpec
from orchestrator.store.files import Home
from tests.catalogue.fabricated import runs_of, write_sweep
from tests.drive.sweeps import spec

GOAL_S = 5.0
"""What each of them may take."""
LOAD = (
    "import orchestrator as o; s = o.load('logistic', home={home!r}); "
    "s.answer, s.runs, s.curves, s.transitions; print(len(s.runs))"
)


@dataclass(frozen=True)
class Wait:
    """What one program took: seconds on the clock, and of the processor, which a busy machine does not stretch."""

    what: str
    clock_s: float
    processor_s: float


def asked(runs: int) -> SweepSpec:
    """A sweep of so many runs: two mixes at 16 sizes, as many seeds as that takes."""
    sizes = [8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128]
    return spec(sizes=sizes, seeds=-(-runs // (2 * len(sizes))))


def measure(runs: int, directory: Path) -> list[Wait]:
    """Put a sweep on disk and look at it in every way."""
    question = asked(runs)
    write_sweep(Home(directory), question, runs=runs_of(question)[:runs])
    program, home = [sys.executable, "-m", "orchestrator"], ["--home", str(directory)]
    return [
        _wait("sweeps", [*program, "sweeps", *home]),
        _wait("status", [*program, "status", *home]),
        _wait("load, all tables", [sys.executable, "-c", LOAD.format(home=str(directory))]),
        _wait("report", [*program, "report", "logistic", *home, "--output", str(directory / "report.html")]),
        _wait("export", [*program, "export", "logistic", *home, "--output", str(directory / "tables")]),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print a table, write ``reading.json`` where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory:
        waits = measure(given.runs, Path(directory))
        page_bytes = (Path(directory) / "report.html").stat().st_size
    print(f"{given.runs} finished runs; the report has {page_bytes / 1e6:.1f} MB; goal {GOAL_S:g} s each")
    for wait in waits:
        print(f"{wait.what:18} {wait.clock_s:6.2f} s on the clock, {wait.processor_s:6.2f} s of the processor")
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
        record = {"runs": given.runs, "page_bytes": page_bytes, "waits": [asdict(wait) for wait in waits]}
        (given.out / "reading.json").write_text(json.dumps(record, indent=1))


def _wait(what: str, command: Sequence[str]) -> Wait:
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    clock_s, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Wait(what, clock_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


if __name__ == "__main__":
    main()
