"""Grid of all mixes, sizes and seeds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, ClassVar

import numpy as np

from orchestrator.search.base import (
    EvidenceSettings,
    MixProgress,
    Problem,
    Request,
    Results,
    Searcher,
    SearchSettings,
)
from orchestrator.search.results import ended_runs
from orchestrator.transition.evidence import Block
from orchestrator.transition.types import LEVEL, Point


class Grid(Searcher):
    """Runs every combination of mix, size and seed, one seed (or stack of seeds) at a time, so that complete curves
    appear early. Its blocks are planned before the first run: every mix with its baseline, seed by seed, size by size.
    """

    Settings: ClassVar[type[SearchSettings]] = EvidenceSettings
    settings: EvidenceSettings

    def __init__(self, problem: Problem, **settings: Any) -> None:
        super().__init__(problem, **settings)
        stack = self.stack
        seeds = problem.seeds
        self._stacks = [
            [Request(mix, size, seed) for seed in seeds[start : start + stack]]
            for start in range(0, len(seeds), stack)
            for size in problem.sizes
            for mix in problem.mixes
        ]
        self.blocks = tuple(
            Block(mix, baseline, size, size, seed)
            for seed in seeds
            for size in problem.sizes
            for mix, baseline in problem.comparisons
        )
        self._first_open = 0
        """Index of the first stack with an unfinished run. Long sweeps do not scan earlier stacks again."""

    def tell(self, request: Request, point: Point | None) -> None:
        super().tell(request, point)
        while self._first_open < len(self._stacks) and self.results.keys() >= set(self._stacks[self._first_open]):
            self._first_open += 1

    def choose(self, pending: Sequence[Request], limit: int, ending: Collection[Request] = ()) -> Sequence[Request]:
        taken = set(pending)
        chosen: list[Request] = []
        for stack in self._stacks[self._first_open :]:
            free = [run for run in stack if not (run in self.results or run in taken or run.mix in self.stopped)]
            if chosen and len(chosen) + len(free) > limit:
                break  # Leaving a worker idle is better than training half a stack.
            chosen += free
        return chosen[:limit]

    def progress_of(self, mix: str) -> MixProgress:
        low, high = bracket(self.problem, self.results, mix)
        left = sum(run not in self.results for stack in self._stacks for run in stack if run.mix == mix)
        return MixProgress(mix, low, high, left, left == 0)


def bracket(problem: Problem, results: Results, mix: str) -> tuple[int | None, int | None]:
    """Return the largest size that did not learn and the smallest that did, by mean accuracy over seeds.

    A size learned if it reaches :data:`LEVEL` of the mean at the largest size with evidence. Larger sizes that did not
    learn are ignored.
    """
    cells = {size: ended_runs(problem, results, mix, size) for size in problem.sizes}
    accuracies = {size: [result.accuracy for result in cell if result is not None] for size, cell in cells.items()}
    means = {size: float(np.mean(values)) for size, values in accuracies.items() if values}
    if not means:
        return None, None
    top = means[max(means)]
    floor = max(result.floor for run, result in results.items() if run.mix == mix and result is not None)
    nothing = top < LEVEL * LEVEL or top <= floor
    learned = [] if nothing else [size for size, mean in means.items() if mean >= LEVEL * top]
    high = min(learned, default=None)
    failed = [size for size in means if size not in learned and (high is None or size < high)]
    return max(failed, default=None), high
