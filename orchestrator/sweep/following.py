"""Follows a sweep while it trains: shows it on the terminal, and passes each run to the record."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from orchestrator.engine.campaign import Campaign
from orchestrator.forecast.cost_estimate import run_seconds
from orchestrator.record.sweep_records import SweepRecords
from orchestrator.space.runs import Run
from orchestrator.sweep.interruption import SweepObserver
from orchestrator.sweep.invocation import TimeLimit
from orchestrator.sweep.monitor import Monitor
from orchestrator.sweep.study_plan import StudyPlan
from orchestrator.system.errors import exception_line
from orchestrator.system.text import duration
from orchestrator.terminal.live_view import LiveView
from orchestrator.terminal.output import is_closed
from trainables.base import Status

log = logging.getLogger(__name__)

SHORTEST_PRINTED_S = 1.0
"""Minimum seconds of training of a run whose time is printed."""


class Follower(SweepObserver):
    """Shows and records a sweep while it trains, and handles stop requests."""

    def __init__(
        self,
        campaign: Campaign,
        plan: StudyPlan,
        records: SweepRecords,
        view: LiveView,
        limit: TimeLimit,
        warning: Callable[[], str],
    ) -> None:
        super().__init__(campaign, plan, limit)
        self._view = view
        self._sweep = plan.sweep
        self._records = records
        # Also the runs that ended before, because an earlier process may have ended before it could record them.
        for run in plan.runs:
            records.run_ended(run)
        self._monitor = Monitor(campaign, plan, warning, run_seconds(self._sweep.spec))

    def poll(self) -> None:
        super().poll()
        self._monitor.refresh_if_due()
        if is_closed(self._view.console) and not self._campaign.stopping:
            log.warning("The program that reads this output (such as `head`) has ended, so the sweep stops")
            self._stop()

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the sweep in the live view during the block, and then its last state."""
        with self._view.showing(self._sweep.spec.title, self._monitor.snapshot):
            yield
            self._monitor.refresh()

    def ended(self, run: Run) -> None:
        self._records.run_ended(run)
        config = run.config
        is_phase = config.label not in self._sweep.spec.mix_named
        tasks = list(run.outcome.accuracy) if is_phase else [self._sweep.spec.target]
        title = self._sweep.spec.title
        self._view.run_ended(title, config.label, config.size, config.seed, ended_text(run, tasks))


def ended_text(run: Run, tasks: Sequence[str]) -> str:
    """Return how a run ended, with its scores on these tasks: ``add 0.98, finished, 900 steps in 35 s``."""
    outcome = run.outcome
    if outcome.status is Status.FAILED:
        return f"failed: {exception_line(outcome.error)}"
    accuracies = ", ".join(f"{task} {outcome.accuracy[task]:.2f}" for task in tasks)
    seconds = outcome.measures.get("seconds", 0.0)
    took = f" in {duration(seconds)}" if seconds >= SHORTEST_PRINTED_S else ""
    origin = f", trained for {run.trained_for}" if run.trained_for else ""
    return f"{accuracies}, {outcome.status}, {outcome.steps} steps{took}{origin}"
