"""Coverage of the 90% intervals where curves level off below .9, and where they do not.

    python -m tests.bench.levelling                         # 100 truths per cell: plateaus, then curves that reach .9
    python -m tests.bench.levelling --truths 300 --jobs 2

A truth levels off for one of three reasons. *Never*: a share of the runs never learns, at any size. *Graded*: the
accuracy of every run rises to the plateau. *Steps*: a run jumps from the floor to the plateau or stays at the floor.
The truth to cover is the size at :data:`orchestrator.transition.types.LEVEL` of the level that the mean reaches. A
sweep without any bound covers nothing.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from orchestrator.search.base import Problem
from orchestrator.search.registry import METHODS
from orchestrator.search.results import points
from orchestrator.transition.estimate import transition
from orchestrator.transition.types import Transition
from tests.forecast.truths import Truth, TruthKind, draw

PLATEAUS = (0.6, 0.7, 0.8, 0.85)
SHAPES = ("never", "graded", "steps")
SIZES = tuple(int(size) for size in np.unique(np.geomspace(8, 256, 16).round().astype(int)))
SLOTS = 4
HEAD = (
    "| truth | plateau | method | covered | verdicts | error, median | too high | width, median | runs |\n"
    + "|---" * 9
    + "|"
)


@dataclass(frozen=True)
class Cell:
    """Truths of a kind or, with a ``plateau``, of a shape that levels off there; the searcher and its seeds."""

    kind: TruthKind
    shape: str
    plateau: float | None
    method: str
    seeds: int

    @property
    def problem(self) -> Problem:
        return Problem(("mix",), SIZES, tuple(range(self.seeds)))


@dataclass(frozen=True)
class Covered:
    """One sweep: its transition, the true one, and the number of runs."""

    transition: Transition
    truth: float
    runs: int

    @property
    def is_covered(self) -> bool:
        interval = self.transition.relative
        bounded = interval.low is not None or interval.high is not None
        return bounded and (interval.low or 0.0) <= self.truth <= (interval.high or math.inf)


def truth_of(cell: Cell, key: int) -> Truth:
    """Return a truth of a cell, with its transition inside the sizes."""
    truth = draw(cell.kind, cell.problem, np.random.default_rng([2025, key]), key)
    if cell.plateau is None:
        return truth
    place = math.log(truth.transition)
    if cell.shape == "never":
        # Chosen so that the mean reaches the plateau: (1 - lapse) * asymptote + lapse * floor.
        lapse = (truth.asymptote - cell.plateau) / (truth.asymptote - truth.floor)
        truth = replace(truth, lapse=lapse, graded=False)
    else:
        truth = replace(truth, asymptote=cell.plateau, lapse=0.0, graded=cell.shape == "graded")
    return replace(truth, midpoint=truth.midpoint + place - math.log(truth.transition))


def sweep(cell: Cell, key: int) -> Covered:
    """Search for the transition of one truth."""
    truth, searcher = truth_of(cell, key), METHODS[cell.method](cell.problem)
    while not searcher.done:
        for request in searcher.ask(SLOTS):
            searcher.tell(request, truth.run(request.size, request.seed, 1.0))
    runs = points(searcher.results, "mix")
    return Covered(transition(runs, SIZES), truth.transition, len(runs))


def cells(methods: Sequence[str], seeds: int) -> list[Cell]:
    """Return the cells: every plateau of every shape, then the kinds of truths that reach .9."""
    level = [(TruthKind.MATCHED, shape, plateau) for shape in SHAPES for plateau in PLATEAUS]
    return [
        Cell(*truth, method, seeds)
        for truth in (*level, *((kind, str(kind), None) for kind in TruthKind))
        for method in methods
    ]


def row(cell: Cell, sweeps: Sequence[Covered]) -> str:
    """Return the coverage of a cell as a row of Markdown."""
    covered = float(np.mean([one.is_covered for one in sweeps]))
    placed = [one for one in sweeps if one.transition.relative.value is not None]
    errors = [math.log((one.transition.relative.value or 1.0) / one.truth) for one in placed]
    ends = [(one.transition.relative.low, one.transition.relative.high) for one in sweeps]
    widths = [math.log(high / low) for low, high in ends if low is not None and high is not None]
    verdicts = Counter(one.transition.verdict.value for one in sweeps)
    texts = [
        cell.shape,
        "-" if cell.plateau is None else f"{cell.plateau:g}",
        cell.method,
        f"{covered:.2f} +- {math.sqrt(covered * (1 - covered) / len(sweeps)):.2f}",
        ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common()),
        f"{np.median(np.abs(errors)):.3f}" if errors else "-",
        f"{np.exp(np.median(errors)) - 1:+.0%}" if errors else "-",
        f"{np.median(widths):.2f}" if widths else "-",
        f"{np.mean([one.runs for one in sweeps]):.1f}",
    ]
    return f"| {' | '.join(texts)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    from tests.bench.machine import describe  # Imports torch, which the tests on a later Python lack.

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--truths", type=int, default=100, help="truths per cell (default 100)")
    parser.add_argument("--seeds", type=int, default=3, help="seeds of a sweep (default 3)")
    parser.add_argument("--first", type=int, default=0, help="number of the first truth (default 0)")
    parser.add_argument("--methods", nargs="+", default=["grid", "pairs"], choices=sorted(METHODS))
    parser.add_argument("--shapes", nargs="+", default=[], help="such as never or matched (default all)")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes (default 1)")
    options = parser.parse_args(arguments)
    print(", ".join(f"{key} {value}" for key, value in describe("cpu").items()))
    print(HEAD)
    keys = range(options.first, options.first + options.truths)
    with ProcessPoolExecutor(options.jobs) as workers:
        for cell in cells(options.methods, options.seeds):
            if options.shapes and cell.shape not in options.shapes:
                continue
            print(row(cell, list(workers.map(partial(sweep, cell), keys))), flush=True)


if __name__ == "__main__":
    main()
