"""A campaign as a searcher and a callback of Ray Tune, with a matching scheduler.

Tune only places stacks on machines. Its own snapshots may lag or fail silently, so only the journal is trusted.
"""

from __future__ import annotations

from typing import Any

import ray
from ray.tune import Callback, Stopper
from ray.tune.execution.tune_controller import TuneController
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher

from orchestrator.engine.campaign import Campaign
from orchestrator.engine.messages import StackJob
from orchestrator.engine.ray.cluster import Room
from orchestrator.engine.ray.machine_errors import farewell_of, machine_error_of, traceback_of
from orchestrator.engine.ray.trial import REPORT, Sealed


class NotPickled:
    """Excludes an object from Tune's snapshots, which are never read."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


class CampaignSearcher(NotPickled, Searcher):
    """Suggests stacks to Tune, as many as there is room for. An autoscaler adds machines for the waiting stacks."""

    def __init__(self, campaign: Campaign, room: Room) -> None:
        super().__init__(metric="training_iteration", mode="max")
        self._campaign = campaign
        self._room = room

    def suggest(self, trial_id: str) -> Any:
        campaign = self._campaign
        campaign.slots = self._room.slots(campaign.resources)
        stack = None
        if not campaign.done and len(campaign.table.stacks) < campaign.slots:
            stack = campaign.next_stack()
        if stack is None:
            return Searcher.FINISHED if campaign.done else None
        return {"job": Sealed(campaign.job(stack))}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Do nothing, because :class:`CampaignCallback` reports the end of a trial."""

    def save(self, checkpoint_path: str) -> None:
        """Do nothing, because the journal has all results."""


class SlotScheduler(FIFOScheduler):
    """Starts trials in order, each on a separate actor.

    Tune's FIFO scheduler also moves a trial that waits for a new process to any actor that becomes free, and drops the
    new process. If runs are shorter than the start of a process, a single slot then does all the work.
    """

    def choose_trial_to_run(self, tune_controller: TuneController) -> Trial | None:
        """Return no trial, so that the controller starts the pending trials."""
        return None


class CampaignCallback(NotPickled, Callback, Stopper):
    """Passes results and failures from Tune to the campaign, and ends unwanted trials. A failed stack is retried
    ``retries`` times. When the sweep stops, the experiment ends after each stack has left a checkpoint."""

    def __init__(self, campaign: Campaign, retries: int) -> None:
        self._campaign = campaign
        self._retries = retries
        self._started: dict[str, Trial] = {}
        """Running trials by id."""

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self._started[trial.trial_id] = trial

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        if REPORT in result:
            # Removed because Tune keeps the last result of every trial.
            self._campaign.take_in(job_of(trial).stack_id, result.pop(REPORT))

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        # Tune calls this only after a result that the campaign took in, and ends the worker after this call.
        if (actor := trial.temporary_state.ray_actor) is not None:
            actor.confirm.remote()
        self._campaign.stack_ended(self._over(trial))

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        stack_id = self._over(trial)
        if farewell := farewell_of(trial):
            self._campaign.stack_left(stack_id, farewell)
        elif machine_error := machine_error_of(trial):
            self._campaign.stack_met_machine_error(stack_id, machine_error)
        else:
            self._campaign.stack_failed(stack_id, traceback_of(trial), retries=self._retries)

    def _over(self, trial: Trial) -> str:
        self._started.pop(trial.trial_id, None)
        job_of(trial).donors.clear()  # Tune keeps the job, and the weights are large.
        return job_of(trial).stack_id

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Return True if a trial is not wanted."""
        trial = self._started.get(trial_id)
        return trial is None or self._campaign.is_over(job_of(trial).stack_id)

    def stop_all(self) -> bool:
        """Return True if the experiment should end. Once the sweep stops, end the processes of stacks without an
        evaluation, which may not respond for minutes while making data."""
        self._campaign.look()
        if not self._campaign.stopping:
            return False
        for trial in list(self._started.values()):
            if not self._campaign.has_progress(job_of(trial).stack_id):
                del self._started[trial.trial_id]
                if (actor := trial.temporary_state.ray_actor) is not None:
                    ray.kill(actor)
        return not self._started


def job_of(trial: Trial) -> StackJob:
    """Return the job of a trial of this driver."""
    job: StackJob = trial.config["job"].open()
    return job
