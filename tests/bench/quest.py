"""QUEST+ (Watson 2017, Journal of Vision 17(3):10), the adaptive method of psychophysics, as a searcher to compare
with: the next run is the one that leaves the least expected entropy over threshold, slope and lapse rate of a Weibull
curve. It counts runs, not their cost, and sees runs as learned or not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from questplus import QuestPlusWeibull

from orchestrator.search.base import MixProgress, Request, Results, Searcher, SearchSettings
from orchestrator.search.evidence import bracket, points, requests
from orchestrator.transition.types import LEVEL

SLOPES = np.geomspace(2.5, 80, 9)
LAPSES = (0.005, 0.03, 0.06)
THRESHOLDS = 46
FALSE_ALARMS = 0.01


@dataclass(frozen=True)
class QuestSettings(SearchSettings):
    """``trials``: runs spent on a mix."""

    trials: int = 24


class Quest(Searcher):
    """QUEST+ for every mix, one run at a time and mix after mix."""

    Settings: ClassVar[type[SearchSettings]] = QuestSettings
    settings: QuestSettings

    def choose(self, results: Results, pending: Sequence[Request], limit: int) -> list[Request]:
        busy = {request.mix for request in pending}
        wanted = (self._next(mix, results) for mix in self.problem.mixes if mix not in busy)
        return [request for request in wanted if request is not None][:limit]

    def progress(self) -> list[MixProgress]:
        return [self._progress(mix) for mix in self.problem.mixes]

    def _progress(self, mix: str) -> MixProgress:
        left = self.settings.trials - self._spent(mix, self.results)
        return MixProgress(mix, *bracket(self.problem, self.results, mix), left, left <= 0, f"{left} trials left")

    def _spent(self, mix: str, results: Results) -> int:
        return sum(request.mix == mix for request in results)

    def _next(self, mix: str, results: Results) -> Request | None:
        if self._spent(mix, results) >= self.settings.trials:
            return None
        sizes = [math.log10(size) for size in self.problem.sizes]
        quest = QuestPlusWeibull(
            intensities=sizes,
            thresholds=np.linspace(sizes[0], sizes[-1], THRESHOLDS),
            slopes=SLOPES,
            lower_asymptotes=(FALSE_ALARMS,),
            lapse_rates=LAPSES,
            stim_scale="log10",
        )
        for point in points(self.problem, results, mix):
            quest.update(intensity=math.log10(point.size), response="Yes" if point.accuracy >= LEVEL else "No")
        nearest = int(np.argmin(np.abs(np.array(sizes) - float(quest.next_intensity))))
        ordered = sorted(self.problem.sizes, key=lambda size: abs(self.problem.sizes.index(size) - nearest))
        free = [run for size in ordered for run in requests(self.problem, mix, size) if run not in results]
        return free[0] if free else None
