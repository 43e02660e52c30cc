"""The one way to train a plan of a sweep. Its tuning and its search are two plans, and are driven alike."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from orchestrator.engine.campaign import Campaign
from orchestrator.engine.engine import Engine
from orchestrator.engine.job_queue import Sizing
from orchestrator.sweep.interruption import StopRequests, stop_on_interrupt
from orchestrator.sweep.invocation import Invocation
from orchestrator.sweep.run_options import RunOptions
from orchestrator.sweep.study_plan import StudyPlan


@dataclass(frozen=True)
class Drive:
    """Trains the plans of a sweep, one after the other, on one engine."""

    engine: Engine
    sizing: Sizing
    options: RunOptions
    invocation: Invocation

    def campaign(self, plan: StudyPlan) -> Campaign:
        """Return the campaign that trains a plan's jobs, before its first job."""
        sweep = plan.sweep
        return Campaign(sweep.files, sweep.setup, plan, slots=self.engine.slots, sizing=self.sizing, known=plan.known)

    def stoppable(self, campaign: Campaign) -> AbstractContextManager[None]:
        """During the block, stop the campaign on signals, and end the process if the engine dies."""
        return stop_on_interrupt(campaign, self.engine, self.options, self.invocation)

    def run(self, campaign: Campaign, plan: StudyPlan, observer: StopRequests) -> None:
        """Train until the plan is done or the campaign is stopped. The observer follows both."""
        campaign.observer = observer
        plan.on_ended = observer.ended
        if not campaign.done:
            with observer.shown():
                self.engine.execute(campaign)
