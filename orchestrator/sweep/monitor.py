"""Immutable snapshots of a campaign for the live view, with an estimate of the time left."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from orchestrator.engine.campaign import Campaign
from orchestrator.engine.run_table import TableRun
from orchestrator.forecast.cost_estimate import STARTUP_S, search_seconds
from orchestrator.forecast.rehearsals import played_to_the_end
from orchestrator.report.cost_so_far import cost_of
from orchestrator.report.sentences.findings import out_of_reach
from orchestrator.report.sentences.transitions import are_few_unlearned, asymptote_text, estimate
from orchestrator.search.base import Request, Searcher
from orchestrator.search.pairs import Pairs
from orchestrator.search.results import points
from orchestrator.space.runs import RunInTraining
from orchestrator.sweep.study_plan import StudyPlan
from orchestrator.terminal.live_view import Snapshot, SoFar, by_size
from orchestrator.transition.comparison import odds
from orchestrator.transition.estimate import transition
from orchestrator.transition.evidence import LEARNED
from orchestrator.transition.types import Point, Verdict
from trainables.base import Status

SNAPSHOT_EVERY_S = 0.2
"""Minimum seconds between snapshots."""
MAX_SHARE = 0.05
"""Maximum share of the driver's time for snapshots, because their cost grows with the number of runs. The same share
limits the time for estimates of the time left."""
ESTIMATE_EVERY_S = 60.0
"""Seconds between estimates of the time left, until the first run has ended."""


@dataclass(frozen=True)
class _TimeLeft:
    """An estimate of the time left.

    Attributes:
        basis: State of the sweep from which it was computed: the number of ended runs, and a count of the minutes until
            the first run has ended. If it changes, the estimate is out of date.
        at: Time of the computation (monotonic, in seconds).
        seconds: The estimate at that time.
    """

    basis: tuple[int, int]
    at: float
    seconds: float


class Monitor:
    """Keeps a snapshot up to date. Call :meth:`refresh_if_due` and :meth:`refresh` only in the driver's thread, and
    :meth:`snapshot` in any thread."""

    def __init__(
        self, campaign: Campaign, plan: StudyPlan, warning: Callable[[], str], expected: Mapping[int, float]
    ) -> None:
        """Follow a campaign.

        Args:
            campaign: The campaign.
            plan: Its plan.
            warning: Returns a warning to show, or an empty string.
            expected: Expected seconds of a run by size.
        """
        self._campaign = campaign
        self._plan = plan
        self._warning = warning
        self._expected = expected
        self._costs = search_seconds(plan.sweep.spec)
        self._begun = time.monotonic()
        self._family = plan.sweep.spec.make_family()
        self._left: _TimeLeft | None = None
        """The last estimate, or None before the first."""
        self._learned = float(plan.sweep.spec.search.settings.get("learned", LEARNED))
        self._planned_pace: float | None = None
        """Seconds of the runs so far as a multiple of the expected seconds, or None until it is known."""
        self._next_left_at = self._begun
        """Time before which no new estimate is computed, so that estimates do not take too much time."""
        self._took_s = 0.0
        """Seconds that the last snapshot took."""
        self.refresh()

    def snapshot(self) -> Snapshot:
        """Return the last snapshot, with the current time and the transitions from its runs."""
        spec = self._plan.sweep.spec
        warning = self._warning()
        ended = {mix.name: tuple(points(self._searcher.results, mix.name)) for mix in spec.mixes}
        return replace(
            self._latest,
            elapsed_s=time.monotonic() - self._begun,
            left_s=self._left_s(),
            pace=self._planned_pace,
            grid_s=cost_of(spec, self._ended).grid_s,
            so_far={mix: _so_far(runs, spec.sizes, self._learned) for mix, runs in ended.items() if runs},
            warnings=(warning, *self._latest.warnings) if warning else self._latest.warnings,
        )

    def refresh_if_due(self) -> None:
        """Take a new snapshot unless the last is very recent."""
        # The first run after a pause is always shown. Without Ray, the driver trains it now, so this is the last chance
        # until its first evaluation.
        is_new = not self._latest.in_flight and bool(self._campaign.training)
        if is_new or time.monotonic() - self._taken_at >= max(SNAPSHOT_EVERY_S, self._took_s / MAX_SHARE):
            self.refresh()

    def refresh(self) -> None:
        """Take a new snapshot."""
        self._taken_at = time.monotonic()
        campaign = self._campaign
        plan = self._plan
        spec = plan.sweep.spec
        training = campaign.training
        # Copies, because other threads read them while the driver continues.
        self._searcher = plan.searcher.branch()
        self._ended = tuple(plan.runs)
        # Without phases, because searchers do not know about them. The time left does not count them either.
        whole = [run for run in training if not self._request(run).phase]
        self._workers = max(1, campaign.at_once)
        self._training = [(self._request(run), self._open_share(run)) for run in whole]
        self._pace = self._pace_in_training(whole)
        counts: dict[str, Counter[Status]] = {mix.name: Counter() for mix in spec.mixes}
        for run in self._ended:
            if run.config.label in counts:
                counts[run.config.label][run.outcome.status] += 1
        here = [run.outcome for run in self._ended if not run.trained_for]
        self._latest = Snapshot(
            target=spec.target,
            size_axis=spec.size_axis,
            sizes=spec.sizes,
            mixes=tuple(plan.searcher.progress()),
            counts=counts,
            in_flight=tuple(map(self._progress, training)),
            trained_s=sum(outcome.measures.get("seconds", 0.0) for outcome in here),
            warnings=(
                *(
                    f"out of memory at {spec.size_axis} {size}: its stacks now have at most {most} runs"
                    for size, most in sorted(campaign.limits.items())
                ),
                *self._out_of_reach(),
            ),
        )
        self._took_s = time.monotonic() - self._taken_at

    def _out_of_reach(self) -> Iterator[str]:
        """Yield a sentence for each comparison that can no longer be decided."""
        searcher = self._plan.searcher
        if isinstance(searcher, Pairs):
            for pair in searcher.problem.comparisons:
                if (shortfall := searcher.shortfall(pair)) is not None:
                    yield out_of_reach(pair[0], odds(1 / searcher.settings.error), shortfall)

    def _request(self, run: TableRun) -> Request:
        """Return the first request for a run."""
        return self._plan.requests(run.job.key)[0]

    def _open_share(self, run: TableRun) -> float:
        """Return the share of a run's steps that it has not trained yet."""
        return 1 - run.step / max(self._family.steps(run.job.run), 1)

    def _progress(self, run: TableRun) -> RunInTraining:
        """Return a run in training for the live view."""
        steps = self._family.steps(run.job.run)
        left_s = run.left_s(steps, self._taken_at)
        curve = () if run.evaluation is None else (run.evaluation,)
        return RunInTraining(self._request(run), run.job.run, run.job.key, curve, steps, left_s)

    def _pace_in_training(self, training: Sequence[TableRun]) -> float | None:
        """Return the remaining time of the stacks in training relative to the expected time, or None if no rate is
        known."""
        stacks: dict[str, list[TableRun]] = {}
        for run in training:
            stacks.setdefault(run.stack_id, []).append(run)
        measured = 0.0
        expected = 0.0
        for runs in stacks.values():
            left = [run.left_s(self._family.steps(run.job.run), self._taken_at) for run in runs]
            known = [seconds for seconds in left if seconds is not None]
            if len(known) == len(runs):
                # Runs of a stack train side by side, but the plan counts the expected seconds of each.
                measured += max(known)
                expected += sum(self._open_share(run) * self._expected[run.job.run.size] for run in runs)
        return measured / expected if expected else None

    def _left_s(self) -> float:
        """Return the estimated seconds left, or 0 if the sweep has taken longer than estimated."""
        now = time.monotonic()
        ended = self._ended
        trained = [run.outcome.measures for run in ended if not run.trained_for]
        computed = sum(measures.get("seconds", 0.0) for measures in trained)
        # Until a run has ended, the only evidence is the rate of the runs in training. It improves as they train, so a
        # new estimate is made once a minute. Later, an estimate is made after each run. Constant updates would make the
        # displayed end jump; between two estimates, the time left only counts down.
        by_rate = None if computed else self._pace
        basis = (len(ended), 0 if by_rate is None else 1 + int((now - self._begun) / ESTIMATE_EVERY_S))
        if self._left is None or (self._left.basis != basis and now >= self._next_left_at):
            passed = sum(measures.get("wall_seconds", measures.get("seconds", 0.0)) for measures in trained)
            planned = sum(self._expected.get(run.config.size, 0.0) for run in ended if not run.trained_for)
            self._planned_pace = passed / planned if planned and computed else by_rate
            pace = (self._planned_pace or 1.0) / self._workers
            seconds = time_left(self._searcher, self._training, self._expected, self._costs, pace=pace)
            startup_s = STARTUP_S if self._left is None else 0.0  # The first estimate is made before the workers start.
            self._left = _TimeLeft(basis, now, seconds + startup_s)
            # An estimate runs the whole search to its end, which may take seconds. So wait in proportion.
            self._next_left_at = time.monotonic() + (time.monotonic() - now) / MAX_SHARE
        return max(self._left.seconds - (now - self._left.at), 0.0)


