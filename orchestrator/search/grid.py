"""Every size with every seed: the reference the other searchers are measured against."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from orchestrator.search.base import MixProgress, Observation, Problem, Request, Results, Searcher, SearchSettings
from orchestrator.search.evidence import bracket


class Grid(Searcher):
    """Runs all of mixes x sizes x seeds, seed by seed (stack by stack), so that every curve is seen whole early on."""

    Settings: ClassVar[type[SearchSettings]] = SearchSettings

    def __init__(self, problem: Problem, **settings: Any) -> None:
        super().__init__(problem, **settings)
        stack, seeds = self.stack, problem.seeds
        self._stacks = [
            [Request(mix, size, seed) for seed in seeds[start : start + stack]]
            for start in range(0, len(seeds), stack)
            for size in problem.sizes
            for mix in problem.mixes
        ]
        self._over = 0
        """The stacks at the front all of whose runs have ended."""

    def tell(self, request: Request, observation: Observation | None) -> None:
        super().tell(request, observation)
        while self._over < len(self._stacks) and all(run in self._results for run in self._stacks[self._over]):
            self._over += 1

    def choose(self, results: Results, pending: Sequence[Request], limit: int) -> list[Request]:
        taken = set(pending)
        wanted: list[Request] = []
        # What was told never becomes untold, so that a long sweep need not look at its beginning again.
        begin = self._over if results is self._results else 0
        for stack in self._stacks[begin:]:
            left = [request for request in stack if self._free(request, results, taken)]
            if wanted and len(wanted) + len(left) > limit:
                # A free worker is better than half a stack.
                break
            wanted += left
        return wanted[:limit]

    def _free(self, request: Request, results: Results, taken: set[Request]) -> bool:
        return request not in results and request not in taken and request.mix not in self.stopped

    def progress(self) -> list[MixProgress]:
        return [self.as_stopped(self._progress(mix)) for mix in self.problem.mixes]

    def _progress(self, mix: str) -> MixProgress:
        low, high = bracket(self.problem, self.results, mix)
        runs = [request for stack in self._stacks for request in stack if request.mix == mix]
        left = sum(request not in self.results for request in runs)
        return MixProgress(mix, low, high, left, left == 0, f"{len(runs) - left} of {len(runs)} runs")
