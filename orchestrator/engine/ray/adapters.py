"""A campaign as Ray Tune sees it: its searcher, its scheduler, its callback and its stopper.

Tune places stacks on machines; it remembers nothing that matters (its snapshots can lag and fail silently). The journal
is the memory.
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
    """Tune pickles what it is given for its unread snapshots: these objects leave nothing in them."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


class CampaignSearcher(NotPickled, Searcher):
    """The one ``ray.tune`` searcher: whichever strategy chooses the runs, Tune sees stacks being suggested, as many at
    a time as there is room for. An autoscaler adds machines for those that wait."""

    def __init__(self, campaign: Campaign, room: Room) -> None:
        super().__init__(metric="training_iteration", mode="max")
        self._campaign = campaign
        self._room = room
        self._out: set[str] = set()
        """The trials that are not over."""
        self.stacks: dict[str, str] = {}
        """The stack that each trial trains, by their ids."""

    def suggest(self, trial_id: str) -> Any:
        if self._campaign.done:
            return Searcher.FINISHED
        self._campaign.slots = self._room.slots
        stack = self._campaign.next_stack() if len(self._out) < self._campaign.slots else None
        if stack is None:
            return Searcher.FINISHED if self._campaign.done else None
        self.stacks[trial_id] = stack.id
        self._out.add(trial_id)
        return {"job": self._campaign.job(stack)}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        self._out.discard(trial_id)
        if not error:
            self._campaign.stack_ended(self.stacks[trial_id])

    def save(self, checkpoint_path: str) -> None:
        """The journal is the memory."""


class SlotScheduler(FIFOScheduler):
    """Starts trials in the order they come, each on the actor it was given.

    Tune's own first-in-first-out also hands a trial that waits for its new process to any actor that has become free,
    and gives the new process up. If runs are shorter than a process's start, one slot then does all the work and the
    others never open.
    """

    def choose_trial_to_run(self, tune_controller: TuneController) -> Trial | None:
        """No trial is preferred; the controller starts those that are pending."""
        return None


class CampaignCallback(NotPickled, Callback):
    """Carries results and failures from Tune to the campaign. A failed stack is started ``retries`` times again."""

    def __init__(self, campaign: Campaign, retries: int) -> None:
        self._campaign = campaign
        self._retries = retries
        self._started: dict[str, Trial] = {}
        """The trials that run, by their stacks."""
        self._messages: set[str] = set()
        """Messages of workers so far: each process of a node sends the same ones."""

    @property
    def training(self) -> bool:
        """True while a trial runs."""
        return bool(self._started)

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self._started[_job(trial).stack_id] = trial

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self._over(trial)

    def end_those_with_nothing_to_keep(self) -> None:
        """End the processes of stacks that have not come to an evaluation yet: making data may take minutes, in which
        a process does not answer."""
        for stack_id, trial in list(self._started.items()):
            if not self._campaign.has_progress(stack_id):
                del self._started[stack_id]
                actor = trial.temporary_state.ray_actor
                if actor is not None:
                    ray.kill(actor)

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        # Taken out of the result, which Tune keeps of every trial there was.
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
        _job(trial).donors.clear()  # Tune keeps the job.


class CampaignStopper(NotPickled, Stopper):
    """Ends a trial that is not wanted any more, and the experiment when the sweep is being stopped: each stack comes to
    its next evaluation, whose report is taken in, and leaves a checkpoint there."""

    def __init__(self, campaign: Campaign, callback: CampaignCallback, adapter: CampaignSearcher) -> None:
        self._campaign = campaign
        self._callback = callback
        self._adapter = adapter

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """True if this trial is to end."""
        return self._campaign.is_over(self._adapter.stacks[trial_id])

    def stop_all(self) -> bool:
        self._campaign.look()
        if self._campaign.stopping:
            self._callback.end_those_with_nothing_to_keep()
        return self._campaign.stopping and not self._callback.training


def _job(trial: Trial) -> StackJob:
    job: StackJob = trial.config["job"]
    return job
