"""Results of one mix, size by size, and what runs cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from orchestrator.search.base import Observation, Problem, Request, Results
from orchestrator.transition.evidence import Run, bar
from orchestrator.transition.types import LEVEL, Point

Known = tuple[Request, Observation | None]
"""A run and what it came to, as :data:`Results` holds them."""
MAX_EXPONENT = 3.0
"""No training cost rises faster with width than this (quadratic work, and memory traffic besides)."""

UNMEASURED_EXPONENT = 0.0
"""The exponent until runs of two sizes have ended: without a measurement all sizes count as equally expensive."""

STACK_OVERHEAD = 0.2
"""The addition of each further run of a stack to the cost of the first: four cost 1.6 times one."""


def by_mix(problem: Problem, results: Results) -> dict[str, list[Known]]:
    """The results of each mix, in the order in which they came."""
    found: dict[str, list[Known]] = {mix: [] for mix in problem.mixes}
    for known in results.items():
        if (mix := known[0].mix) in found:
            found[mix].append(known)
    return found


def learned_runs(results: Results, learned: float) -> dict[Run, bool | None]:
    """Return whether each run that is evidence learned, None if it failed; ``learned`` as in ``EvidenceSettings``."""
    return {
        (run.mix, run.size, run.seed): None if seen is None else seen.accuracy >= bar(seen.floor, learned)
        for run, seen in results.items()
        if run.is_evidence
    }


@dataclass(frozen=True)
class Cell:
    """The runs of one mix at one size: accuracies of those that ended with evidence, and how many failed."""

    accuracies: tuple[float, ...]
    failed: int

    @property
    def mean(self) -> float | None:
        """Mean accuracy over the seeds, None without evidence."""
        return float(np.mean(self.accuracies)) if self.accuracies else None


def cell(problem: Problem, results: Results, mix: str, size: int) -> Cell:
    """The results at one size, in the order of the problem's seeds."""
    ended = [results[request] for request in requests(problem, mix, size) if request in results]
    accuracies = tuple(seen.accuracy for seen in ended if seen is not None)
    return Cell(accuracies, len(ended) - len(accuracies))


def requests(problem: Problem, mix: str, size: int) -> Sequence[Request]:
    """Every run of one cell, in the order its seeds are used."""
    return _requests(problem.seeds, mix, size)


@lru_cache(maxsize=4096)
def _requests(seeds: tuple[int, ...], mix: str, size: int) -> tuple[Request, ...]:
    # Asked for several times a decision: with a hundred seeds, making them anew took longer than all else.
    return tuple(Request(mix, size, seed) for seed in seeds)


def has_free(problem: Problem, results: Results, taken: Collection[Request], mix: str, size: int) -> bool:
    """True if :func:`free_runs` has any."""
    return any(run not in results and run not in taken for run in requests(problem, mix, size))


def free_runs(problem: Problem, results: Results, taken: Collection[Request], mix: str, size: int) -> list[Request]:
    """Runs of one cell that neither ended nor are ``taken``. The seed that the mix used least is first: runs with the
    same seed share their data, and one lucky data set must not look like a curve."""
    free = [run for run in requests(problem, mix, size) if run not in results and run not in taken]
    if len(free) < 2:
        return free
    used = Counter(run.seed for runs in (results, taken) for run in runs if run.mix == mix and run.is_evidence)
    return sorted(free, key=lambda run: used[run.seed])


def missing_runs(
    problem: Problem, results: Results, taken: Collection[Request], mix: str, size: int, count: int
) -> list[Request]:
    """Runs that make up ``count`` finished or ``taken`` ones of one cell, as far as its seeds allow."""
    have = sum(results.get(run) is not None or run in taken for run in requests(problem, mix, size))
    return free_runs(problem, results, taken, mix, size)[: count - have] if have < count else []


def points(results: Results, mix: str) -> list[Point]:
    """The runs of one mix that are evidence, sorted."""
    return points_of(item for item in results.items() if item[0].mix == mix)


def points_of(ended: Iterable[Known]) -> list[Point]:
    """The same of one mix's results."""
    found = [
        (request.size, request.seed, seen.accuracy, seen.floor)
        for request, seen in ended
        if seen is not None and request.is_evidence
    ]
    return [Point(*fields) for fields in sorted(found)]


def bracket(problem: Problem, results: Results, mix: str) -> tuple[int | None, int | None]:
    """The largest size that did not learn and the smallest that did, by mean accuracy over seeds.

    A size learned when it reaches :data:`LEVEL` of the mean at the largest size with evidence. Where the two cross
    (a larger size fails again), the smallest size that learned counts, and the largest failure below it.
    """
    means = {size: cell(problem, results, mix, size).mean for size in problem.sizes}
    known = {size: mean for size, mean in means.items() if mean is not None}
    if not known:
        return None, None
    top = known[max(known)]
    floors: list[Observation] = [seen for request, seen in results.items() if request.mix == mix and seen is not None]
    nothing = top < LEVEL * LEVEL or top <= max(seen.floor for seen in floors)
    learned = [] if nothing else [size for size, mean in known.items() if mean >= LEVEL * top]
    high = min(learned, default=None)
    under = [size for size in known if size not in learned and (high is None or size < high)]
    return max(under, default=None), high


def stack_cost(runs: int) -> float:
    """The cost of a stack of so many runs, in single runs of its size."""
    return 1 + STACK_OVERHEAD * (runs - 1)


@dataclass(frozen=True)
class CostModel:
    """``scale * size ** exponent``, in the unit of the observed costs."""

    scale: float
    exponent: float

    def cost(self, size: float) -> float:
        return self.scale * math.exp(self.exponent * math.log(size))


def cost_model(results: Results) -> CostModel:
    """Least squares in ln size and ln cost over all runs with a known cost, the exponent kept in 0..3.

    From a single size, or none, the exponent is :data:`UNMEASURED_EXPONENT`.
    """
    known = [
        (request.size, seen.cost)
        for request, seen in results.items()
        if seen is not None and seen.cost > 0 and request.is_evidence
    ]
    if not known:
        return CostModel(1.0, UNMEASURED_EXPONENT)
    size_R, cost_R = np.array(known, dtype=float).T
    in_order = np.lexsort((cost_R, size_R))  # So that a sum is the same whichever result came first.
    x, y = np.log(size_R[in_order]), np.log(cost_R[in_order])
    spread = float(((x - x.mean()) ** 2).sum())
    slope = float(((x - x.mean()) * (y - y.mean())).sum()) / spread if spread > 0 else UNMEASURED_EXPONENT
    exponent = min(max(slope, 0.0), MAX_EXPONENT)
    return CostModel(math.exp(float(y.mean()) - exponent * float(x.mean())), exponent)
