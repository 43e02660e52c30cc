"""Immutable snapshots of a campaign for the live view."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from orchestrator.engine.campaign import Campaign
from orchestrator.engine.run_table import TableRun
from orchestrator.forecast.cost_estimate import search_seconds
from orchestrator.report.cost_so_far import cost_of
from orchestrator.report.sentences.findings import out_of_reach
from orchestrator.report.sentences.transitions import are_few_unlearned, asymptote_text, interval_text
from orchestrator.search.base import Request
from orchestrator.search.pairs import Pairs
from orchestrator.search.results import points
from orchestrator.space.runs import RunInTraining
from orchestrator.sweep.study_plan import StudyPlan
from orchestrator.sweep.time_left import Countdown, SearchState
from orchestrator.terminal.live_view import Snapshot, SoFar, by_size
from orchestrator.transition.comparison import odds
from orchestrator.transition.estimate import transition
from orchestrator.transition.evidence import LEARNED
from orchestrator.transition.types import Point, Verdict
from trainables.base import Status

SNAPSHOT_EVERY_S = 0.2
"""Minimum seconds between snapshots."""
MAX_SHARE = 0.05
"""Maximum share of the driver's time for snapshots, because their cost grows with the number of runs."""


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
        self._begun = time.monotonic()
        self._family = plan.sweep.spec.make_family()
        self._countdown = Countdown(expected, search_seconds(plan.sweep.spec))
        self._learned = float(plan.sweep.spec.search.settings.get("learned", LEARNED))
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
            left_s=self._countdown.seconds_left(self._state),
            pace=self._countdown.pace,
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
        self._state = SearchState(
            self._searcher,
            self._ended,
            tuple((self._request(run), self._open_share(run)) for run in whole),
            self._pace_in_training(whole),
            max(1, campaign.at_once),
        )
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


@lru_cache(maxsize=32)
def _so_far(ended: tuple[Point, ...], sizes: tuple[int, ...], learned: float) -> SoFar:
    """Return the transition of a mix with these ended runs. Cached, because the view shows it more often than runs
    end."""
    curve = transition(ended, sizes)
    tested = [point.size for point in ended]
    text = interval_text(curve.relative, min(tested), max(tested), curve.verdict)
    if curve.verdict is Verdict.UNDECIDED and are_few_unlearned(ended, learned):
        text = "not learned so far"
    if curve.verdict is Verdict.LEVELS_OFF:
        text = f"{text}, levels off at {asymptote_text(curve)}"
    posterior = () if curve.density is None else by_size(curve.density, sizes)
    return SoFar(text, curve.is_located, posterior)
