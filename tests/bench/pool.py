"""Real runs of many sweeps together, and what they say of a transition without assuming a curve."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from sklearn.isotonic import IsotonicRegression

from orchestrator.search.base import Observation, Request
from orchestrator.transition.types import LEVEL

FEW = 4
"""A size with fewer runs than this borrows those of the nearest sizes."""
TOP = 1.6
"""The asymptote is the mean of the runs within this factor of the largest size: sizes often end at twice a transition,
which is not yet all learned."""
LOWEST = 0.9
"""An asymptote below this gives no transition to compare estimates with."""
RECIPE = "recipe"
"""The column of a table that holds the runs of several recipes."""


def recipes_of(path: Path) -> list[str]:
    """The recipes whose runs a table holds, ``[""]`` where it does not tell them apart."""
    with path.open(newline="", encoding="utf-8") as file:
        return sorted({line.get(RECIPE, "") for line in csv.DictReader(file)})


def read_table(path: Path, recipe: str = "") -> dict[Request, Observation]:
    """The finished runs of a recorded table, such as the ``runs.csv`` of an export, or of one recipe's lines in it."""
    with path.open(newline="", encoding="utf-8") as file:
        return {
            Request(line["mix"], int(line["size"]), int(line["seed"])): Observation(
                float(line["accuracy"]), float(line["floor"]), float(line["seconds"])
            )
            for line in csv.DictReader(file)
            if line["accuracy"] and line.get(RECIPE, "") == recipe
        }


@dataclass(frozen=True)
class Pool:
    """Real runs by mix and size; ``costs`` in seconds by size, of all mixes together, a power of
    size."""

    runs: Mapping[tuple[str, int], tuple[Observation, ...]]
    costs: Mapping[int, float]

    @classmethod
    def read(cls, path: Path, recipe: str = "") -> Pool:
        """The pool of a recorded table, or of one recipe's lines in it."""
        runs: dict[tuple[str, int], list[Observation]] = {}
        seconds: dict[int, list[float]] = {}
        for request, seen in read_table(path, recipe).items():
            runs.setdefault((request.mix, request.size), []).append(seen)
            seconds.setdefault(request.size, []).append(seen.cost)
        # The machine's load changed from sweep to sweep, so that size 14 may seem to cost four times as much as 13: a
        # power law through the medians, without which a searcher would be graded by that.
        sizes = np.array(sorted(seconds), dtype=float)
        law = np.polyfit(np.log(sizes), np.log([np.median(seconds[size]) for size in sorted(seconds)]), 1)
        costs = {int(size): float(np.exp(np.polyval(law, np.log(size)))) for size in sizes}
        return cls({place: tuple(found) for place, found in runs.items()}, costs)

    def sizes(self, mix: str) -> list[int]:
        """The sizes of a mix that hold runs, in order."""
        return sorted(size for name, size in self.runs if name == mix)

    def like(self, mix: str, size: float) -> list[Observation]:
        """Runs of this size, and of the nearest ones as long as there are fewer than :data:`FEW`."""
        found: list[Observation] = []
        for other in sorted(self.sizes(mix), key=lambda other: abs(math.log(other / size))):
            if len(found) < FEW:
                found += self.runs[mix, other]
        return found

    def cost(self, size: int) -> float:
        """Seconds of a run, between the sizes of the pool by interpolation in ln size."""
        return float(np.interp(math.log(size), [math.log(each) for each in self.costs], list(self.costs.values())))

    def world(self, key: int, same: str = "", shift: float = 1.0) -> Callable[[Request], Observation]:
        """Return outcomes of runs in the drawn sweep ``key``: the same answer for the same request.

        With ``same`` runs of every mix end as some run of that mix, each by its own draw; those of all mixes but the
        first as if their sizes were ``shift`` times larger.
        """
        mixes = sorted({mix for mix, _ in self.runs})

        def outcome(request: Request) -> Observation:
            rng = np.random.default_rng([key, mixes.index(request.mix), request.size, request.seed])
            like = self.like(same or request.mix, request.size * (shift if request.mix != mixes[0] else 1.0))
            return replace(like[rng.integers(len(like))], cost=self.cost(request.size))

        return outcome

    def crossing(self, mix: str) -> float | None:
        """The size at which the mean accuracy, made to rise, passes :data:`LEVEL` of its asymptote.

        None for an asymptote under :data:`LOWEST`, and if the smallest size is past it already.
        """
        seen = [(size, run.accuracy) for size in self.sizes(mix) for run in self.runs[mix, size]]
        sizes, accuracies = (np.array(column, dtype=float) for column in zip(*seen, strict=True))
        asymptote = float(accuracies[sizes * TOP >= sizes.max()].mean())
        tested = np.unique(sizes)
        means = IsotonicRegression().fit(sizes, accuracies).predict(tested)
        passed = int(np.argmax(means >= LEVEL * asymptote))
        if asymptote < LOWEST or passed == 0:
            return None
        around = slice(passed - 1, passed + 1)
        return float(np.exp(np.interp(LEVEL * asymptote, means[around], np.log(tested[around]))))
