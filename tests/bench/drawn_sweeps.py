"""How often a searcher's intervals hold what many real runs say: sweeps drawn from a pool of them.

    python -m tests.bench.drawn_sweeps --sweeps 200 --jobs 2

A pool (tests/data/README.md) holds every run of many sweeps of the laptop profile, or of several recipes for it; a
recipe is a pool of its own. A drawn sweep is a searcher's, set as the profile sets it, on two workers; each run it asks
for ends as some run of the pool at its mix and size, and costs what runs of that size cost. The truth is where the
pool's own mean, made to rise, passes 80 % of its asymptote; no curve is assumed in any of this, unlike in the truths of
search.py.
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
from tests.bench.pool import Pool, recipes_of

DATA = Path(__file__).parent.parent / "data"
METHODS = ("bisection", "bayes")
WORKERS = 2
SEED = 20250523
FORMER, RECIPES = DATA / "add_vs_add_prod_laptop_runs.csv", DATA / "laptop_recipes_runs.csv"
SEARCHED = {FORMER.name: ("search.max_cost=null", "search.precision=0.25", "search.worth=0.006")}
"""How the laptop profile searched when a pool's sweeps were made, where it has changed since."""


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
def asked(path: Path, recipe: str, method: str, overrides: tuple[str, ...]) -> SweepSpec:
    """The laptop profile's sweep over the sizes of a pool, searched by a method."""
    sizes = sorted({size for _, size in pool_of(path, recipe).runs})
    own = SEARCHED.get(path.name, ()) if method == "bayes" else ()
    return load_space(SPACE, "laptop", [f"search.method={method}", f"sizes={sizes}", *own, *overrides])


@cache
def pool_of(path: Path, recipe: str) -> Pool:
    """A recipe's pool in a file, read once a process."""
    return Pool.read(path, recipe)


def draw(path: Path, recipe: str, method: str, overrides: tuple[str, ...], key: int) -> Drawn:
    """One sweep from a recipe's pool in ``path``."""
    searcher = searcher_of(asked(path, recipe, method, overrides))
    problem, cluster = searcher.problem, Cluster(WORKERS, even=False)
    trace = simulate(searcher, pool_of(path, recipe).world(key), cluster, np.random.default_rng([SEED, key]))
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


def held(drawn: Sequence[Mapping[str, Sequence[Drawn]]], truths: Sequence[Mapping[str, float | None]]) -> str:
    """Which share of all intervals hold their truth, over recipes and mixes, method by method."""
    said = []
    for method in METHODS:
        of = [
            sweep.holds(mix, truth)
            for sweeps, true in zip(drawn, truths, strict=True)
            for mix, truth in true.items()
            if truth is not None
            for sweep in sweeps[method]
        ]
        said.append(f"{method} {_share(of)}" if of else f"{method} none")
    return f"90 % intervals that hold the truth, over all recipes and mixes: {', '.join(said)}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the sweeps, print what they found and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweeps", type=int, default=200, help="sweeps a method and recipe (default 200)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--pool", type=Path, default=RECIPES, help="a table of runs")
    parser.add_argument("--set", action="append", default=[], dest="overrides", help="a setting of the search space")
    parser.add_argument("--truth", type=float, help="hold intervals against this size, not where the pool crosses")
    parser.add_argument("--json", type=Path, default=Path("results/bench/drawn_sweeps.json"))
    given = parser.parse_args(arguments)
    machine = describe("cpu")
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    kept: list[dict[str, list[Drawn]]] = []
    truths: list[dict[str, float | None]] = []
    recipes = recipes_of(given.pool)
    with ProcessPoolExecutor(given.jobs) as workers:
        for recipe in recipes:
            pool = pool_of(given.pool, recipe)
            crossings = {mix: pool.crossing(mix) for mix in sorted({mix for mix, _ in pool.runs})}
            truths.append({mix: crossing and (given.truth or crossing) for mix, crossing in crossings.items()})
            print("\n".join(([f"recipe {recipe}"] if recipe else []) + [told(pool, mix) for mix in crossings]))
            drawn: dict[str, list[Drawn]] = {}
            for method in METHODS:
                sweep = partial(draw, given.pool, recipe, method, tuple(given.overrides))
                drawn[method] = list(workers.map(sweep, range(given.sweeps)))
            kept.append(drawn)
            print(table(drawn, truths[-1]))
            found = [mix for mix, truth in truths[-1].items() if truth is not None]
            print(f"{METHODS[1]} against {METHODS[0]}: {against(drawn[METHODS[0]], drawn[METHODS[1]], found)}")
    print(held(kept, truths))
    pools = [
        {
            "recipe": recipe,
            "truths": true,
            "sweeps": {method: [asdict(each) for each in its] for method, its in of.items()},
        }
        for recipe, true, of in zip(recipes, truths, kept, strict=True)
    ]
    write_json(
        given.json, {"machine": machine, "pool": given.pool.name, "overrides": given.overrides, "recipes": pools}
    )


if __name__ == "__main__":
    main()
