"""Searchers and statistics on sweeps drawn from pools of real runs.

    python -m tests.bench.drawn_sweeps --sweeps 30                     # do intervals contain the truth?
    python -m tests.bench.drawn_sweeps --same --sweeps 200           # both mixes from one pool: decisions are wrong
    python -m tests.bench.drawn_sweeps --same --slots 8 --early 0.2    # the same, many runs at once, learners end early
    python -m tests.bench.drawn_sweeps --shifted 1.5 2 3               # the mix needs so many times smaller models

A pool (tests/data/README.md) contains every run of many sweeps of the laptop profile; a recipe is a pool of its own.
Each run of a drawn sweep ends as some run of the pool at its mix and size, and costs what runs of that size cost. For
intervals the truth is where the pool's own mean, made to rise, passes 80 % of its asymptote. No curve is assumed.
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
from orchestrator.search.results import learned_runs, points
from orchestrator.simulation import simulate
from orchestrator.space.evidence import searcher_of
from orchestrator.space.spaces import load_space
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.evidence import ERROR, LEARNED, Direction, compare, counted
from orchestrator.transition.transition import transition
from orchestrator.transition.types import Verdict
from tests.bench.machine import describe
from tests.bench.pool import Pool, recipes_of

SPACE = "add_vs_add_prod"
DATA = Path(__file__).parent.parent / "data"
METHODS = ("pairs", "grid")
MIXES = ("add", "add+prod")
FORMER, RECIPES = DATA / "add_vs_add_prod_laptop_runs.csv", DATA / "laptop_recipes_runs.csv"
RECORDED = DATA / "add_vs_add_prod_2000_steps.csv"
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
    """A pool. If ``mix`` is given, both mixes of a sweep are drawn from that one, as it is or reshaped; the mix as if
    its sizes were ``shift`` times larger."""

    path: Path
    recipe: str
    mix: str = ""
    shape: str = ""
    shift: float = 1.0

    @property
    def name(self) -> str:
        return self.recipe or self.path.stem


@dataclass(frozen=True)
class Play:
    """How a sweep is played: its searcher with settings, its slots, and the cost of a run that learned relative to one
    that did not."""

    method: str
    overrides: tuple[str, ...]
    slots: int
    early: float


@dataclass(frozen=True)
class Drawn:
    """One drawn sweep: runs, their seconds (``cost``), mix by mix the verdict and the interval, and the decision with
    the factor that is certified."""

    runs: int
    cost: float
    verdicts: dict[str, Verdict]
    intervals: dict[str, tuple[float | None, float | None]]
    decided: Direction | None
    at_least: float | None

    def holds(self, mix: str, size: float) -> bool:
        """Return whether a mix's interval, if anything is known of it, contains the size."""
        low, high = self.intervals[mix]
        return (low is not None or high is not None) and (low or 0) <= size <= (high or math.inf)


@cache
def asked(path: Path, recipe: str, method: str, overrides: tuple[str, ...]) -> SweepSpec:
    """Return the laptop profile's sweep over the sizes of a pool, searched by a method."""
    sizes = sorted({size for _, size in pool_of(path, recipe).runs})
    return load_space(SPACE, "quick", [f"search.method={method}", f"sizes={sizes}", *overrides])


@cache
def pool_of(path: Path, recipe: str) -> Pool:
    """Return a recipe's pool in a file, read once a process."""
    return Pool.read(path, recipe)


def draw(cell: Cell, play: Play, key: int, *, locate: bool = True) -> Drawn:
    """Return one sweep drawn from a cell, with transitions if they are to be located."""
    spec = asked(cell.path, cell.recipe, play.method, play.overrides)
    searcher, world = searcher_of(spec), pool_of(cell.path, cell.recipe).world(key, cell.mix, cell.shift)
    problem = searcher.problem
    bar = spec.search.settings.get("learned", LEARNED)

    def shaped(request: Request) -> Observation:
        noise = np.random.default_rng([key, problem.mixes.index(request.mix), request.size, request.seed, 1])
        seen = SHAPES[cell.shape](world(request), request.size, noise)
        learned = learned_runs({request: seen}, bar)[request.mix, request.size, request.seed]
        return replace(seen, cost=seen.cost * (play.early if learned else 1.0))

    trace = simulate(searcher, shaped, play.slots)
    located = problem.mixes if locate else ()
    found = {mix: transition(points(trace.results, mix), problem.sizes) for mix in located}
    pairs = counted(searcher.blocks, learned_runs(trace.results, bar))
    shown = compare(pairs, spec.make_family().parameters, spec.search.settings.get("error", ERROR))
    intervals = {mix: (each.relative.low, each.relative.high) for mix, each in found.items()}
    verdicts = {mix: each.verdict for mix, each in found.items()}
    return Drawn(trace.runs, trace.cost, verdicts, intervals, shown.decided, shown.at_least)


