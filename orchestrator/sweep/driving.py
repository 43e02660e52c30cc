"""Training of a sweep's plans. Its tuning and its search are two plans that are trained in the same way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.engine.campaign import Campaign
from orchestrator.engine.engine import Engine
from orchestrator.engine.job_queue import Sizing
from orchestrator.jobs.plan import Plan
from orchestrator.jobs.timetable import Timetable
from orchestrator.sweep.interruption import SweepObserver
from orchestrator.sweep.invocation import TimeLimit
from orchestrator.sweep.run_options import RunOptions
from orchestrator.sweep.study_plan import StudyPlan
from orchestrator.terminal.live_view import LiveView


@dataclass(frozen=True)
class Drive:
    """Everything that a sweep needs to train its plans, one after the other, on an engine that other sweeps may
    share."""

    engine: Engine
    sizing: Sizing
    options: RunOptions
    limit: TimeLimit
    view: LiveView

    def campaign(self, plan: StudyPlan) -> Campaign:
        """Return the campaign that trains a plan's jobs, before its first job."""
        sweep, slots = plan.sweep, self.engine.slots
        return Campaign(sweep.files, sweep.setup, self._timed(plan), slots=slots, sizing=self.sizing, known=plan.known)

    def _timed(self, plan: StudyPlan) -> Plan:
        """Return the plan on a timetable, so that it trains the same runs each time, if that is possible and cheap: the
        family knows the speed of its runs, each trains alone, and all slots are on this machine.

        Elsewhere, slots are not equally fast, so the fast ones would wait for the others. The timetable counts all
        slots, also those that other sweeps use: then its runs end later, but in the same order.
        """
        spec = plan.sweep.spec
        family = spec.make_family()
        speed = family.typical_speed(spec.resources.device)
        is_alone = all(self.sizing.max_runs(size) == 1 for size in spec.sizes)
        if speed is None or self.options.address is not None or not is_alone:
            return plan
        return Timetable(plan, family, speed, self.engine.slots(spec.resources))

    def run(self, campaign: Campaign, plan: StudyPlan, observer: SweepObserver) -> Iterator[Campaign]:
        """Yield the campaign unless it needs no training, until the plan is done or the campaign is stopped. The
        observer follows both."""
        campaign.observer = observer
        plan.on_ended = observer.ended
        if not campaign.done:
            with observer.shown():
                yield campaign
