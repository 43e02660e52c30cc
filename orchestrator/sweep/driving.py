"""Trains the plans of a sweep: its tuning and its search, which are trained in the same way."""

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
    """Everything that a sweep needs to train its plans.

    Attributes:
        engine: The engine, which other sweeps may share.
        sizing: Maximum number of runs in a stack, by model size.
        options: Options of the command.
        limit: Time limit of the command.
        view: The live view.
    """

    engine: Engine
    sizing: Sizing
    options: RunOptions
    limit: TimeLimit
    view: LiveView

    def campaign(self, plan: StudyPlan) -> Campaign:
        """Return a new campaign that trains a plan's jobs."""
        sweep = plan.sweep
        return Campaign(
            sweep.files,
            sweep.setup,
            self._with_timetable(plan),
            slots=self.engine.slots,
            sizing=self.sizing,
            known=plan.known,
        )

    def _with_timetable(self, plan: StudyPlan) -> Plan:
        """Return the plan on a timetable, so that it trains the same runs each time. Return the plan itself if that is
        impossible or too expensive."""
        spec = plan.sweep.spec
        family = spec.make_family()
        speed = family.typical_speed(spec.resources.device)
        # A timetable needs the speed of runs, and that each run trains alone. On a cluster, slots are not equally fast,
        # so the fast slots would wait for the others.
        is_alone = all(self.sizing.max_runs(size) == 1 for size in spec.sizes)
        if speed is None or self.options.address is not None or not is_alone:
            return plan
        # All slots, although other sweeps may use some of them. Then the runs end later, but in the same order.
        return Timetable(plan, family, speed, self.engine.slots(spec.resources))

    def run(self, campaign: Campaign, plan: StudyPlan, observer: SweepObserver) -> Iterator[Campaign]:
        """Yield the campaign, unless it needs no training. When this continues, the plan is done or the campaign is
        stopped. The observer sees each run that ends."""
        campaign.observer = observer
        plan.on_ended = observer.ended
        if not campaign.done:
            with observer.shown():
                yield campaign