def cells(*, same: bool, shifted: Sequence[float] = ()) -> list[Cell]:
    """Return every pool; with ``same`` every mix of every pool, and the reshaped ones; with ``shifted`` every mix of
    every recipe, shifted."""
    recipes = [Cell(RECIPES, recipe) for recipe in recipes_of(RECIPES)]
    if shifted:
        return [replace(pool, mix=mix, shift=shift) for pool in recipes for mix in MIXES for shift in shifted]
    pools = [*recipes, Cell(FORMER, ""), Cell(RECORDED, "")]
    if not same:
        return pools
    plain = [replace(pool, mix=mix) for pool in pools for mix in MIXES]
    return plain + [Cell(RECIPES, RESHAPED, mix, shape) for mix in MIXES for shape in SHAPES if shape]


DECIDED_HEAD = (
    "| pool | mix | reshaped | smaller by | | fewer | more | at least, median | runs | cost, s |\n" + "|---" * 10 + "|"
)
HEAD = "| pool | mix | crosses at | | 90 % interval contains that | verdicts | runs |\n" + "|---" * 7 + "|"


def decided_row(cell: Cell, method: str, drawn: Sequence[Drawn]) -> str:
    """Return the share of sweeps that decide in either direction, as Markdown."""
    factors = [each.at_least for each in drawn if each.at_least is not None]
    shares = [_share([each.decided is direction for each in drawn]) for direction in Direction]
    factor = f"{np.median(factors):.2f}" if factors else "-"
    cost = f"{np.mean([each.cost for each in drawn]):.0f}"
    name = (cell.name, cell.mix, cell.shape, f"{cell.shift:g}", method)
    return f"| {' | '.join((*name, *shares, factor, _mean_runs(drawn), cost))} |"


def rows(cell: Cell, method: str, drawn: Sequence[Drawn]) -> list[str]:
    """Return the share of intervals that contain the pool's own crossing, mix by mix, as Markdown."""
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


def _shares(counts: Counter[str], of: Sequence[Drawn]) -> str:
    return ", ".join(f"{name} {count / len(of):.2f}" for name, count in counts.most_common())


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
    parser.add_argument("--shifted", type=float, nargs="+", default=[], help="the mix is learned at smaller sizes")
    parser.add_argument("--methods", nargs="+", default=METHODS, help=f"default {' '.join(METHODS)}")
    parser.add_argument("--pools", nargs="+", default=[], help="pools by name (default all)")
    parser.add_argument("--slots", type=int, default=2, help="runs at the same time (default 2)")
    parser.add_argument("--early", type=float, default=1.0, help="cost of a run that learned (default 1)")
    parser.add_argument("--first", type=int, default=0, help="seed of the first sweep (default 0)")
    given = parser.parse_args(arguments)
    print(", ".join(f"{key} {value}" for key, value in describe("cpu").items()))
    decides = given.same or bool(given.shifted)
    print(DECIDED_HEAD if decides else HEAD)
    keys = range(given.first, given.first + given.sweeps)
    with ProcessPoolExecutor(given.jobs) as workers:
        for cell in cells(same=given.same, shifted=given.shifted):
            for method in given.methods:
                if given.pools and cell.name not in given.pools:
                    continue
                play = Play(method, tuple(given.overrides), given.slots, given.early)
                drawn = list(workers.map(partial(draw, cell, play, locate=not decides), keys))
                lines = [decided_row(cell, method, drawn)] if decides else rows(cell, method, drawn)
                print("\n".join(lines), flush=True)


if __name__ == "__main__":
    main()