@lru_cache(maxsize=32)
def _so_far(ended: tuple[Point, ...], sizes: tuple[int, ...], learned: float) -> SoFar:
    """Return the transition of a mix with these ended runs. Cached, because the view shows it more often than runs
    end."""
    curve = transition(ended, sizes)
    tested = [point.size for point in ended]
    text = estimate(curve.relative, min(tested), max(tested), curve.verdict)
    if curve.verdict is Verdict.UNDECIDED and are_few_unlearned(ended, learned):
        text = "not learned so far"
    if curve.verdict is Verdict.LEVELS_OFF:
        text = f"{text}, levels off at {asymptote_text(curve)}"
    posterior = () if curve.density is None else by_size(curve.density, sizes)
    return SoFar(text, curve.is_located, posterior)


def time_left(
    searcher: Searcher,
    training: Sequence[tuple[Request, float]],
    expected: Mapping[int, float],
    costs: Mapping[int, float],
    *,
    pace: float = 1.0,
) -> float:
    """Return the estimated seconds left of a sweep, from a copy of its searcher that is run to its end.

    The estimate assumes that runs learn above their mix's currently known transition, and do not learn below it.

    Args:
        searcher: The searcher of the sweep.
        training: Runs in training, each with its share of remaining steps, in [0, 1].
        expected: Seconds of a run by size.
        costs: Seconds of a run by size as the search counts them.
        pace: Seconds that pass for each expected second of a run. It is smaller if several runs train at the same time.
    """
    to_come = played_to_the_end(searcher.branch(), _transitions(searcher), costs)
    now = sum(share * expected[request.size] for request, share in training)
    return pace * (now + sum(runs * expected[size] for size, runs in to_come.items()))


def _transitions(searcher: Searcher) -> dict[str, float]:
    """Return an assumed transition for each mix: its estimate or, if there is none, a guess from its interval."""
    problem = searcher.problem
    transitions: dict[str, float] = {}
    for mix in problem.mixes:
        relative = transition(points(searcher.results, mix), problem.sizes).relative
        # Guess the upper end of the interval. If only one end is open, assume a transition beyond all sizes on that
        # side. If both are open, assume the middle size.
        if relative.low is not None:
            guess = relative.high or math.inf
        else:
            guess = float(problem.sizes[len(problem.sizes) // 2]) if relative.high is None else 0.0
        transitions[mix] = relative.value or guess
    return transitions
