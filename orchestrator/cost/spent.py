"""What a sweep has cost, and what its whole grid would have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from orchestrator.home.records import RunRecord
from orchestrator.search.base import Observation, Request
from orchestrator.search.evidence import cost_model
from orchestrator.space.evidence import is_evidence
from orchestrator.space.spec import SweepSpec


@dataclass(frozen=True)
class Cost:
    """Seconds of training, each run's share of its stack: ``spent_s`` by the ``runs`` that were trained for the sweep,
    ``found_s`` once by the ``found`` runs that were there already, ``grid_s`` by every cell with every seed, of which
    there are ``grid_runs`` (None before the first run has ended)."""

    spent_s: float
    grid_s: float | None
    runs: int
    grid_runs: int
    found_s: float = 0.0
    found: int = 0

    @property
    def share(self) -> float | None:
        """What the runs that ended take, found ones included, as a share of the grid's."""
        return (self.spent_s + self.found_s) / self.grid_s if self.grid_s else None


def cost_of(spec: SweepSpec, runs: Iterable[RunRecord]) -> Cost:
    """The cost of these runs of a sweep. A cell with measured runs is taken to cost their mean, another one of the size
    the mean of that size; sizes without any follow the power law through the measured ones."""
    ended = tuple(runs)
    cells: dict[tuple[str, int], list[float]] = {}
    sizes: dict[int, list[float]] = {}
    seen: dict[Request, Observation | None] = {}
    for run in ended:
        spent, config = run.outcome.measures.get("seconds", 0.0), run.config
        if spent > 0 and is_evidence(config):
            cells.setdefault((config.label, config.size), []).append(spent)
            sizes.setdefault(config.size, []).append(spent)
            seen[Request(config.label, config.size, config.seed)] = Observation(0.0, 0.0, spent)
    trained = [run for run in ended if not run.found_in]
    spent_s, all_s = (sum(run.outcome.measures.get("seconds", 0.0) for run in runs) for runs in (trained, ended))
    grid_s = None
    if seen:
        model = cost_model(seen)

        def expected(mix: str, size: int) -> float:
            measured = cells.get((mix, size)) or sizes.get(size)
            return fmean(measured) if measured else model.cost(size)

        grid_s = spec.seeds * sum(expected(mix.name, size) for mix, size in spec.cells)
    found = len(ended) - len(trained)
    return Cost(spent_s, grid_s, len(trained), spec.seeds * len(spec.cells), all_s - spent_s, found)
