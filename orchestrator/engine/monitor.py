"""A campaign as the person at the terminal sees it: one immutable snapshot, replaced whenever something happens."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from orchestrator.engine.campaign import Campaign, Training
from orchestrator.engine.journal import Ended
from orchestrator.progress import Counts, RunProgress, Snapshot
from trainables.base import Status

SNAPSHOT_EVERY_S = 0.2
"""A snapshot looks through all runs there were: with thousands of short ones, taking one at every event would take
longer than the events."""


class Monitor:
    """Keeps :attr:`snapshot` up to date. ``expected_s`` is what a run takes as far as is known before one has ended.

    :meth:`ended`, :meth:`changed` and :meth:`refresh` are called from the driver's thread; the snapshot may be read
    from any."""

    def __init__(self, campaign: Campaign, warning: Callable[[], str], expected_s: float) -> None:
        self._campaign = campaign
        self._warning = warning
        self._expected_s = expected_s
        self._begun = time.monotonic()
        self._counts: dict[str, Counter[Status]] = {mix.name: Counter() for mix in campaign.sweep.spec.mixes}
        self._trained = 0
        self._trained_s = 0.0
        self._family = campaign.sweep.spec.make_family()
        self.refresh()

    def snapshot(self) -> Snapshot:
        """The sweep at its last event, with the clock of now."""
        return replace(self._latest, elapsed_s=time.monotonic() - self._begun, warnings=self._warnings())

    def ended(self, entry: Ended) -> None:
        """Count a run that ended."""
        self._counts[entry.request.mix][entry.outcome.status] += 1
        if not entry.reused_from:
            self._trained += 1
            self._trained_s += entry.outcome.measures.get("seconds", 0.0)

    def changed(self) -> None:
        """Something happened: take a new snapshot, unless the last one is hardly older."""
        if time.monotonic() - self._taken >= SNAPSHOT_EVERY_S:
            self.refresh()

    def refresh(self) -> None:
        """Take a new snapshot."""
        self._taken = time.monotonic()
        campaign = self._campaign
        spec = campaign.sweep.spec
        mixes = tuple(campaign.searcher.progress())
        self._latest = Snapshot(
            size_axis=spec.size_axis,
            sizes=spec.sizes,
            mixes=mixes,
            counts={mix: _counts(counted) for mix, counted in self._counts.items()},
            in_flight=tuple(self._progress(training) for training in campaign.training.values()),
            left_s=self._left_s(sum(mix.runs_left for mix in mixes)),
            trained_s=self._trained_s,
            warnings=self._limits(),
        )

    def _warnings(self) -> tuple[str, ...]:
        said = self._warning()
        return ((said,) if said else ()) + self._latest.warnings

    def _limits(self) -> tuple[str, ...]:
        axis = self._campaign.sweep.spec.size_axis
        return tuple(
            f"out of memory at {axis} {size}: stacks of at most {most} there from now on"
            for size, most in sorted(self._campaign.limits.items())
        )

    def _left_s(self, runs_left: int) -> float:
        """Time left at most, if the runs to come take as long as those that ended."""
        each = self._trained_s / self._trained if self._trained else self._expected_s
        return runs_left * each / self._campaign.slots

    def _progress(self, training: Training) -> RunProgress:
        request, evaluation = training.ticket.request, training.evaluation
        step = 0 if evaluation is None else evaluation.step
        accuracy = None if evaluation is None else evaluation.accuracy.get(self._campaign.sweep.spec.target)
        steps = self._family.steps(training.ticket.config)
        return RunProgress(request.mix, request.size, request.seed, step, steps, accuracy)


def _counts(counted: Counter[Status]) -> Counts:
    return Counts(counted[Status.FINISHED], counted[Status.DIVERGED], counted[Status.FAILED])
