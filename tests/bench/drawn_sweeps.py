"""How often a searcher's intervals hold what many real runs say: sweeps drawn from a pool of them.

    python -m tests.bench.drawn_sweeps --sweeps 200 --jobs 2

The pool (tests/data/README.md) holds every run of many sweeps of the laptop profile. A drawn sweep is a searcher's, set
as the profile sets it, on two workers; each run it asks for ends as some run of the pool at its mix and size, and costs
what runs of that size cost. The truth is where the pool's own mean, made to rise, passes 80 % of its asymptote; no
curve is assumed in any of this, unlike in the truths of search.py.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np

from orchestrator.search.evidence import points
from orchestrator.simulation.simulator import Cluster, simulate
from orchestrator.space.searching import searcher_of
from orchestrator.space.spaces import load_space
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.transition import transition
from orchestrator.transition.types import LEVEL, Verdict
from tests.bench.laptop_sweeps import SPACE
from tests.bench.machine import describe, write_json
from tests.bench.pool import Pool

POOL = Path(__file__).parent.parent / "data" / "add_vs_add_prod_laptop_runs.csv"
METHODS = ("bisection", "bayes")
WORKERS = 2
SEED = 20250523
SEARCHED = ("search.max_cost=null", "search.precision=0.25", "search.worth=0.006")
"""How the laptop profile searched when the pool's sweeps were made."""


@dataclass(frozen=True)
class Drawn:
    """One drawn sweep: seconds on :data:`WORKERS` workers, runs, and mix by mix the verdict and the interval."""

    seconds: float
    runs: int
    verdicts: dict[str, Verdict]
    intervals: dict[str, tuple[float | None, float | None]]

    def width(self, mix: str) -> float:
        """The width of a mix's interval in ln size, infinite where a side is open."""
        low, high = self.intervals[mix]
        return math.log(high / low) if low and high else math.inf

    def holds(self, mix: str, size: float) -> bool:
        """Whether a mix's interval, of which something is known, holds the size."""
        low, high = self.intervals[mix]
        return (low is not None or high is not None) and (low or 0) <= size <= (high or math.inf)


@cache
def asked(path: Path, method: str, overrides: tuple[str, ...]) -> SweepSpec:
    """The laptop profile's sweep over the sizes of a pool, searched by a method."""
    sizes = sorted({size for _, size in pool_of(path).runs})
    own = SEARCHED if method == "bayes" else ()
    return load_space(SPACE, "laptop", [f"search.method={method}", f"sizes={sizes}", *own, *overrides])


@cache
def pool_of(path: Path) -> Pool:
    """The pool in a file, read once a process."""
    return Pool.read(path)


def draw(path: Path, method: str, overrides: tuple[str, ...], key: int) -> Drawn:
    """One sweep from the pool in ``path``."""
    searcher = searcher_of(asked(path, method, overrides))
    problem, cluster = searcher.problem, Cluster(WORKERS, even=False)
    trace = simulate(searcher, pool_of(path).world(key), cluster, np.random.default_rng([SEED, key]))
    found = {mix: transition(points(problem, trace.results, mix), problem.sizes) for mix in problem.mixes}
    intervals = {mix: (each.relative.low, each.relative.high) for mix, each in found.items()}
    return Drawn(trace.makespan, trace.runs, {mix: each.verdict for mix, each in found.items()}, intervals)


def table(drawn: Mapping[str, Sequence[Drawn]], truths: Mapping[str, float | None]) -> str:
    """A line a method and mix, as Markdown; widths and times are medians with quartiles."""
    lines = ["| | mix | verdicts | 90 % interval holds the truth | width | runs | time, s |", "|---" * 7 + "|"]
    for method, sweeps in drawn.items():
        for mix, truth in truths.items():
            verdicts = Counter(each.verdicts[mix].value for each in sweeps)
            cells = (
                ", ".join(f"{verdict} {count / len(sweeps):.2f}" for verdict, count in verdicts.most_common()),
                "-" if truth is None else _share([each.holds(mix, truth) for each in sweeps]),
                "-" if truth is None else _quartiles([each.width(mix) for each in sweeps], ".2f"),
                f"{np.mean([each.runs for each in sweeps]):.1f}",
                _quartiles([each.seconds for each in sweeps], ".0f"),
            )
            lines.append(f"| {method} | {mix} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def against(first: Sequence[Drawn], second: Sequence[Drawn], mixes: Sequence[str]) -> str:
    """In which share of the sweeps the second way is sooner, and narrower on each mix."""
    pairs = list(zip(first, second, strict=True))
    narrower = [f"{mix} in {_share([b.width(mix) < a.width(mix) for a, b in pairs])}" for mix in mixes]
    return f"sooner in {_share([b.seconds < a.seconds for a, b in pairs])}; narrower: {', '.join(narrower)}"


def _share(of: Sequence[bool]) -> str:
    share = float(np.mean(of))
    return f"{share:.2f} +- {math.sqrt(share * (1 - share) / len(of)):.2f}"


def _quartiles(values: Sequence[float], form: str) -> str:
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75), method="inverted_cdf")
    return f"{middle:{form}} ({low:{form}}-{high:{form}})"


def told(pool: Pool, mix: str) -> str:
    """Where the pool's runs of a mix cross, and how sure that is."""
    runs, truth = sum(len(pool.runs[mix, size]) for size in pool.sizes(mix)), pool.crossing(mix)
    if truth is None:
        return f"{mix}: {runs} runs, no transition among the sizes"
    low, high = pool.interval(mix, np.random.default_rng(SEED))
    return f"{mix}: {runs} runs, {LEVEL:.0%} of their asymptote at {truth:.2f}, drawn again {low:.2f} to {high:.2f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the sweeps, print what they found and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweeps", type=int, default=200, help="sweeps a method (default 200)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--pool", type=Path, default=POOL, help="a table of runs")
    parser.add_argument("--set", action="append", default=[], dest="overrides", help="a setting of the search space")
    parser.add_argument("--truth", type=float, help="hold intervals against this size, not where the pool crosses")
    parser.add_argument("--json", type=Path, default=Path("results/bench/drawn_sweeps.json"))
    given = parser.parse_args(arguments)
    pool, machine = pool_of(given.pool), describe("cpu")
    crossings = {mix: pool.crossing(mix) for mix in sorted({mix for mix, _ in pool.runs})}
    truths = {mix: crossing and (given.truth or crossing) for mix, crossing in crossings.items()}
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    print("\n".join(told(pool, mix) for mix in truths))
    drawn: dict[str, list[Drawn]] = {}
    with ProcessPoolExecutor(given.jobs) as workers:
        for method in METHODS:
            sweep = partial(draw, given.pool, method, tuple(given.overrides))
            drawn[method] = list(workers.map(sweep, range(given.sweeps)))
    print(table(drawn, truths))
    found = [mix for mix, truth in truths.items() if truth is not None]
    print(f"{METHODS[1]} against {METHODS[0]}: {against(drawn[METHODS[0]], drawn[METHODS[1]], found)}")
    sweeps = {method: [asdict(each) for each in its] for method, its in drawn.items()}
    asked_for = {"pool": given.pool.name, "overrides": given.overrides, "truths": truths}
    write_json(given.json, {"machine": machine, **asked_for, "sweeps": sweeps})


if __name__ == "__main__":
    main()
