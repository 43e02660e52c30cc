"""Recorded runs of many sweeps as a pool."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from orchestrator.search.base import Request
from orchestrator.transition.types import Point

FEW = 4
"""Minimum number of runs of a size; below it, the size borrows from the nearest sizes."""
RECIPE = "recipe"
"""Column of a table with the runs of several recipes."""


def recipes_of(path: Path) -> list[str]:
    """Return the recipes of the runs in a table, ``[""]`` if it has no such column."""
    with path.open(newline="", encoding="utf-8") as file:
        return sorted({line.get(RECIPE, "") for line in csv.DictReader(file)})


def read_table(path: Path, recipe: str = "") -> dict[Request, Point]:
    """Return the finished runs of one recipe in a table such as the ``runs.csv`` of an export."""
    table: dict[Request, Point] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            if line["accuracy"] and line.get(RECIPE, "") == recipe:
                request = Request(line["mix"], int(line["size"]), int(line["seed"]))
                accuracy, floor, seconds = (float(line[name]) for name in ("accuracy", "floor", "seconds"))
                table[request] = request.point(accuracy, floor, seconds)
    return table


@dataclass(frozen=True)
class Pool:
    """Recorded runs by mix and size. ``costs`` are the seconds of a run by size, a power law over all mixes."""

    runs: Mapping[tuple[str, int], tuple[Point, ...]]
    costs: Mapping[int, float]

    @classmethod
    def read(cls, path: Path, recipe: str = "") -> Pool:
        runs: dict[tuple[str, int], list[Point]] = {}
        seconds: dict[int, list[float]] = {}
        for request, run in read_table(path, recipe).items():
            runs.setdefault((request.mix, request.size), []).append(run)
            seconds.setdefault(request.size, []).append(run.cost)
        # The load of the machine differed between sweeps: size 14 may seem to cost four times as much as 13. A power
        # law through the medians removes that.
        sizes = np.array(sorted(seconds), dtype=float)
        law = np.polyfit(np.log(sizes), np.log([np.median(seconds[size]) for size in sorted(seconds)]), 1)
        costs = {int(size): float(np.exp(np.polyval(law, np.log(size)))) for size in sizes}
        return cls({cell: tuple(cell_runs) for cell, cell_runs in runs.items()}, costs)

    def like(self, mix: str, size: float) -> list[Point]:
        """Return the runs of a size, and runs of the nearest sizes until there are at least :data:`FEW`."""
        runs: list[Point] = []
        sizes = sorted(other for name, other in self.runs if name == mix)
        for other in sorted(sizes, key=lambda other: abs(math.log(other / size))):
            if len(runs) < FEW:
                runs += self.runs[mix, other]
        return runs

    def world(self, key: int, same: str = "", shift: float = 1.0) -> Callable[[Request], Point]:
        """Return a function that draws the result of a request, the same for the same request.

        Args:
            key: Seed of the sweep.
            same: If set, the mix from which runs of every mix are drawn.
            shift: Factor by which the sizes of all mixes except the first are enlarged before the draw.
        """
        mixes = sorted({mix for mix, _ in self.runs})

        def outcome(request: Request) -> Point:
            rng = np.random.default_rng([key, mixes.index(request.mix), request.size, request.seed])
            like = self.like(same or request.mix, request.size * (shift if request.mix != mixes[0] else 1.0))
            cost = np.interp(math.log(request.size), list(map(math.log, self.costs)), list(self.costs.values()))
            drawn = like[rng.integers(len(like))]
            return replace(drawn, size=request.size, seed=request.seed, cost=float(cost))

        return outcome
