"""Decisions of sweeps drawn from pools of recorded runs.

    python -m tests.bench.drawn_sweeps --same --sweeps 200            # both mixes from one pool: any decision is wrong
    python -m tests.bench.drawn_sweeps --same --slots 8 --early 0.2   # the same, in parallel; runs that learn end early
    python -m tests.bench.drawn_sweeps --shifted 1.5 2 3              # the mix needs models smaller by these factors

A pool (tests/data/README.md) contains every run of many sweeps of the laptop profile under one recipe. Each run of a
drawn sweep copies a random run of the pool with its mix and size, and costs as much as runs of that size.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from orchestrator.forecast.simulation import simulate
from orchestrator.search.base import Request
from orchestrator.search.results import learned_runs
from orchestrator.space.problem import searcher_of
from orchestrator.space.spaces import load_space
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.comparison import compare
from orchestrator.transition.evidence import ERROR, LEARNED, Direction, counted_pairs
from orchestrator.transition.types import Point
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


def _failing(run: Point, rng: np.random.Generator, share: float) -> Point:
    if rng.random() >= share:
        return run
    return replace(run, accuracy=max(run.floor + 0.03 * float(rng.normal()), 0.0))


def _lower(run: Point, share: float) -> Point:
    return replace(run, accuracy=min(run.accuracy, run.floor + share * (run.accuracy - run.floor)))


SHAPES: dict[str, Callable[[Point, int, np.random.Generator], Point]] = {
    "": lambda run, size, rng: run,
    "0.7 of the rise": lambda run, size, rng: _lower(run, 0.7),
    "0.85 of the rise": lambda run, size, rng: _lower(run, 0.85),
    "half fail from 18": lambda run, size, rng: _failing(run, rng, 0.5 * (size >= FALLS_FROM)),
    "0.3 fail anywhere": lambda run, size, rng: _failing(run, rng, 0.3),
}
"""Changes to the runs of a pool. All except the first apply to the recipe :data:`RESHAPED`."""


@dataclass(frozen=True)
class Cell:
    """A pool to draw sweeps from.

    Attributes:
        mix: If set, both mixes of a sweep are drawn from this one.
        shape: Name of a change to the runs in :data:`SHAPES`.
        shift: Factor by which the sizes of the compared mix are enlarged before the draw.
    """

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
    """The searcher of a sweep with its settings, the number of slots, and the relative cost of runs that learned."""

    method: str
    overrides: tuple[str, ...]
    slots: int
    early: float


@dataclass(frozen=True)
class Drawn:
    """Results of one sweep: runs, their seconds (``cost``), decision and factor."""

    runs: int
    cost: float
    decided: Direction | None
    at_least: float | None


@cache
def spec_of(path: Path, recipe: str, method: str, overrides: tuple[str, ...]) -> SweepSpec:
    """Return the specification of a sweep over the sizes of a pool."""
    sizes = sorted({size for _, size in pool_of(path, recipe).runs})
    return load_space(SPACE, "quick", [f"search.method={method}", f"sizes={sizes}", *overrides])


@cache
def pool_of(path: Path, recipe: str) -> Pool:
    return Pool.read(path, recipe)


def draw(cell: Cell, play: Play, key: int) -> Drawn:
    """Return one sweep drawn from a cell."""
    spec = spec_of(cell.path, cell.recipe, play.method, play.overrides)
    searcher, world = searcher_of(spec), pool_of(cell.path, cell.recipe).world(key, cell.mix, cell.shift)
    problem = searcher.problem
    bar = spec.search.settings.get("learned", LEARNED)

    def shaped(request: Request) -> Point:
        noise = np.random.default_rng([key, problem.mixes.index(request.mix), request.size, request.seed, 1])
        run = SHAPES[cell.shape](world(request), request.size, noise)
        learned = learned_runs({request: run}, bar)[request.mix, request.size, request.seed]
        return replace(run, cost=run.cost * (play.early if learned else 1.0))

    trace = simulate(searcher, shaped, play.slots)
    pairs = counted_pairs(searcher.blocks, learned_runs(trace.results, bar))
    comparison = compare(pairs, spec.make_family().parameters, spec.search.settings.get("error", ERROR))
    return Drawn(len(trace.results), trace.cost, comparison.decided, comparison.at_least)


def cells(shifted: Sequence[float] = ()) -> list[Cell]:
    """Return the cells to draw from: every mix of every pool and of the reshaped pools, or, with ``shifted``, every mix
    of every recipe, shifted by these factors."""
    recipes = [Cell(RECIPES, recipe) for recipe in recipes_of(RECIPES)]
    if shifted:
        return [replace(pool, mix=mix, shift=shift) for pool in recipes for mix in MIXES for shift in shifted]
    plain = [replace(pool, mix=mix) for pool in (*recipes, Cell(FORMER, ""), Cell(RECORDED, "")) for mix in MIXES]
    return plain + [Cell(RECIPES, RESHAPED, mix, shape) for mix in MIXES for shape in SHAPES if shape]


DECIDED_HEAD = (
    "| pool | mix | reshaped | smaller by | method | fewer | more | at least, median | runs | cost, s |\n"
    + "|---" * 10
    + "|"
)


def decided_row(cell: Cell, method: str, drawn: Sequence[Drawn]) -> str:
    """Return the share of sweeps that decide in either direction, as Markdown."""
    factors = [sweep.at_least for sweep in drawn if sweep.at_least is not None]
    shares = [_share([sweep.decided is direction for sweep in drawn]) for direction in Direction]
    factor = f"{np.median(factors):.2f}" if factors else "-"
    cost = f"{np.mean([sweep.cost for sweep in drawn]):.0f}"
    name, runs = (cell.name, cell.mix, cell.shape, f"{cell.shift:g}", method), np.mean([sweep.runs for sweep in drawn])
    return f"| {' | '.join((*name, *shares, factor, f'{runs:.1f}', cost))} |"


def _share(values: Sequence[bool]) -> str:
    share = float(np.mean(values))
    return f"{share:.2f} +- {math.sqrt(share * (1 - share) / len(values)):.2f}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweeps", type=int, default=200, help="sweeps per method and pool (default 200)")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes (default 1)")
    parser.add_argument(
        "--set", action="append", default=[], dest="overrides", help="change a setting of the search space (KEY=VALUE)"
    )
    drawn_from = parser.add_mutually_exclusive_group(required=True)
    drawn_from.add_argument("--same", action="store_true", help="draw both mixes from the same pool")
    drawn_from.add_argument("--shifted", type=float, nargs="+", help="factors by which the mix needs smaller models")
    parser.add_argument("--methods", nargs="+", default=METHODS, help=f"default {' '.join(METHODS)}")
    parser.add_argument("--pools", nargs="+", default=[], help="names of pools (default all)")
    parser.add_argument("--slots", type=int, default=2, help="number of parallel runs (default 2)")
    parser.add_argument("--early", type=float, default=1.0, help="relative cost of a run that learned (default 1)")
    parser.add_argument("--first", type=int, default=0, help="seed of the first sweep (default 0)")
    options = parser.parse_args(arguments)
    print(", ".join(f"{key} {value}" for key, value in describe("cpu").items()))
    print(DECIDED_HEAD)
    keys = range(options.first, options.first + options.sweeps)
    with ProcessPoolExecutor(options.jobs) as workers:
        for cell in cells(options.shifted or ()):
            for method in options.methods:
                if options.pools and cell.name not in options.pools:
                    continue
                play = Play(method, tuple(options.overrides), options.slots, options.early)
                print(decided_row(cell, method, list(workers.map(partial(draw, cell, play), keys))), flush=True)


if __name__ == "__main__":
    main()
