"""Processor seconds of the commands that look at results, in a home with one large sweep and in one with many sweeps.

    python -m tests.bench.commands                          # a quarter of an hour, most of it to write the homes
    python -m tests.bench.commands --homes DIR --repeats 1  # keeps the homes in DIR for the next time

``big`` has one sweep of 3,000 runs, ``many`` has 300 sweeps of 36 runs. Each command runs as a process of its own, as
a user starts it; of the repeats, the table has the least. ``ui`` is measured from its start until its first page,
without MLflow's server, which is another process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

import psutil

from orchestrator.home.directories import Home
from orchestrator.home.trusted_code import trust
from orchestrator.space.spec import SweepSpec
from tests.bench.machine import describe
from tests.catalog.fabricated import write_sweep
from tests.site.browsing import BROWSER
from tests.sweep.sweeps import spec

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = (sys.executable, "-m", "orchestrator")
BIG_SIZES, BIG_SEEDS = (8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96), 100
MANY, MANY_SIZES, MANY_SEEDS = 300, (8, 12, 16, 24, 32, 48), 3
PATIENCE_S = 1800.0
"""Seconds to wait for a page."""
FIRST = "sweeps, the first time"
"""The command that reads all sweeps. Later ones find their summaries in the cache."""
OWN_KEYS = (
    "import sys; from pathlib import Path; from orchestrator.home.directories import Home; "
    "from orchestrator.home.run_store import RunStore; RunStore(Home(Path(sys.argv[1])), sys.argv[2]).own_keys()"
)
"""Program that searches the runs that only one sweep uses, as ``rm`` does before it deletes them."""

Row = tuple[str, Callable[[Path, str], float]]
"""Name of a command, and the function that runs it on a home and its newest sweep and returns processor seconds."""


def write_homes(directory: Path, sweeps: int = MANY, seeds: int = BIG_SEEDS) -> dict[str, Path]:
    """Return the two homes by name. A home that is already there is used as it is."""
    homes = {name: directory / name for name in ("big", "many")}
    one = spec(sizes=list(BIG_SIZES), seeds=seeds)
    several = [spec(sizes=list(MANY_SIZES), seeds=MANY_SEEDS, seed=10 * place) for place in range(sweeps)]
    _fill(homes["big"], [one])
    _fill(homes["many"], several)
    return homes


def _fill(path: Path, specs: Sequence[SweepSpec]) -> None:
    if path.exists():
        return
    for each in specs:
        write_sweep(Home(path), each)
    (path / "mlflow.db").touch()  # A record without runs, so that `ui` starts.


def seconds_of(*command: str, answer: str = "") -> float:
    """Return the processor seconds of a command with its children. ``answer`` is what the user types."""
    before = os.times()
    ended = subprocess.run(command, input=answer, capture_output=True, text=True, cwd=ROOT)
    after = os.times()
    assert ended.returncode == (1 if answer else 0), f"{' '.join(command)}\n{ended.stdout}\n{ended.stderr}"
    return after.children_user + after.children_system - before.children_user - before.children_system


def first_page(home: Path, _: str) -> float:
    """Return the processor seconds of ``ui`` until it has sent its first page."""
    command = [*PROGRAM, "ui", "--home", str(home), "--port", "5917"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as server:
        assert server.stdout is not None
        try:
            line = next(line for line in server.stdout if "Serving" in line)
            with BROWSER.open(line.split()[-1], timeout=PATIENCE_S) as page:
                assert b"<html" in page.read()
            times = psutil.Process(server.pid).cpu_times()
        finally:
            server.terminate()
    return float(times.user + times.system)


def _of(*words: str) -> Callable[[Path, str], float]:
    """Return a command with these words on a home; ``ID`` stands for its newest sweep."""
    return lambda home, newest: seconds_of(
        *PROGRAM, *(newest if word == "ID" else word for word in words), "--home", str(home)
    )


def rows() -> list[Row]:
    """Return what is measured."""
    return [
        ("run --help", lambda home, newest: seconds_of(*PROGRAM, "run", "--help")),
        (FIRST, _of("sweeps")),
        ("sweeps", _of("sweeps")),
        ("sweeps --json", _of("sweeps", "--json")),
        ("status", _of("status")),
        ("status --runs", _of("status", "--runs")),
        ("explain ID", _of("explain", "ID")),
        ("report ID", _of("report", "ID")),
        ("ui: first page", first_page),
        (
            "rm ID: until it asks",
            lambda home, newest: seconds_of(*PROGRAM, "rm", newest, "--home", str(home), answer="n\n"),
        ),
        (
            "rm ID: its own runs",
            lambda home, newest: seconds_of(sys.executable, "-c", OWN_KEYS, str(home), newest),
        ),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--homes", type=Path, help="directory of the homes (default: a temporary one)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sweeps", type=int, default=MANY, help=f"sweeps of the home `many` (default {MANY})")
    parser.add_argument("--seeds", type=int, default=BIG_SEEDS, help=f"seeds of the home `big` (default {BIG_SEEDS})")
    parser.add_argument("--only", default="", help="only commands that begin with this")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        # Not the user's own: the sweeps' family is in this folder, and the first listing starts without summaries.
        os.environ["XDG_CONFIG_HOME"] = os.environ["XDG_CACHE_HOME"] = scratch
        trust(ROOT)
        homes = write_homes(options.homes or Path(scratch), options.sweeps, options.seeds)
        newest = {name: Home(home).sweep_ids()[0] for name, home in homes.items()}
        described = describe("cpu") | {name: version(name) for name in ("scipy", "pydantic", "mlflow")}
        print(", ".join(f"{key} {value}" for key, value in described.items()))
        many = f"{options.sweeps} sweeps of {2 * MANY_SEEDS * len(MANY_SIZES)} runs"
        print(f"| processor seconds | 1 sweep of {2 * len(BIG_SIZES) * options.seeds:,} runs | {many} |\n|---|---|---|")
        for name, measure in rows():
            if name.startswith(options.only):
                repeats = 1 if name == FIRST else options.repeats
                least = [min(measure(path, newest[home]) for _ in range(repeats)) for home, path in homes.items()]
                print(f"| `{name}` | {least[0]:.2f} | {least[1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
