"""Tuning as a searcher: a trial becomes requests with its values, wanted until they have learned, and a campaign trains
them like all others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from orchestrator.search.base import MixProgress, Problem, Request, Results, Searcher, SearchSettings
from orchestrator.space.spec import SweepSpec
from orchestrator.space.tuning import Tune
from orchestrator.tuning.halving import Rungs
from orchestrator.tuning.results import TuningTrial
from orchestrator.tuning.study import Study


class Tuner(Searcher):
    """Asks for the runs of every mix's study. It is told what :func:`observe_learning` sees; a run that failed is asked
    for no more, and what its trial came to is never known: whoever drives the tuning ends it there.
    """

    Settings: ClassVar[type[SearchSettings]] = SearchSettings

    def __init__(self, spec: SweepSpec) -> None:
        if spec.tune is None:
            raise ValueError("the search space asks for no tuning")
        super().__init__(Problem(tuple(mix.name for mix in spec.mixes), spec.sizes, spec.tune.seed_list))
        self._spec = spec
        self._asked: Tune = spec.tune
        self._proposed: dict[tuple[str, int], list[dict[str, float]]] = {}

    def choose(self, results: Results, pending: Sequence[Request], limit: int) -> list[Request]:
        taken = set(pending)
        wanted = [request for mix in self.problem.mixes for request in self._study(results, mix).wanted]
        # Two trials of the same values have the same runs.
        return list(dict.fromkeys(each for each in wanted if each not in results and each not in taken))[:limit]

    def progress(self) -> list[MixProgress]:
        return [self.study(mix).progress() for mix in self.problem.mixes]

    def study(self, mix: str) -> Study:
        """Where the tuning of a mix stands."""
        return self._study(self.results, mix)

    def _study(self, results: Results, mix: str) -> Study:
        return Study(self._spec, mix, results, partial(self._propose, mix))

    def _propose(self, mix: str, trials: Sequence[TuningTrial], rungs: Rungs, wanted: int) -> list[dict[str, float]]:
        """Optuna's values for the next trials. They follow from the first rung of those before, which has ended by
        then, so that each wave is worked out once."""
        if (mix, len(trials)) not in self._proposed:
            from orchestrator.tuning.proposals import propose  # Optuna takes a second, and few sweeps tune.

            self._proposed[mix, len(trials)] = propose(self._asked, trials, rungs[0], wanted)
        return self._proposed[mix, len(trials)]
