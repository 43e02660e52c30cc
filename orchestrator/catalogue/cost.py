"""What a sweep has cost, and what its whole grid would have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from orchestrator.records import RunRecord
from orchestrator.search.base import Observation, Request
from orchestrator.search.costs import cost_model
from orchestrator.spec import SweepSpec


@dataclass(frozen=True)
class Cost:
    """Seconds of training, each run's share of its stack: ``spent_s`` by the runs that ended, ``grid_s`` by every cell
    with every seed (None before the first run has ended). ``runs`` of ``grid_runs`` have ended."""

    spent_s: float
    grid_s: float | None
    runs: int
    grid_runs: int

    @property
    def share(self) -> float | None:
        """Spent, as a share of the grid's."""
        return self.spent_s / self.grid_s if self.grid_s else None


def cost_of(spec: SweepSpec, runs: Iterable[RunRecord]) -> Cost:
    """The cost of these runs of a sweep. A size with measured runs is taken to cost their mean; the others follow the
    power law through the measured ones."""
    ended = tuple(runs)
    spent_s = 0.0
    seconds: dict[int, list[float]] = {}
    seen: dict[Request, Observation | None] = {}
    for run in ended:
        spent = run.outcome.measures.get("seconds", 0.0)
        spent_s += spent
        if spent > 0 and run.config.steps_factor == 1:
            seconds.setdefault(run.config.size, []).append(spent)
            request = Request(run.config.mix.name, run.config.size, run.config.seed)
            seen[request] = Observation(0.0, 0.0, spent)
    each_size = len(spec.mixes) * spec.seeds
    grid_s = None
    if seconds:
        model = cost_model(seen)
        by_size = [fmean(seconds[size]) if size in seconds else model.cost(size) for size in spec.sizes]
        grid_s = each_size * sum(by_size)
    return Cost(spent_s, grid_s, len(ended), each_size * len(spec.sizes))
