"""Searchers and statistics on sweeps drawn from pools of real runs: coverage, and comparisons of what is the same.

    python -m tests.bench.drawn_sweeps --sweeps 30 --jobs 2            # do intervals hold the truth?
    python -m tests.bench.drawn_sweeps --same --sweeps 60 --jobs 2     # both mixes from one pool: true ratio 1

A pool (tests/data/README.md) holds every run of many sweeps of the laptop profile; a recipe is a pool of its own. Each
run of a drawn sweep, on two workers, ends as some run of the pool at its mix and size, and costs what runs of that size
cost. The truth is where the pool's own mean, made to rise, passes 80 % of its asymptote; no curve is
assumed. With ``--same`` both mixes are drawn from one mix of a pool, as it is and reshaped; every decision is wrong.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from orchestrator.search.base import Observation, Request
from orchestrator.search.results import points
from orchestrator.simulation import simulate
from orchestrator.space.evidence import searcher_of
from orchestrator.space.spaces import load_space
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.comparison import synergy
from orchestrator.transition.transition import transition
from orchestrator.transition.types import Doubt, Verdict
from tests.bench.machine import describe
from tests.bench.pool import Pool, recipes_of

SPACE = "add_vs_add_prod"
DATA = Path(__file__).parent.parent / "data"
METHODS = ("bisection", "bayes")
MIXES = ("add", "add+prod")
WORKERS = 2
FORMER, RECIPES = DATA / "add_vs_add_prod_laptop_runs.csv", DATA / "laptop_recipes_runs.csv"
RECORDED = DATA / "add_vs_add_prod_2000_steps.csv"
SEARCHED = {
    FORMER.name: ("search.max_cost=null", "search.precision=0.25", "search.worth=0.006"),
    RECORDED.name: ("search.max_cost=null",),
}
"""The laptop profile's search when a pool's sweeps were made, where it has changed since."""
FALLS_FROM = 18
RESHAPED = "start_0.2"


def _failing(seen: Observation, rng: np.random.Generator, share: float) -> Observation:
    if rng.random() >= share:
        return seen
    return replace(seen, accuracy=max(seen.floor + 0.03 * float(rng.normal()), 0.0))


def _lower(seen: Observation, share: float) -> Observation:
    return replace(seen, accuracy=min(seen.accuracy, seen.floor + share * (seen.accuracy - seen.floor)))


SHAPES: dict[str, Callable[[Observation, int, np.random.Generator], Observation]] = {
    "": lambda seen, size, rng: seen,
    "0.7 of the rise": lambda seen, size, rng: _lower(seen, 0.7),
    "0.85 of the rise": lambda seen, size, rng: _lower(seen, 0.85),
    "half fail from 18": lambda seen, size, rng: _failing(seen, rng, 0.5 * (size >= FALLS_FROM)),
    "0.3 fail anywhere": lambda seen, size, rng: _failing(seen, rng, 0.3),
}
"""Outcomes of runs of reshaped pools. Those but the first are drawn of the recipe :data:`RESHAPED`."""


@dataclass(frozen=True)
class Cell:
    """A pool. If ``mix`` is given, both mixes of a sweep are drawn from that one, as it is or reshaped."""

    path: Path
    recipe: str
    mix: str = ""
    shape: str = ""

    @property
    def name(self) -> str:
        return self.recipe or self.path.stem


@dataclass(frozen=True)
class Drawn:
    """One drawn sweep: runs, their seconds (``cost``), and mix by mix the verdict and the interval. ``doubt`` says why
    the two mixes were not told apart, empty if they were."""

    runs: int
    cost: float
    verdicts: dict[str, Verdict]
    intervals: dict[str, tuple[float | None, float | None]]
    doubt: Doubt

    def holds(self, mix: str, size: float) -> bool:
        """True if a mix's interval, of which something is known, holds the size."""
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


