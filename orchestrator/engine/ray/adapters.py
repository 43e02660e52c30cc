"""The work of an engine as a searcher and a callback of Ray Tune, with a matching scheduler.

Tune only places stacks on machines. Its own snapshots may lag or fail silently, so only the journal is trusted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune import Callback, Stopper
from ray.tune.execution.tune_controller import TuneController
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher

from orchestrator.engine.messages import StackJob
from orchestrator.engine.ray.machine_errors import farewell_of, machine_error_of, traceback_of
from orchestrator.engine.ray.trial import CODE, DIRECTORY, FAMILY, JOB, REPORT, Sealed
from orchestrator.engine.work import Work

STACK = "stack"
"""Key of a stack's id in the configuration of its trial."""
MOST_IDLE = 10_000
"""More processes than a machine has slots."""


class NotPickled:
    """Excludes an object from Tune's snapshots, which are never read."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


class StackSearcher(NotPickled, Searcher):
    """Suggests stacks to Tune, as many as there is room for. An autoscaler adds machines for the waiting stacks."""

    def __init__(self, work: Work) -> None:
        super().__init__(metric="training_iteration", mode="max")
        self._work = work

    def suggest(self, trial_id: str) -> Any:
        work = self._work
        stack = None if work.done else work.next_stack()
        if stack is None:
            return Searcher.FINISHED if work.done else None
        job = work.job(stack)
        directory = str(Path(job.setup.directory).resolve())
        code = tuple(job.setup.code.items())
        return {STACK: stack.id, FAMILY: job.setup.family.name, CODE: code, DIRECTORY: directory, JOB: Sealed(job)}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Do nothing, because :class:`StackCallback` reports the end of a trial."""

    def save(self, checkpoint_path: str) -> None:
        """Do nothing, because the journal has all results."""


class SlotScheduler(FIFOScheduler):
    """Starts trials in order, each on a separate actor.

    Tune's FIFO scheduler also moves a trial that waits for a new process to any actor that becomes free, and drops the
    new process. If runs are shorter than the start of a process, a single slot then does all the work.

    Tune also ends a process whose trial has ended, unless another trial waits for it or all others are busy. A search
    often asks for the next runs only when several have ended, and a new process takes some ten seconds of a core. With
    ``keeps_idle``, idle processes stay until a trial needs other resources. A cluster would keep idle nodes for them.
    """

    def __init__(self, *, keeps_idle: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # the base has no types
        self._keeps_idle = keeps_idle
        self._kept: tune.PlacementGroupFactory | None = None
        """Resources of the idle processes that stay."""

    def choose_trial_to_run(self, tune_controller: TuneController) -> Trial | None:
        """Return no trial, so that the controller starts the pending trials."""
        pending = [trial for trial in tune_controller.get_live_trials() if trial.status == Trial.PENDING]
        needs = {trial.placement_group_factory for trial in pending}
        if self._keeps_idle and needs and needs != {self._kept}:
            # An idle process of one kind would keep trials of another kind waiting.
            self._keep(needs.pop() if len(needs) == 1 else None, tune_controller)
        return None

    def _keep(self, needs: tune.PlacementGroupFactory | None, tune_controller: TuneController) -> None:
        """Let Tune keep idle processes with these resources alone."""
        cache = tune_controller._actor_cache
        if self._kept is not None:
            cache.decrease_max(self._kept, MOST_IDLE)
        if needs is not None:
            cache.increase_max(needs, MOST_IDLE)
        self._kept = needs


class StackCallback(NotPickled, Callback, Stopper):
    """Passes results and failures from Tune to the work, and ends unwanted trials. When all the work stops, the
    experiment ends after each stack has left a checkpoint."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._started: dict[str, Trial] = {}
        """Running trials by id."""

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self._started[trial.trial_id] = trial

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        if REPORT in result:
            # Removed because Tune keeps the last result of every trial.
            self._work.take_in(stack_of(trial), result.pop(REPORT))

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        # Tune calls this only after a result that the campaign took in, and ends the worker after this call.
        if (actor := trial.temporary_state.ray_actor) is not None:
            actor.confirm.remote()
        self._work.stack_ended(self._over(trial))

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        stack_id = self._over(trial)
        if farewell := farewell_of(trial):
            self._work.stack_left(stack_id, farewell)
        elif machine_error := machine_error_of(trial):
            self._work.stack_met_machine_error(stack_id, machine_error)
        else:
            self._work.stack_failed(stack_id, traceback_of(trial), retries=job_of(trial).resources.retries)

    def _over(self, trial: Trial) -> str:
        self._started.pop(trial.trial_id, None)
        job_of(trial).donors.clear()  # Tune keeps the job, and the weights are large.
        return stack_of(trial)

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Return True if a trial is not wanted."""
        trial = self._started.get(trial_id)
        return trial is None or self._work.is_over(stack_of(trial))

    def stop_all(self) -> bool:
        """Return True if the experiment should end. Once a sweep stops, end the processes of its stacks without an
        evaluation, which may not respond for minutes while making data."""
        self._work.poll()
        for trial in list(self._started.values()):
            if self._work.may_be_killed(stack_of(trial)):
                if (actor := trial.temporary_state.ray_actor) is not None:
                    ray.kill(actor)
                if self._work.stopping:  # Otherwise the experiment goes on, and Tune reports the end of this trial.
                    del self._started[trial.trial_id]
        return self._work.stopping and not self._started


def stack_of(trial: Trial) -> str:
    """Return the id of a trial's stack."""
    return str(trial.config[STACK])


def job_of(trial: Trial) -> StackJob:
    """Return the job of a trial of this driver."""
    job: StackJob = trial.config[JOB].open()
    return job
