"""The plan of a sweep's tuning. Its jobs are the runs of every mix's trials; its result is the settings of each mix."""

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
    """Trains the trials of a sweep with settings to tune. Its searcher ranks settings by how soon runs learn."""

    def __init__(self, sweep: Sweep, journal: Journal, trials: Iterable[Run] = ()) -> None:
        """Continue a tuning, given the runs of its trials that are in the journal. Failed runs are trained again."""
        # Without probes, because the models are dropped as soon as they have learned.
        plain = replace(sweep, spec=sweep.spec.model_copy(update={"tune": None, "probes": ()}))
        known = [run for run in trials if run.outcome.status is not Status.FAILED]
        self._tuner = Tuner(sweep.spec)
        super().__init__(plain, self._tuner, journal, known=known)

    def point(self, run: Run) -> Point | None:
        return learning_point(run, self.sweep.spec.target)

    def studies(self) -> list[Study]:
        """Return the study of each mix so far."""
        return self._tuner.studies()

    @property
    def failed(self) -> Run | None:
        """The first run that failed, or None. After a failure the tuning must stop, because the trial of that run
        cannot be ranked."""
        return next((run for run in self.runs if run.outcome.status is Status.FAILED), None)
