"""Immutable snapshots of a campaign for the live view, with an estimate of the time left."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
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
SHARE = 0.05
"""Maximum share of the time spent on snapshots, whose cost grows with the number of runs. The same share limits the
estimation of the time left."""
ESTIMATE_EVERY_S = 60.0
"""Seconds between estimates of the time left before the first run has ended."""


class Monitor:
    """Keeps a snapshot up to date. Call :meth:`refresh_if_due` and :meth:`refresh` only in the driver's thread, and
    :meth:`snapshot` in any thread."""

    def __init__(
        self, campaign: Campaign, plan: StudyPlan, warning: Callable[[], str], expected: Mapping[int, float]
    ) -> None:
        """Follow a campaign. ``warning`` returns a message or "", and ``expected`` has the seconds of a run by size."""
        self._campaign = campaign
        self._plan = plan
        self._warning = warning
        self._expected = expected
        self._costs = search_seconds(plan.sweep.spec)
        self._begun = time.monotonic()
        self._family = plan.sweep.spec.make_family()
        self._left: tuple[tuple[int, int], float, float] | None = None
        """State from which the seconds left were computed, the time of the computation, and the result."""
        self._learned = float(plan.sweep.spec.search.settings.get("learned", LEARNED))
        self._planned_pace: float | None = None
        """Seconds of the runs so far as a multiple of the plan's, None until it is known."""
        self._next_left_at = self._begun
        self._took_s = 0.0
        self.refresh()

    def snapshot(self) -> Snapshot:
        """Return the last snapshot, updated with the current time and the transitions from its runs."""
        spec, warning = self._plan.sweep.spec, self._warning()
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
        """Take a new snapshot unless the last is very recent. The first run after a pause is always shown: without Ray,
        the driver is busy with it until its first evaluation."""
        is_new = not self._latest.in_flight and bool(self._campaign.training)
        if is_new or time.monotonic() - self._taken >= max(SNAPSHOT_EVERY_S, self._took_s / SHARE):
            self.refresh()

    def refresh(self) -> None:
        self._taken = time.monotonic()
        campaign, plan = self._campaign, self._plan
        spec = plan.sweep.spec
        training = campaign.training
        # Copies, because other threads read them while the driver continues.
        self._searcher, self._ended = plan.searcher.branch(), tuple(plan.runs)
        # Searchers do not request phases, which are not counted either.
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
        self._took_s = time.monotonic() - self._taken

    def _out_of_reach(self) -> Iterator[str]:
        """Yield a sentence for each comparison that cannot be decided any more."""
        searcher = self._plan.searcher
        if isinstance(searcher, Pairs):
            for pair in searcher.problem.comparisons:
                if (shortfall := searcher.shortfall(pair)) is not None:
                    yield out_of_reach(pair[0], odds(1 / searcher.settings.error), shortfall)

    def _request(self, run: TableRun) -> Request:
        return self._plan.requests(run.job.key)[0]

    def _open_share(self, run: TableRun) -> float:
        """Return the share of a run's steps that it has not trained yet."""
        return 1 - run.step / max(self._family.steps(run.job.run), 1)

    def _progress(self, run: TableRun) -> RunInTraining:
        steps = self._family.steps(run.job.run)
        left_s = run.left_s(steps, self._taken)
        curve = () if run.evaluation is None else (run.evaluation,)
        return RunInTraining(self._request(run), run.job.run, run.job.key, curve, steps, left_s)

    def _pace_in_training(self, training: Sequence[TableRun]) -> float | None:
        """Return the duration of the stacks in training relative to expectation, or None if no rate is known."""
        stacks: dict[str, list[TableRun]] = {}
        for run in training:
            stacks.setdefault(run.stack_id, []).append(run)
        measured = expected = 0.0
        for runs in stacks.values():
            left = [run.left_s(self._family.steps(run.job.run), self._taken) for run in runs]
            known = [seconds for seconds in left if seconds is not None]
            if len(known) == len(runs):
                measured += max(known)
                expected += sum(self._open_share(run) * self._expected[run.job.run.size] for run in runs)
        return measured / expected if expected else None

    def _left_s(self) -> float:
        """Return the estimated seconds left; the first estimate includes the start of the workers. It is updated after
        each run, and once a minute until the first run has ended. Constant updates would make the end jump."""
        now, ended = time.monotonic(), self._ended
        trained = [run.outcome.measures for run in ended if not run.trained_for]
        computed = sum(measures.get("seconds", 0.0) for measures in trained)
        by_rate = None if computed else self._pace
        basis = len(ended), 0 if by_rate is None else 1 + int((now - self._begun) / ESTIMATE_EVERY_S)
        if self._left is None or (self._left[0] != basis and now >= self._next_left_at):
            passed = sum(measures.get("wall_seconds", measures.get("seconds", 0.0)) for measures in trained)
            planned = sum(self._expected.get(run.config.size, 0.0) for run in ended if not run.trained_for)
            self._planned_pace = passed / planned if planned and computed else by_rate
            pace = (self._planned_pace or 1.0) / self._workers
            seconds = time_left(self._searcher, self._training, self._expected, self._costs, pace=pace)
            self._left = basis, now, seconds + (STARTUP_S if self._left is None else 0.0)
            self._next_left_at = time.monotonic() + (time.monotonic() - now) / SHARE
        return max(self._left[2] - (now - self._left[1]), 0.0)


@lru_cache(maxsize=32)
def _so_far(ended: tuple[Point, ...], sizes: tuple[int, ...], learned: float) -> SoFar:
    """Return the transition of these runs of a mix. Cached because the view shows it more often than runs end."""
    curve = transition(ended, sizes)
    tested = [point.size for point in ended]
    words = estimate(curve.relative, min(tested), max(tested), curve.verdict)
    if curve.verdict is Verdict.UNDECIDED and are_few_unlearned(ended, learned):
        words = "not learned so far"
    if curve.verdict is Verdict.LEVELS_OFF:
        words = f"{words}, levels off at {asymptote_text(curve)}"
    posterior = () if curve.density is None else by_size(curve.density, sizes)
    return SoFar(words, curve.is_located, posterior)


def time_left(
    searcher: Searcher,
    training: Sequence[tuple[Request, float]],
    expected: Mapping[int, float],
    costs: Mapping[int, float],
    *,
    pace: float = 1.0,
) -> float:
    """Return the seconds left of a sweep, from a copy of its searcher that is run to its end. It assumes that runs
    learn above their mix's currently known transition, and do not learn below it.

    Args:
        training: Runs in training, each with its share of remaining steps, in [0, 1].
        expected: Seconds of a run by size.
        costs: Seconds of a run by size as the search counts them.
        pace: Seconds that pass for each expected second of a run: fewer if several train at the same time.
    """
    to_come = played_to_the_end(searcher.branch(), _transitions(searcher), costs)
    now = sum(share * expected[request.size] for request, share in training)
    return pace * (now + sum(runs * expected[size] for size, runs in to_come.items()))


def _transitions(searcher: Searcher) -> dict[str, float]:
    """Return an assumed transition for each mix: the estimate; without one, the upper end of the interval. If only one
    end is open, it is beyond all sizes there; if both are, it is the middle size."""
    problem, transitions = searcher.problem, {}
    for mix in problem.mixes:
        known = transition(points(searcher.results, mix), problem.sizes).relative
        if known.low is not None:
            beyond = known.high or math.inf
        else:
            beyond = float(problem.sizes[len(problem.sizes) // 2]) if known.high is None else 0.0
        transitions[mix] = known.value or beyond
    return transitions
