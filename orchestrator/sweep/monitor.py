"""Immutable snapshots of a campaign for the live view and Ray's page, replaced at every event."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import replace

from orchestrator.cost import STARTUP_S, cost_of
from orchestrator.engine.campaign import Campaign
from orchestrator.engine.state import Training
from orchestrator.report.words.transitions import estimate
from orchestrator.search.results import points
from orchestrator.sweep.time_left import time_left
from orchestrator.terminal.snapshot import Counts, RunProgress, Snapshot, SoFar, by_size
from orchestrator.transition.transition import transition
from orchestrator.transition.types import Verdict
from trainables.base import Status

SNAPSHOT_EVERY_S, SHARE = 0.2, 0.05
"""Shortest time between two snapshots, and the largest share of the time for each: a snapshot goes through all runs,
the time left through all runs to come."""
WINDOW_S = 60.0
"""Throughput is measured over this many seconds."""


class Monitor:
    """Keeps a snapshot up to date. ``expected`` are seconds of a run by size.

    :meth:`changed` and :meth:`refresh` are called from the driver's thread, :meth:`snapshot` from any other one."""

    def __init__(self, campaign: Campaign, warning: Callable[[], str], expected: Mapping[int, float]) -> None:
        self._campaign = campaign
        self._warning = warning
        self._expected = expected
        self._begun = time.monotonic()
        self._family = campaign.sweep.spec.make_family()
        self._progressed: deque[tuple[float, int]] = deque()
        self._judged: dict[str, tuple[int, SoFar]] = {}
        self._grid: tuple[int, float | None] = (-1, None)
        self._left: tuple[int, float, float] | None = None
        """Runs that had ended, the time, and the seconds left then."""
        self._next_left_at = self._begun
        self._took_s = 0.0
        self.refresh()

    def snapshot(self) -> Snapshot:
        """The sweep at its last event, with the time passed by now and the verdicts of its runs."""
        latest, said, mixes = self._latest, self._warning(), [mix.name for mix in self._campaign.sweep.spec.mixes]
        return replace(
            latest,
            elapsed_s=time.monotonic() - self._begun,
            left_s=self._left_s(),
            grid_s=self._grid_s(),
            so_far={mix: found for mix in mixes if (found := self._judge(mix)) is not None},
            warnings=(said, *latest.warnings) if said else latest.warnings,
        )

    def changed(self) -> None:
        """Something happened: take a new snapshot, unless the last one is very recent."""
        if time.monotonic() - self._taken >= max(SNAPSHOT_EVERY_S, self._took_s / SHARE):
            self.refresh()

    def refresh(self) -> None:
        """Take a new snapshot."""
        self._taken = time.monotonic()
        campaign, spec = self._campaign, self._campaign.sweep.spec
        training = tuple(campaign.training.values())
        # Branches and copies: other threads read them while the driver goes on telling and asking.
        self._searcher, self._ended = campaign.searcher.branch(), tuple(campaign.state.records)
        self._training = [
            (each.ticket.request, 1 - each.step / max(self._family.steps(each.ticket.config), 1))
            for each in training
            if not each.ticket.request.phase  # No searcher asked for a phase.
        ]
        counts: dict[str, Counter[Status]] = {mix.name: Counter() for mix in spec.mixes}
        for entry in campaign.state.entries:
            if not entry.request.phase:
                counts[entry.request.mix][entry.outcome.status] += 1
        here = [run.outcome for run in self._ended if not run.found_in]
        self._latest = Snapshot(
            size_axis=spec.size_axis,
            sizes=spec.sizes,
            mixes=tuple(campaign.searcher.progress()),
            counts={mix: _counts(counted) for mix, counted in counts.items()},
            in_flight=tuple(map(self._progress, training)),
            trained_s=sum(outcome.measures.get("seconds", 0.0) for outcome in here),
            steps_per_s=self._steps_per_s(sum(each.steps for each in here) + sum(each.step for each in training)),
            warnings=tuple(
                f"out of memory at {spec.size_axis} {size}: stacks of at most {most} there from now on"
                for size, most in sorted(campaign.limits.items())
            ),
        )
        self._took_s = time.monotonic() - self._taken

    def _progress(self, training: Training) -> RunProgress:
        request, evaluation = training.ticket.request, training.evaluation
        accuracy = None if evaluation is None else evaluation.accuracy.get(self._campaign.sweep.spec.target)
        steps = self._family.steps(training.ticket.config)
        left_s = training.left_s(steps, self._taken)
        return RunProgress(request.mix, request.size, request.seed, training.step, steps, accuracy, left_s)

    def _steps_per_s(self, steps: int) -> float | None:
        """Steps a second of all runs over the last minute; None before the second snapshot."""
        now = time.monotonic()
        self._progressed.append((now, steps))
        while len(self._progressed) > 2 and now - self._progressed[1][0] >= WINDOW_S:
            self._progressed.popleft()
        then, steps_then = self._progressed[0]
        return (steps - steps_then) / (now - then) if now > then and steps > steps_then else None

    def _left_s(self) -> float:
        """Computed on demand, at first with the workers' start, and again only once a run has ended: repeated without
        news, its end would move on for ever."""
        now, ended = time.monotonic(), self._ended
        if self._left is None or (self._left[0] != len(ended) and now >= self._next_left_at):
            measures = [run.outcome.measures for run in ended if not run.found_in]
            computed = sum(each.get("seconds", 0.0) for each in measures)
            passed = sum(each.get("wall_seconds", each.get("seconds", 0.0)) for each in measures)
            slowdown, workers = max(1.0, passed / computed) if computed else 1.0, self._campaign.slots
            found = time_left(self._searcher, self._training, self._expected, workers=workers, slowdown=slowdown)
            self._left = len(ended), now, found + (STARTUP_S if self._left is None else 0.0)
            self._next_left_at = time.monotonic() + (time.monotonic() - now) / SHARE
        return max(self._left[2] - (now - self._left[1]), 0.0)

    def _grid_s(self) -> float | None:
        """Seconds of the whole grid; computed on demand, at most once after each run that ended."""
        if self._grid[0] != len(self._ended):
            ended = self._ended
            self._grid = (len(ended), cost_of(self._campaign.sweep.spec, ended).grid_s)
        return self._grid[1]

    def _judge(self, mix: str) -> SoFar | None:
        """A mix's transition; None before a run has ended. Computed on demand, at most once after each run that
        ended."""
        spec, searcher = self._campaign.sweep.spec, self._searcher
        ended = points(searcher.results, mix)
        if not ended:
            return None
        if mix not in self._judged or self._judged[mix][0] != len(ended):
            told = transition(ended, spec.sizes)
            tested = [point.size for point in ended]
            words = estimate(told.relative, min(tested), max(tested), told.verdict)
            posterior = () if told.density is None else by_size(told.density, spec.sizes)
            self._judged[mix] = (len(ended), SoFar(words, told.verdict is Verdict.FOUND, posterior))
        return self._judged[mix][1]


def _counts(counted: Counter[Status]) -> Counts:
    return Counts(counted[Status.FINISHED], counted[Status.DIVERGED], counted[Status.FAILED])
