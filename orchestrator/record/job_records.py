"""Records of jobs that do not belong to a sweep of a search space, such as a list of jobs."""

from __future__ import annotations

from datetime import UTC, datetime

from orchestrator.jobs.plan import Job, SweepSetup
from orchestrator.jobs.state import State
from orchestrator.record.names_and_values import curve_samples, finite, mlflow_name, with_settings
from orchestrator.record.sweep_records import Put
from orchestrator.record.tracker import Content, Sample
from trainables.base import Outcome, Status


class JobRecords:
    """Makes the records of jobs as they end."""

    def __init__(self, setup: SweepSetup, put: Put) -> None:
        self._setup = setup
        self._put = put
        self._own = Content(
            name=setup.sweep_id,
            tags={"kind": "sweep", "sweep": setup.sweep_id, "question": ""},
            params={"family": setup.family.name},
            ended=_now(),
            group=setup.family.name.rpartition(":")[2],
        )

    def begin(self) -> None:
        """Record that training of the jobs begins."""
        self._put(lambda tracker: tracker.begin(self._own))

    def run_ended(self, job: Job, outcome: Outcome) -> None:
        """Record the outcome of a job."""
        record = self._run(job, outcome)
        self._put(lambda tracker: tracker.keep(self._own, record))

    def end(self, state: State) -> None:
        """Record that training of the jobs has ended."""
        answer = Content("", {"state": state}, {}, ended=_now(), group=self._own.group)
        self._put(lambda tracker: tracker.end(self._own, answer, state))

    def _run(self, job: Job, outcome: Outcome) -> Content:
        run = job.run
        numbers = {
            **{f"test_accuracy/{task}": accuracy for task, accuracy in outcome.accuracy.items()},
            **{f"floor/{task}": floor for task, floor in outcome.floor.items()},
            **outcome.measures,
            "steps": float(outcome.steps),
        }
        final = (Sample(mlflow_name(name), value, outcome.steps) for name, value in numbers.items())
        return Content(
            name=f"{run.label} size {run.size} seed {run.seed}",
            tags={"kind": "run", "sweep": self._setup.sweep_id, "run_key": job.key, "status": outcome.status.value},
            params=with_settings({"mix": run.label, "size": str(run.size), "seed": str(run.seed)}, run.settings),
            samples=finite((*curve_samples(outcome), *final)),
            texts={"traceback.txt": outcome.error} if outcome.status is Status.FAILED else {},
            seconds=outcome.measures.get("seconds", 0.0),
            ended=_now(),
            group=self._own.group,
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
