"""A campaign as a searcher, a callback and a stopper of Ray Tune, with a matching scheduler.

Tune only places stacks on machines. Its own snapshots may lag or fail silently, so only the journal is trusted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ray
from ray.tune import Callback, Stopper
from ray.tune.execution.tune_controller import TuneController
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher

from orchestrator.engine.base import StackJob, StackReport
from orchestrator.engine.campaign import Campaign
from orchestrator.engine.ray.cluster import Room
from orchestrator.engine.ray.deaths import machine_error_of, traceback_of
from orchestrator.engine.ray.trial import REPORT


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
        self._live: set[str] = set()
        self.stacks: dict[str, str] = {}
        """Stack ids by trial id."""

    def suggest(self, trial_id: str) -> Any:
        if self._campaign.done:
            return Searcher.FINISHED
        self._campaign.slots = self._room.slots
        stack = self._campaign.next_stack() if len(self._live) < self._campaign.slots else None
        if stack is None:
            return Searcher.FINISHED if self._campaign.done else None
        self.stacks[trial_id] = stack.id
        self._live.add(trial_id)
        return {"job": self._campaign.job(stack)}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        self._live.discard(trial_id)
        if not error:
            self._campaign.stack_ended(self.stacks[trial_id])

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


class CampaignCallback(NotPickled, Callback):
    """Passes results and failures from Tune to the campaign. A failed stack is retried ``retries`` times."""

    def __init__(self, campaign: Campaign, retries: int) -> None:
        self._campaign = campaign
        self._retries = retries
        self._started: dict[str, Trial] = {}
        """Running trials by stack id."""
        self._messages: set[str] = set()
        """Messages so far, because every process on a node sends the same messages."""

    @property
    def training(self) -> bool:
        return bool(self._started)

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self._started[_job(trial).stack_id] = trial

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self._over(trial)

    def end_stacks_without_progress(self) -> None:
        """End the processes of stacks without an evaluation. They may not respond for minutes while making data."""
        for stack_id, trial in list(self._started.items()):
            if not self._campaign.has_progress(stack_id):
                del self._started[stack_id]
                actor = trial.temporary_state.ray_actor
                if actor is not None:
                    ray.kill(actor)

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        # Removed because Tune keeps the last result of every trial.
        report: StackReport | None = result.pop(REPORT, None)
        if report is not None:
            new = tuple(text for text in report.messages if text not in self._messages)
            self._messages.update(new)
            self._campaign.take_in(_job(trial).stack_id, replace(report, messages=new))

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        stack_id = _job(trial).stack_id
        self._over(trial)
        if machine_error := machine_error_of(trial):
            self._campaign.stack_met_machine_error(stack_id, machine_error)
        else:
            self._campaign.stack_failed(stack_id, traceback_of(trial), retries=self._retries)

    def _over(self, trial: Trial) -> None:
        self._started.pop(_job(trial).stack_id, None)
        _job(trial).donors.clear()  # Tune keeps the job, and the weights are large.


class CampaignStopper(NotPickled, Stopper):
    """Ends unwanted trials, and the experiment when the sweep stops, after each stack has left a checkpoint."""

    def __init__(self, campaign: Campaign, callback: CampaignCallback, adapter: CampaignSearcher) -> None:
        self._campaign = campaign
        self._callback = callback
        self._adapter = adapter

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return self._campaign.is_over(self._adapter.stacks[trial_id])

    def stop_all(self) -> bool:
        self._campaign.look()
        if self._campaign.stopping:
            self._callback.end_stacks_without_progress()
        return self._campaign.stopping and not self._callback.training


def _job(trial: Trial) -> StackJob:
    job: StackJob = trial.config["job"]
    return job
