"""The tuning of a sweep as a plan: its jobs are the trials of every mix, and its result the settings of each mix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from orchestrator.history.journal import Journal
from orchestrator.history.sweeps import Sweep
from orchestrator.space.runs import Run
from orchestrator.sweep.study_plan import StudyPlan
from orchestrator.sweep.tuning_study import Study, Tuner, learning_point
from orchestrator.transition.types import Point
from trainables.base import Status


class TuningPlan(StudyPlan):
    """The trials of a sweep with settings to tune. Its searcher ranks settings by how soon runs learn."""

    def __init__(self, sweep: Sweep, journal: Journal, trials: Iterable[Run] = ()) -> None:
        """Continue a tuning whose ``trials`` are in the journal. Those that failed are trained again."""
        # Trials are not probed: their models end as soon as they have learned.
        plain = replace(sweep, spec=sweep.spec.model_copy(update={"tune": None, "probes": ()}))
        known = [run for run in trials if run.outcome.status is not Status.FAILED]
        self._tuner = Tuner(sweep.spec)
        super().__init__(plain, self._tuner, journal, known=known)

    def point(self, run: Run) -> Point | None:
        return learning_point(run, self.sweep.spec.target)

    def studies(self) -> list[Study]:
        """Return the tuning of each mix so far."""
        return self._tuner.studies()

    @property
    def failed(self) -> Run | None:
        """The first run that failed, or None. Its trial cannot be ranked, so the tuning must stop."""
        return next((run for run in self.runs if run.outcome.status is Status.FAILED), None)