def draw(cell: Cell, method: str, overrides: tuple[str, ...], key: int) -> Drawn:
    """One sweep drawn from a cell."""
    spec = asked(cell.path, cell.recipe, method, overrides)
    searcher, world = searcher_of(spec), pool_of(cell.path, cell.recipe).world(key, cell.mix)
    problem = searcher.problem

    def shaped(request: Request) -> Observation:
        noise = np.random.default_rng([key, problem.mixes.index(request.mix), request.size, request.seed, 1])
        return SHAPES[cell.shape](world(request), request.size, noise)

    trace = simulate(searcher, shaped, WORKERS)
    found = {mix: transition(points(trace.results, mix), problem.sizes) for mix in problem.mixes}
    family, (baseline, mix) = spec.make_family(), problem.mixes
    doubt = synergy(found[baseline], found[mix], lambda size: family.parameters(size).total).doubt
    intervals = {mix: (each.relative.low, each.relative.high) for mix, each in found.items()}
    return Drawn(trace.runs, trace.cost, {mix: each.verdict for mix, each in found.items()}, intervals, doubt)


def cells(*, same: bool) -> list[Cell]:
    """Every pool; with ``same`` every mix of every pool, and the reshaped ones."""
    pools = [*(Cell(RECIPES, recipe) for recipe in recipes_of(RECIPES)), Cell(FORMER, ""), Cell(RECORDED, "")]
    if not same:
        return pools
    plain = [replace(pool, mix=mix) for pool in pools for mix in MIXES]
    return plain + [Cell(RECIPES, RESHAPED, mix, shape) for mix in MIXES for shape in SHAPES if shape]


SAME_HEAD = "| pool | mix | reshaped | | decided | undecided for | verdicts | runs | cost, s |\n" + "|---" * 9 + "|"
HEAD = "| pool | mix | crosses at | | 90 % interval holds that | verdicts | runs |\n" + "|---" * 7 + "|"


def same_row(cell: Cell, method: str, drawn: Sequence[Drawn]) -> str:
    """The share of sweeps that tell one mix from itself, and why others do not, as Markdown."""
    doubts = Counter(each.doubt.name.lower().replace("_", " ") for each in drawn if each.doubt)
    said = (cell.name, cell.mix, cell.shape, method, _share([not each.doubt for each in drawn]), _shares(doubts, drawn))
    verdicts = Counter(verdict.value for each in drawn for verdict in each.verdicts.values())
    cost = f"{np.mean([each.cost for each in drawn]):.0f}"
    return f"| {' | '.join((*said, _shares(verdicts, [*drawn, *drawn]), _mean_runs(drawn), cost))} |"


def rows(cell: Cell, method: str, drawn: Sequence[Drawn]) -> list[str]:
    """The share of intervals that hold the pool's own crossing, mix by mix, as Markdown."""
    found = []
    for mix in MIXES:
        truth = pool_of(cell.path, cell.recipe).crossing(mix)
        held = "-" if truth is None else _share([each.holds(mix, truth) for each in drawn])
        verdicts = _shares(Counter(each.verdicts[mix].value for each in drawn), drawn)
        said = (cell.name, mix, "-" if truth is None else f"{truth:.2f}", method, held, verdicts, _mean_runs(drawn))
        found.append(f"| {' | '.join(said)} |")
    return found


def _mean_runs(drawn: Sequence[Drawn]) -> str:
    return f"{np.mean([each.runs for each in drawn]):.1f}"


def _shares(counted: Counter[str], of: Sequence[Drawn]) -> str:
    return ", ".join(f"{name} {count / len(of):.2f}" for name, count in counted.most_common())


def _share(of: Sequence[bool]) -> str:
    share = float(np.mean(of))
    return f"{share:.2f} +- {math.sqrt(share * (1 - share) / len(of)):.2f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the sweeps and print what they found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweeps", type=int, default=200, help="sweeps a method and pool (default 200)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--set", action="append", default=[], dest="overrides", help="a setting of the search space")
    parser.add_argument("--same", action="store_true", help="draw both mixes from one, of every pool")
    parser.add_argument("--first", type=int, default=0, help="seed of the first sweep (default 0)")
    given = parser.parse_args(arguments)
    print(", ".join(f"{key} {value}" for key, value in describe("cpu").items()))
    print(SAME_HEAD if given.same else HEAD)
    keys = range(given.first, given.first + given.sweeps)
    with ProcessPoolExecutor(given.jobs) as workers:
        for cell in cells(same=given.same):
            for method in METHODS:
                drawn = list(workers.map(partial(draw, cell, method, tuple(given.overrides)), keys))
                said = [same_row(cell, method, drawn)] if given.same else rows(cell, method, drawn)
                print("\n".join(said), flush=True)


if __name__ == "__main__":
    main()
