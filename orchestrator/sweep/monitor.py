"""Immutable snapshots of a campaign for the terminal, replaced at every event."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from orchestrator.cost import cost_of
from orchestrator.engine.campaign import Campaign
from orchestrator.engine.state import Training
from orchestrator.home.files import SweepFiles
from orchestrator.home.journal import Ended
from orchestrator.home.lifecycle import record_of
from orchestrator.home.records import RunRecord
from orchestrator.report.words import verdicts
from orchestrator.search.base import Request
from orchestrator.simulation.remaining import Running
from orchestrator.space.evidence import scores
from orchestrator.sweep.forecast import Forecaster, Promise
from orchestrator.sweep.rates import Paced, Rates
from orchestrator.terminal.snapshot import Counts, RunProgress, Snapshot, Verdict, by_size
from orchestrator.transition import types as transition_types
from orchestrator.transition.transition import transition
from orchestrator.transition.types import Point
from trainables.base import Status

SNAPSHOT_EVERY_S, SNAPSHOT_SHARE = 0.2, 0.05
"""Shortest time between two snapshots, and their largest share of the driver's time: each goes through all runs."""
WINDOW_S = 60.0
"""Throughput is measured over this many seconds."""


class Monitor:
    """Keeps :attr:`snapshot` up to date. ``expected`` are seconds of a run by size.

    :meth:`ended`, :meth:`changed` and :meth:`refresh` are called from the driver's thread; the snapshot may be read
    from any."""

    def __init__(self, campaign: Campaign, warning: Callable[[], str], expected: Mapping[int, float]) -> None:
        self._campaign = campaign
        self._warning = warning
        self._rates = Rates(expected)
        self._forecaster = Forecaster(expected)
        self._bound = Promise()
        self._begun = time.monotonic()
        spec = campaign.sweep.spec
        self._counts: dict[str, Counter[Status]] = {mix.name: Counter() for mix in spec.mixes}
        self._points: dict[str, tuple[Point, ...]] = {mix.name: () for mix in spec.mixes}
        self._judged: dict[str, tuple[int, tuple[float, ...], Verdict]] = {}
        self._known: list[RunRecord] = []
        self._trained_s = 0.0
        self._grid: tuple[int, float | None] = (0, None)
        self._steps_ended = 0
        self._whole: dict[int, int] = {}
        self._progressed: deque[tuple[float, int]] = deque()
        self._family = spec.make_family()
        self._took_s = 0.0
        self.refresh()

    def snapshot(self) -> Snapshot:
        """The sweep at its last event, with the time passed by now and the verdicts of its runs."""
        gone = time.monotonic() - self._taken
        return replace(
            self._latest,
            elapsed_s=time.monotonic() - self._begun,
            left_s=self._bound.left_s,
            in_flight=tuple(_later(run, gone) for run in self._latest.in_flight),
            grid_s=self._grid_s(),
            posteriors={mix: found for mix in self._points if (found := self._judge(mix)[0])},
            forecast=None if self._forecaster.latest is None else self._forecaster.latest.now(),
            late=self._forecaster.late,
            verdicts={mix: self._judge(mix)[1] for mix, points in self._points.items() if points},
            warnings=self._warnings(),
        )

    def ended(self, entry: Ended) -> None:
        """Count a run that ended."""
        request, outcome = entry.request, entry.outcome
        if not request.phase:
            self._counts[request.mix][outcome.status] += 1
        target = self._campaign.sweep.spec.target
        if request.is_evidence and (seen := scores(outcome, target)) is not None:
            self._points[request.mix] += (Point(request.size, request.seed, *seen),)
        sweep = self._campaign.sweep
        self._known.append(record_of(sweep, SweepFiles(sweep.directory), entry))
        if not entry.reused_from:
            computed_s = outcome.measures.get("seconds", 0.0)
            passed_s = outcome.measures.get("wall_seconds", computed_s)
            self._rates.ended(request.size, self._share(request.size, outcome.steps), computed_s, passed_s)
            self._trained_s += computed_s
            self._steps_ended += outcome.steps

    def changed(self) -> None:
        """Something happened: take a new snapshot, unless the last one is very recent."""
        if time.monotonic() - self._taken >= max(SNAPSHOT_EVERY_S, self._took_s / SNAPSHOT_SHARE):
            self.refresh()

    def refresh(self) -> None:
        """Take a new snapshot."""
        self._taken = time.monotonic()
        campaign = self._campaign
        spec = campaign.sweep.spec
        mixes = tuple(campaign.searcher.progress())
        self._rates.look({key: _step(training) for key, training in campaign.training.items()}, self._taken)
        in_flight = tuple(self._progress(training) for training in campaign.training.values())
        paced = self._paced()
        self._forecaster.consider(
            campaign.searcher,
            self._running(),
            campaign.slots,
            campaign.searcher.stack,
            self._rates.slowdown(paced),
            timed=self._rates.times(paced, self._taken),
        )
        bound = self._left_s(sum(mix.runs_left for mix in mixes), paced, in_flight)
        if bound is not None:
            self._bound.given(len(self._known), self._taken + bound)
        self._latest = Snapshot(
            size_axis=spec.size_axis,
            sizes=spec.sizes,
            mixes=mixes,
            counts={mix: _counts(counted) for mix, counted in self._counts.items()},
            in_flight=in_flight,
            left_s=bound,
            trained_s=self._trained_s,
            steps_per_s=self._steps_per_s(self._steps_ended + sum(run.step for run in in_flight)),
            warnings=self._limits(),
        )
        self._took_s = time.monotonic() - self._taken

    def _running(self) -> list[Running]:
        """Runs in training, by mix and size."""
        stacks: dict[tuple[str, int, int], list[tuple[Request, float]]] = {}
        for training in self._campaign.training.values():
            request = training.ticket.request
            if not request.phase:  # No searcher asked for a phase.
                run = self._progress(training)
                left = 1 - run.step / max(run.steps, 1)
                stacks.setdefault((request.mix, request.size, request.steps_factor), []).append((request, left))
        return [
            Running(tuple(request for request, _ in runs), sum(left for _, left in runs) / len(runs))
            for runs in stacks.values()
        ]

    def _warnings(self) -> tuple[str, ...]:
        said = self._warning()
        return ((said,) if said else ()) + self._latest.warnings

    def _limits(self) -> tuple[str, ...]:
        axis = self._campaign.sweep.spec.size_axis
        return tuple(
            f"out of memory at {axis} {size}: stacks of at most {most} there from now on"
            for size, most in sorted(self._campaign.limits.items())
        )

    def _paced(self) -> list[Paced]:
        """The stacks in training."""
        stacks: dict[str, list[Training]] = {}
        for training in self._campaign.training.values():
            stacks.setdefault(training.stack_id, []).append(training)
        paced = []
        for runs in stacks.values():
            steps = {training.ticket.key: self._family.steps(training.ticket.config) for training in runs}
            size = runs[0].ticket.request.size
            paced.append(Paced(size, self._share(size, max(steps.values())), steps))
        return paced

    def _share(self, size: int, steps: int) -> float:
        """``steps`` relative to the most steps of a run of this size, for which times are expected."""
        if size not in self._whole:
            spec = self._campaign.sweep.spec
            configs = [spec.config(Request(mix.name, size, spec.seed)) for mix in spec.mixes]
            self._whole[size] = max(map(self._family.steps, configs))
        return steps / self._whole[size]

    def _left_s(self, runs_left: int, paced: Sequence[Paced], in_flight: Sequence[RunProgress]) -> float | None:
        """Most time left, if all runs to come are of the most expensive size; None before any rate is known."""
        longest = self._rates.longest_s(paced)
        if longest is None:
            return None
        training = max((run.left_s for run in in_flight if run.left_s is not None), default=0.0)
        return max(runs_left * longest / self._campaign.slots, training)

    def _steps_per_s(self, steps: int) -> float | None:
        """Steps a second of all runs over the last minute; None before the second snapshot."""
        now = time.monotonic()
        self._progressed.append((now, steps))
        while len(self._progressed) > 2 and now - self._progressed[1][0] >= WINDOW_S:
            self._progressed.popleft()
        then, steps_then = self._progressed[0]
        return (steps - steps_then) / (now - then) if now > then and steps > steps_then else None

    def _progress(self, training: Training) -> RunProgress:
        request, evaluation, step = training.ticket.request, training.evaluation, _step(training)
        accuracy = None if evaluation is None else evaluation.accuracy.get(self._campaign.sweep.spec.target)
        steps = self._family.steps(training.ticket.config)
        left_s = self._rates.left_s(training.ticket.key, steps, self._taken)
        return RunProgress(request.mix, request.size, request.seed, step, steps, accuracy, left_s)

    def _grid_s(self) -> float | None:
        """Seconds of the whole grid; computed on demand, at most once after each run that ended."""
        known, found = self._grid
        if known != len(self._known):
            ended = tuple(self._known)
            found = cost_of(self._campaign.sweep.spec, ended).grid_s
            self._grid = (len(ended), found)
        return found

    def _judge(self, mix: str) -> tuple[tuple[float, ...], Verdict]:
        """Posterior of a mix's transition, and its verdict in the words of the answer. Computed on demand, at most once
        after each run that ended."""
        points, spec = self._points[mix], self._campaign.sweep.spec
        known, posterior, verdict = self._judged.get(mix, (-1, (), Verdict("", found=False)))
        if known != len(points):
            told = transition(points, spec.sizes)
            tested = [point.size for point in points] or spec.sizes
            words = verdicts.between(told, min(tested), max(tested))
            posterior = () if told.density is None else by_size(told.density, spec.sizes)
            verdict = Verdict(words, told.verdict is transition_types.Verdict.FOUND)
            self._judged[mix] = (len(points), posterior, verdict)
        return posterior, verdict


def _step(training: Training) -> int:
    return 0 if training.evaluation is None else training.evaluation.step


def _later(run: RunProgress, gone_s: float) -> RunProgress:
    """The same some seconds later; a run that takes longer than its rate said has no known end."""
    left = None if run.left_s is None or run.left_s <= gone_s else run.left_s - gone_s
    return replace(run, left_s=left)


def _counts(counted: Counter[Status]) -> Counts:
    return Counts(counted[Status.FINISHED], counted[Status.DIVERGED], counted[Status.FAILED])
