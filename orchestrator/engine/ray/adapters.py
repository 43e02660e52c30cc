"""The work of an engine as a searcher, a scheduler and a callback of Ray Tune.

Tune only places stacks on machines. Its own snapshots may be late or fail silently, so only the journal is trusted.
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
from orchestrator.engine.ray.failures import farewell_of, machine_error_of, traceback_of
from orchestrator.engine.ray.trial import CODE, DIRECTORY, FAMILY, JOB, REPORT, PickledLater
from orchestrator.engine.work import Work

STACK = "stack"
"""Key of a stack's id in the configuration of its trial."""
MOST_IDLE = 10_000
"""Number of idle processes to keep. It is larger than the number of slots of any machine, so all are kept."""


class NotPickled:
    """Excludes an object from Tune's snapshots, which nothing reads."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


class StackSearcher(NotPickled, Searcher):
    """Suggests as many stacks to Tune as there is room for. An autoscaler adds machines for the waiting stacks."""

    def __init__(self, work: Work) -> None:
        super().__init__(metric="training_iteration", mode="max")
        self._work = work

    def suggest(self, trial_id: str) -> Any:
        """Return the configuration of a stack's trial. Return None if no stack can start now, and ``FINISHED`` if the
        work is done."""
        work = self._work
        stack = None if work.done else work.next_stack()
        if stack is None:
            return Searcher.FINISHED if work.done else None
        job = work.job(stack)
        return {
            STACK: stack.id,
            FAMILY: job.setup.family.name,
            CODE: tuple(job.setup.code.items()),
            DIRECTORY: str(Path(job.setup.directory).resolve()),
            JOB: PickledLater(job),
        }

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Do nothing, because :class:`StackCallback` reports the end of a trial."""

    def save(self, checkpoint_path: str) -> None:
        """Do nothing, because the journal has all results."""


class SlotScheduler(FIFOScheduler):
    """Starts trials in order, each on a separate actor.

    Tune's FIFO scheduler would also move a trial that waits for a new process to any actor that becomes free, and drop
    the new process. If runs are shorter than the start of a process, a single slot would then do all the work.
    """

    def __init__(self, *, keeps_idle: bool) -> None:
        """Make a scheduler. With ``keeps_idle``, idle processes stay until a trial needs other resources.

        By default, Tune ends a process whose trial has ended, unless another trial waits for it or all others are busy.
        But a search often requests the next runs only when several have ended, and a new process takes some ten seconds
        of a core. On a cluster, ``keeps_idle`` should be False, because idle processes would keep idle nodes alive.
        """
        super().__init__()  # type: ignore[no-untyped-call] # the base has no types
        self._keeps_idle = keeps_idle
        self._kept: tune.PlacementGroupFactory | None = None
        """Resources of the idle processes that stay."""

    def choose_trial_to_run(self, tune_controller: TuneController) -> Trial | None:
        """Return None, so that the controller starts the pending trials itself. Update which processes stay idle."""
        pending = [trial for trial in tune_controller.get_live_trials() if trial.status == Trial.PENDING]
        needs = {trial.placement_group_factory for trial in pending}
        if self._keeps_idle and needs and needs != {self._kept}:
            # An idle process of one kind would keep trials of another kind waiting.
            self._keep(needs.pop() if len(needs) == 1 else None, tune_controller)
        return None

    def _keep(self, needs: tune.PlacementGroupFactory | None, tune_controller: TuneController) -> None:
        """Let Tune keep idle processes with these resources, and no other idle processes."""
        cache = tune_controller._actor_cache
        if self._kept is not None:
            cache.decrease_max(self._kept, MOST_IDLE)
        if needs is not None:
            cache.increase_max(needs, MOST_IDLE)
        self._kept = needs


class StackCallback(NotPickled, Callback, Stopper):
    """Passes results and failures from Tune to the work, and ends unwanted trials. If the work stops, the experiment
    ends after each stack has saved a checkpoint."""

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
            self._work.handle_report(stack_of(trial), result.pop(REPORT))

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        # Tune calls this only after the campaign has handled the last report, and ends the worker after this call.
        if (actor := trial.temporary_state.ray_actor) is not None:
            actor.confirm.remote()
        self._work.stack_ended(self._over(trial))

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        stack_id = self._over(trial)
        if farewell := farewell_of(trial):
            self._work.stack_moved(stack_id, farewell)
        elif machine_error := machine_error_of(trial):
            self._work.stack_met_machine_error(stack_id, machine_error)
        else:
            self._work.stack_failed(stack_id, traceback_of(trial), retries=job_of(trial).resources.retries)

    def _over(self, trial: Trial) -> str:
        """Note that a trial has ended, and return the id of its stack."""
        self._started.pop(trial.trial_id, None)
        job_of(trial).donors.clear()  # Tune keeps the job, and the weights are large.
        return stack_of(trial)

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Return True if a trial should end, because it is no longer wanted. Tune calls this after each result."""
        trial = self._started.get(trial_id)
        return trial is None or self._work.should_end(stack_of(trial))

    def stop_all(self) -> bool:
        """Return True if the experiment should end. Tune calls this often, so it also polls the work and kills the
        processes that may be killed."""
        self._work.poll()
        for trial in list(self._started.values()):
            # A stack that has not reported since it started may be making data, and not respond for minutes.
            if self._work.may_be_killed(stack_of(trial)):
                if (actor := trial.temporary_state.ray_actor) is not None:
                    ray.kill(actor)
                if self._work.stopping:  # Otherwise the experiment continues, and Tune reports the end of this trial.
                    del self._started[trial.trial_id]
        return self._work.stopping and not self._started


def stack_of(trial: Trial) -> str:
    """Return the id of the stack that a trial trains."""
    return str(trial.config[STACK])


def job_of(trial: Trial) -> StackJob:
    """Return the job of a trial that this driver started."""
    job: StackJob = trial.config[JOB].open()
    return job
