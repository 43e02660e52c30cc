"""What a sweep has cost, and what its whole grid would have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from orchestrator.search.base import Observation, Request
from orchestrator.search.costs import cost_model
from orchestrator.space.spec import SweepSpec
from orchestrator.store.records import RunRecord


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
    """The cost of these runs of a sweep. A cell with measured runs is taken to cost their mean, another one of the size
    the mean of that size; sizes without any follow the power law through the measured ones."""
    ended = tuple(runs)
    cells: dict[tuple[str, int], list[float]] = {}
    sizes: dict[int, list[float]] = {}
    seen: dict[Request, Observation | None] = {}
    for run in ended:
        spent, config = run.outcome.measures.get("seconds", 0.0), run.config
        if spent > 0 and config.steps_factor == 1:
            cells.setdefault((config.mix.name, config.size), []).append(spent)
            sizes.setdefault(config.size, []).append(spent)
            seen[Request(config.mix.name, config.size, config.seed)] = Observation(0.0, 0.0, spent)
    spent_s = sum(run.outcome.measures.get("seconds", 0.0) for run in ended)
    grid_s = None
    if seen:
        model = cost_model(seen)

        def expected(mix: str, size: int) -> float:
            measured = cells.get((mix, size)) or sizes.get(size)
            return fmean(measured) if measured else model.cost(size)

        grid_s = spec.seeds * sum(expected(mix.name, size) for mix, size in spec.cells)
    return Cost(spent_s, grid_s, len(ended), spec.seeds * len(spec.cells))
