"""Bisection of each mix's transition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from orchestrator.search.base import MixProgress, Request, Searcher, SearchSettings
from orchestrator.search.results import cell_runs, ended_runs
from orchestrator.transition.types import LEVEL

ASYMPTOTE = 0.88
"""Minimum median accuracy at the largest size for its mean to count as an asymptote."""


@dataclass(frozen=True)
class _State:
    """State of one mix: the next ``size`` to decide, or None at the end, and the indices of the largest size known not
    to learn (``low``, at least -1) and the smallest size known to learn (``high``, at most the number of sizes)."""

    size: int | None
    low: int
    high: int
    note: str


class Bisection(Searcher):
    """Bisects the sizes of all mixes at once, with all seeds at each size, starting at the largest.

    A size counts as learned if its mean accuracy over the seeds is at least :data:`LEVEL` x A, where A is the mean
    accuracy at the largest size. This is the definition of the transition; a majority vote would search for P = 0.5. If
    the median at the largest size is below :data:`ASYMPTOTE`, A is not an asymptote and the search of the mix ends. The
    smallest size is run only if all other sizes learned. Failed runs are not evidence; if all seeds of a size fail, the
    search of the mix ends.
    """

    Settings: ClassVar[type[SearchSettings]] = SearchSettings

    def choose(self, pending: Sequence[Request], limit: int) -> Sequence[Request]:
        mixes = [mix for mix in self.problem.mixes if mix not in self.stopped]
        sizes = [(mix, size) for mix in mixes if (size := self._state(mix).size) is not None]
        runs = [run for mix, size in sizes for run in cell_runs(self.problem, mix, size)]
        taken = set(pending)
        free = [run for run in runs if run not in self.results and run not in taken]
        # Seed by seed (stack by stack), so that mixes do not wait for each other if workers are few.
        rank = {seed: place // self.stack for place, seed in enumerate(self.problem.seeds)}
        return sorted(free, key=lambda run: rank[run.seed])[:limit]

    def progress(self) -> list[MixProgress]:
        return [self.as_stopped(self._progress(mix)) for mix in self.problem.mixes]

    def _progress(self, mix: str) -> MixProgress:
        state, sizes = self._state(mix), self.problem.sizes
        low = sizes[state.low] if state.low >= 0 else None
        high = sizes[state.high] if state.high < len(sizes) else None
        if state.size is None:
            return MixProgress(mix, low, high, 0, True, state.note)
        # After the current size, the undecided sizes are halved until none is left.
        undecided = len(sizes) - 1 if high is None else state.high - state.low - 1
        decisions = math.ceil(math.log2(undecided + 1)) + (high is None)
        ended = len(ended_runs(self.problem, self.results, mix, state.size))
        return MixProgress(mix, low, high, decisions * len(self.problem.seeds) - ended, False, state.note)

    def _state(self, mix: str) -> _State:
        """Replay the decisions. Each needs all seeds of its size, so the order of results does not matter."""
        sizes = self.problem.sizes
        low, high, top = -1, len(sizes), 0.0
        while high - low > 1:
            index = len(sizes) - 1 if high == len(sizes) else (low + high) // 2
            size = sizes[index]
            ended = ended_runs(self.problem, self.results, mix, size)
            if len(ended) < len(self.problem.seeds):
                return _State(size, low, high, f"running size {size}")
            accuracies = [result.accuracy for result in ended if result is not None]
            if not accuracies:
                return _State(None, low, high, f"stopped: every run at size {size} failed")
            mean = float(np.mean(accuracies))
            if high == len(sizes):
                top = mean
                if float(np.median(accuracies)) < ASYMPTOTE:
                    return _State(None, index, high, f"not learned at size {size}: mean accuracy {mean:.2f}")
            if mean >= LEVEL * top:
                high = index
            else:
                low = index
        if low < 0:
            return _State(None, low, high, f"learned at the smallest size, {sizes[0]}")
        return _State(None, low, high, f"between {sizes[low]} and {sizes[high]}")
