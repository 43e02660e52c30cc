"""The cost of a sweep so far, compared with the whole grid of its sizes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from orchestrator.search.base import Request
from orchestrator.search.results import cost_model
from orchestrator.space.runs import Run
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.types import Point

GRID_SEEDS = 3
"""Number of seeds in the grid that a search is compared with. A search has many seeds because it uses each for only one
pair. A grid with all of them would be an unfair comparison."""


@dataclass(frozen=True)
class Cost:
    """Seconds of training. Each run counts for its share of its stack.

    Attributes:
        spent_s: Seconds of the runs that were trained for the sweep.
        grid_s: Seconds of all runs of the whole grid, or None before the first run has ended.
        runs: Number of runs that were trained for the sweep.
        grid_runs: Number of runs of the whole grid.
        grid_seeds: Number of seeds at each size of the grid: all seeds of a sweep with the method ``grid``, otherwise
            at most :data:`GRID_SEEDS`.
        reused_s: Seconds that the reused runs took to train, for other sweeps.
        reused: Number of reused runs.
    """

    spent_s: float
    grid_s: float | None
    runs: int
    grid_runs: int
    grid_seeds: int
    reused_s: float = 0.0
    reused: int = 0

    @property
    def share(self) -> float | None:
        """Seconds of the runs that ended, including reused runs, relative to the seconds of the grid."""
        return (self.spent_s + self.reused_s) / self.grid_s if self.grid_s else None


def cost_of(spec: SweepSpec, runs: Iterable[Run]) -> Cost:
    """Return the cost of a sweep's runs.

    A cell of the full grid costs the mean of its own runs. If it has no runs, it costs the mean of all runs of its
    size. If there are none either, a power law fitted to the measured sizes predicts its cost. Earlier phases are
    assumed to add the same share of time as in the measured runs.
    """
    ended = [(run, run.outcome.measures.get("seconds", 0.0)) for run in runs]
    # Only runs that count for the answer are counted, as in the table. The seconds also include first phases.
    counting = [(run, spent) for run, spent in ended if run.request.mix in spec.mix_named and run.counts_for_answer]
    cells: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    sizes: defaultdict[int, list[float]] = defaultdict(list)
    seen: dict[Request, Point | None] = {}
    for run, spent in counting:
        if spent > 0:
            cells[run.config.label, run.config.size].append(spent)
            sizes[run.config.size].append(spent)
            seen[run.request] = run.request.point(0.0, 0.0, spent)
    grid_s = None
    grid_seeds = spec.seeds if spec.search.method == "grid" else min(spec.seeds, GRID_SEEDS)
    if seen:
        model = cost_model(seen)
        expected = [cells[mix.name, size] or sizes[size] or [model.cost(size)] for mix, size in spec.cells]
        phases_s = sum(spent for run, spent in ended if run.config.label not in spec.mix_named)
        grid_s = grid_seeds * sum(map(fmean, expected)) * (1 + phases_s / sum(map(sum, cells.values())))
    spent_s = sum(spent for run, spent in ended if not run.trained_for)
    reused_s = sum(spent for _, spent in ended) - spent_s
    reused = sum(bool(run.trained_for) for run, _ in counting)
    grid_runs = grid_seeds * len(spec.cells)
    return Cost(spent_s, grid_s, len(counting) - reused, grid_runs, grid_seeds, reused_s, reused)
