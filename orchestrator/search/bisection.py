"""Bisection of each mix's transition."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import ClassVar

import numpy as np

from orchestrator.search.base import MixProgress, Request, Searcher, SearchSettings
from orchestrator.search.results import cell_runs, ended_runs
from orchestrator.transition.types import LEVEL

ASYMPTOTE = 0.88
"""Minimum median accuracy at the largest size for its mean to count as an asymptote."""


class Bisection(Searcher):
    """Bisects the sizes of all mixes at once, with all seeds at each size, starting at the largest.

    A size counts as learned if its mean accuracy over the seeds is at least :data:`LEVEL` x A, where A is the mean
    accuracy at the largest size. This is the definition of the transition. A majority vote would find another size, at
    which half of the runs learn. The smallest size is run only if all other sizes learned.

    The search of a mix ends early if the median at the largest size is below :data:`ASYMPTOTE`, because A is then not
    an asymptote. It also ends if all runs of a size failed, because failed runs are not evidence.
    """

    Settings: ClassVar[type[SearchSettings]] = SearchSettings

    def choose(self, pending: Sequence[Request], limit: int, ending: Collection[Request] = ()) -> Sequence[Request]:
        taken = {*self.results, *pending}
        sizes = {mix: self._replay(mix)[0] for mix in self.problem.mixes if mix not in self.stopped}
        runs = [run for mix, size in sizes.items() if size is not None for run in cell_runs(self.problem, mix, size)]
        # Seed by seed (stack by stack), so that mixes do not wait for each other if workers are few.
        rank = {seed: position // self.stack for position, seed in enumerate(self.problem.seeds)}
        return sorted([run for run in runs if run not in taken], key=lambda run: rank[run.seed])[:limit]

    def progress_of(self, mix: str) -> MixProgress:
        return self._replay(mix)[1]

    def _replay(self, mix: str) -> tuple[int | None, MixProgress]:
        """Return the size to decide next, or None at the end, and the mix's progress.

        Each decision needs all seeds of its size, so the order of results does not matter.
        """
        sizes = self.problem.sizes
        seeds = self.problem.seeds
        # Index of the largest size known not to learn, -1 if there is none.
        low = -1
        # Index of the smallest size known to learn, the number of sizes if there is none.
        high = len(sizes)
        top = 0.0

        def state(runs_left: int = 0) -> MixProgress:
            failed = sizes[low] if low >= 0 else None
            learned = sizes[high] if high < len(sizes) else None
            return MixProgress(mix, failed, learned, runs_left, done=runs_left == 0)

        while high - low > 1:
            is_first = high == len(sizes)
            index = len(sizes) - 1 if is_first else (low + high) // 2
            ended = ended_runs(self.problem, self.results, mix, sizes[index])
            if len(ended) < len(seeds):
                # After the current size, the undecided sizes are halved until none is left.
                undecided = len(sizes) - 1 if is_first else high - low - 1
                decisions = math.ceil(math.log2(undecided + 1)) + is_first
                return sizes[index], state(decisions * len(seeds) - len(ended))
            accuracies = [result.accuracy for result in ended if result is not None]
            if not accuracies:
                return None, state()
            mean = float(np.mean(accuracies))
            if is_first:
                top = mean
                if float(np.median(accuracies)) < ASYMPTOTE:
                    low = index
                    return None, state()
            if mean >= LEVEL * top:
                high = index
            else:
                low = index
        return None, state()
