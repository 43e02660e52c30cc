"""Whole sweeps of the laptop profile, in turns: how long each way of searching takes, and what it finds.

    python -m tests.bench.laptop_sweeps                         # an hour on two cores; leave the machine alone
    git worktree add /tmp/before b0869ab
    python -m tests.bench.laptop_sweeps --before /tmp/before    # as long

A turn is one sweep of each kind, from the same first seed: ``bisection`` and ``bayes`` by this checkout, or, with
``--before``, like for like, ``before`` by another one with today's recipe and sizes and ``after`` by this one, which
searches as that one does. Each way keeps its home from turn to turn, as a user does: from the second sweep on it knows
the machine.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import orchestrator
from tests.bench.laptop import ROOT, environment, recipe
from tests.bench.machine import describe, write_json

SPACE = "add_vs_add_prod"
AS_BEFORE = ("search.method=bisection", "seeds=3")
"""How b0869ab searches."""


@dataclass(frozen=True)
class Way:
    """A way of running the sweep: by which checkout, with which overrides."""

    name: str
    tree: Path
    overrides: tuple[str, ...]


@dataclass(frozen=True)
class Timed:
    """One sweep: seconds from typing the command to its end, the runs it made and, mix by mix, what it found and how
    wide that interval is in ln size where both its sides are known (nothing of another checkout, whose files may be
    read by it alone)."""

    way: str
    seed: int
    seconds: float
    runs: int | None
    found: dict[str, str]
    widths: dict[str, float]


def ways(before: Path | None) -> list[Way]:
    """What a turn consists of."""
    if before is not None:
        return [Way("before", before, recipe()), Way("after", ROOT, AS_BEFORE)]
    return [Way(method, ROOT, (f"search.method={method}",)) for method in ("bisection", "bayes")]


def sweep(way: Way, seed: int, home: Path) -> Timed:
    """Run one sweep and time it. Raises ``CalledProcessError`` for one that fails."""
    overrides = [word for each in (*way.overrides, f"seed={seed}") for word in ("--set", each)]
    words = [sys.executable, "-m", "orchestrator", "run", SPACE, "--profile", "laptop", "--home", str(home), *overrides]
    begun = time.monotonic()
    subprocess.run(words, cwd=way.tree, env=environment(way.tree), stdout=subprocess.DEVNULL, check=True)
    seconds = time.monotonic() - begun
    if way.tree != ROOT:
        return Timed(way.name, seed, seconds, None, {}, {})
    results = orchestrator.load(SPACE, home=home)
    targets = results.transitions[results.transitions["is_target"]]
    found = dict(zip(targets["mix"], targets["words"], strict=True))
    widths = {each.mix: math.log(each.high / each.low) for each in targets.dropna(subset=["low", "high"]).itertuples()}
    return Timed(way.name, seed, seconds, len(results.runs), found, widths)


def table(sweeps: Sequence[Timed]) -> str:
    """Every sweep, turn by turn, and each way's medians, as Markdown."""
    mixes = list(dict.fromkeys(mix for each in sweeps for mix in each.found))
    lines = ["| | first seed | " + " | ".join(mixes) + " | widths | runs | time, s |", "|---" * (5 + len(mixes)) + "|"]
    for each in sweeps:
        found = [each.found.get(mix, "") for mix in mixes]
        runs = "" if each.runs is None else str(each.runs)
        widths = _widths(each.widths, mixes)
        lines.append("| " + " | ".join([each.way, str(each.seed), *found, widths, runs, f"{each.seconds:.0f}"]) + " |")
    for way in dict.fromkeys(each.way for each in sweeps):
        its = [each for each in sweeps if each.way == way]
        median = statistics.median(each.seconds for each in its)
        closed = {mix: [each.widths[mix] for each in its if mix in each.widths] for mix in mixes}
        widths = _widths({mix: statistics.median(seen) for mix, seen in closed.items() if len(seen) == len(its)}, mixes)
        lines.append("| " + " | ".join([way, "median", *("" for _ in mixes), widths, "", f"{median:.0f}"]) + " |")
    return "\n".join(lines)


def _widths(widths: Mapping[str, float], mixes: Sequence[str]) -> str:
    """The widths mix by mix, nothing at all where none is known."""
    return ", ".join(f"{widths[mix]:.2f}" if mix in widths else "-" for mix in mixes) if widths else ""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table and write the JSON after every sweep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="a checkout of b0869ab, to compare with")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="the first seed of each turn")
    parser.add_argument("--homes", type=Path, help="a folder that keeps the sweeps (otherwise they are dropped)")
    parser.add_argument("--json", type=Path, default=Path("results/bench/laptop_sweeps.json"))
    given = parser.parse_args(arguments)
    machine = describe("cpu")
    sweeps: list[Timed] = []
    with tempfile.TemporaryDirectory() as dropped:
        homes = given.homes.resolve() if given.homes else Path(dropped)
        for seed in given.seeds:
            for way in ways(given.before and given.before.resolve()):
                sweeps.append(sweep(way, seed, homes / way.name))
                print(json.dumps(asdict(sweeps[-1])), file=sys.stderr, flush=True)
                write_json(given.json, {"machine": machine, "sweeps": [asdict(each) for each in sweeps]})
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    print(table(sweeps))


if __name__ == "__main__":
    main()
