"""The plain searchers: bisection of each mix's transition, and every size with every seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from orchestrator.search.base import (
    EvidenceSettings,
    MixProgress,
    Observation,
    Problem,
    Request,
    Results,
    Searcher,
    SearchSettings,
)
from orchestrator.search.results import bracket, cell, requests
from orchestrator.transition.evidence import Block
from orchestrator.transition.types import LEVEL


@dataclass(frozen=True)
class _State:
    """The state of one mix. ``size`` is the size being decided, None when the search has ended. ``low`` and ``high``
    are indices into the sizes: -1 and len(sizes) where nothing is known."""

    size: int | None
    low: int
    high: int
    note: str


ASYMPTOTE = 0.88
"""Accuracy that most runs at the largest size reach, at least, before their mean is taken for an asymptote."""


class Bisection(Searcher):
    """Runs all seeds at the largest size, then halves the sizes between the largest that failed and the smallest that
    learned, all mixes at once, until the two are neighbours.

    A size learned when its mean accuracy over the seeds is at least :data:`LEVEL` x A, where A is the mean at the
    largest size: the definition of the transition itself. (A majority vote would aim at P = 0.5.) A mix most of whose
    runs at the largest size stay under :data:`ASYMPTOTE` ends there: A would not be an asymptote. The smallest size is
    run only when every other size learned. A failed run is no evidence; a size all of whose seeds failed ends its mix.
    """

    Settings: ClassVar[type[SearchSettings]] = SearchSettings

    def choose(self, results: Results, pending: Sequence[Request], limit: int) -> Sequence[Request | Block]:
        taken = set(pending)
        wanted: list[Request] = []
        for mix in self.problem.mixes:
            if mix in self.stopped:
                continue
            state = self._state(results, mix)
            if state.size is not None:
                wanted += requests(self.problem, mix, state.size)
        free = [request for request in wanted if request not in results and request not in taken]
        # Seed by seed (stack by stack), so that with few workers no mix waits for another to finish.
        seeds = {seed: place // self.stack for place, seed in enumerate(self.problem.seeds)}
        return sorted(free, key=lambda request: seeds[request.seed])[:limit]

    def progress(self) -> list[MixProgress]:
        return [self.as_stopped(self._progress(mix)) for mix in self.problem.mixes]

    def _progress(self, mix: str) -> MixProgress:
        state = self._state(self.results, mix)
        sizes, seeds = self.problem.sizes, len(self.problem.seeds)
        low = sizes[state.low] if state.low >= 0 else None
        high = sizes[state.high] if state.high < len(sizes) else None
        if state.size is None:
            return MixProgress(mix, low, high, 0, True, state.note)
        ended = sum(request in self.results for request in requests(self.problem, mix, state.size))
        top = len(sizes) - 1
        # Sizes still to be decided: this one, and after it the halvings of what is then left open.
        open_sizes = top if state.high > top else state.high - state.low - 1
        decisions = math.ceil(math.log2(open_sizes + 1)) + (state.high > top)
        left = decisions * seeds - ended
        return MixProgress(mix, low, high, left, False, state.note)

    def _state(self, results: Results, mix: str) -> _State:
        """Walk through the decisions taken so far. Each needs all seeds of its size, so order does not matter."""
        sizes = self.problem.sizes
        low, high = -1, len(sizes)
        top = 0.0
        while high - low > 1:
            index = len(sizes) - 1 if high == len(sizes) else (low + high) // 2
            size = sizes[index]
            known = cell(self.problem, results, mix, size)
            if len(known.accuracies) + known.failed < len(self.problem.seeds):
                return _State(size, low, high, f"running size {size}")
            if known.mean is None:
                return _State(None, low, high, f"stopped: every run at size {size} failed")
            if high == len(sizes):
                top = known.mean
                if float(np.median(known.accuracies)) < ASYMPTOTE:
                    note = f"not learned at size {size}: mean accuracy {known.mean:.2f}"
                    return _State(None, index, len(sizes), note)
            if known.mean >= LEVEL * top:
                high = index
            else:
                low = index
        if low < 0:
            return _State(None, low, high, f"learned at the smallest size, {sizes[0]}")
        return _State(None, low, high, f"between {sizes[low]} and {sizes[high]}")


class Grid(Searcher):
    """Runs all of mixes x sizes x seeds, seed by seed (stack by stack), so that every curve is seen whole early on.

    Its blocks are planned before the first run: every mix with its baseline, seed by seed and size by size.
    """

    Settings: ClassVar[type[SearchSettings]] = EvidenceSettings
    settings: EvidenceSettings

    def __init__(self, problem: Problem, **settings: Any) -> None:
        super().__init__(problem, **settings)
        stack, seeds = self.stack, problem.seeds
        self._stacks = [
            [Request(mix, size, seed) for seed in seeds[start : start + stack]]
            for start in range(0, len(seeds), stack)
            for size in problem.sizes
            for mix in problem.mixes
        ]
        self._blocks = tuple(
            Block(mix, baseline, size, size, seed)
            for seed in seeds
            for size in problem.sizes
            for mix, baseline in problem.comparisons
        )
        self._over = 0
        """The stacks at the front all of whose runs have ended."""

    def tell(self, request: Request, observation: Observation | None) -> None:
        super().tell(request, observation)
        while self._over < len(self._stacks) and all(run in self._results for run in self._stacks[self._over]):
            self._over += 1

    def choose(self, results: Results, pending: Sequence[Request], limit: int) -> Sequence[Request | Block]:
        taken = set(pending)
        wanted: list[Request] = []
        # What was told never becomes untold, so that a long sweep need not look at its beginning again.
        begin = self._over if results is self._results else 0
        for stack in self._stacks[begin:]:
            left = [run for run in stack if not (run in results or run in taken or run.mix in self.stopped)]
            if wanted and len(wanted) + len(left) > limit:
                # A free worker is better than half a stack.
                break
            wanted += left
        return wanted[:limit]

    def progress(self) -> list[MixProgress]:
        return [self.as_stopped(self._progress(mix)) for mix in self.problem.mixes]

    def _progress(self, mix: str) -> MixProgress:
        low, high = bracket(self.problem, self.results, mix)
        runs = [request for stack in self._stacks for request in stack if request.mix == mix]
        left = sum(request not in self.results for request in runs)
        return MixProgress(mix, low, high, left, left == 0, f"{len(runs) - left} of {len(runs)} runs")
