"""The one way to train a plan of a sweep. Its tuning and its search are two plans, and are driven alike."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from orchestrator.engine.campaign import Campaign
from orchestrator.engine.engine import Engine
from orchestrator.engine.job_queue import Sizing
from orchestrator.jobs.plan import Plan
from orchestrator.jobs.timetable import Timetable
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
        sweep, slots = plan.sweep, self.engine.slots
        timed = self._timed(plan, slots)
        return Campaign(sweep.files, sweep.setup, timed, slots=slots, sizing=self.sizing, known=plan.known)

    def _timed(self, plan: StudyPlan, slots: int) -> Plan:
        """Return the plan on a timetable, so that it trains the same runs each time, if that is possible and cheap: the
        family knows the speed of its runs, each trains alone, and all slots are on this machine.

        Elsewhere, slots are not equally fast, so the fast ones would wait for the others.
        """
        spec = plan.sweep.spec
        family = spec.make_family()
        speed = family.speed(spec.resources.device)
        is_alone = all(self.sizing.most(size) == 1 for size in spec.sizes)
        if speed is None or self.options.address is not None or not is_alone:
            return plan
        return Timetable(plan, family, speed, slots)

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
