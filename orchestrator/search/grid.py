"""Every size with every seed: the reference the other searchers are measured against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from orchestrator.search.base import MixProgress, Problem, Request, Results, Searcher
from orchestrator.search.evidence import bracket


@dataclass(frozen=True)
class GridSettings:
    """The grid has nothing to set."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}


class Grid(Searcher):
    """Runs all of mixes x sizes x seeds, seed by seed, so that every curve is seen whole early on."""

    Settings: ClassVar[type] = GridSettings

    def __init__(self, problem: Problem, **settings: Any) -> None:
        super().__init__(problem, **settings)
        self._order = [
            Request(mix, size, seed) for seed in problem.seeds for size in problem.sizes for mix in problem.mixes
        ]

    def choose(self, results: Results, pending: Sequence[Request], limit: int) -> list[Request]:
        taken = set(pending)
        return [request for request in self._order if request not in results and request not in taken][:limit]

    def progress(self) -> list[MixProgress]:
        return [self._progress(mix) for mix in self.problem.mixes]

    def _progress(self, mix: str) -> MixProgress:
        low, high = bracket(self.problem, self.results, mix)
        left = sum(request.mix == mix and request not in self.results for request in self._order)
        total = len(self.problem.sizes) * len(self.problem.seeds)
        return MixProgress(mix, low, high, left, left == 0, f"{total - left} of {total} runs")
