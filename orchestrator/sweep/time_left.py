"""Time left of a sweep: estimated after each run, and counted down in between."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.forecast.cost_estimate import STARTUP_S
from orchestrator.forecast.rehearsals import played_to_the_end
from orchestrator.search.base import Request, Searcher
from orchestrator.search.results import points
from orchestrator.space.runs import Run
from orchestrator.transition.estimate import transition

MAX_SHARE = 0.05
"""Maximum share of the time that estimates of the time left may take."""
ESTIMATE_EVERY_S = 60.0
"""Seconds between estimates of the time left, until the first run has ended."""


@dataclass(frozen=True)
class SearchState:
    """A search at one time, as the estimate of its time left needs it.

    Attributes:
        searcher: A copy of the searcher.
        ended: The runs that ended.
        training: Runs in training, each with its share of remaining steps, in [0, 1].
        pace_in_training: Remaining time of the runs in training relative to the expected time, or None if unknown.
        workers: Number of stacks that train at a time.
    """

    searcher: Searcher
    ended: tuple[Run, ...]
    training: tuple[tuple[Request, float], ...]
    pace_in_training: float | None
    workers: int


@dataclass(frozen=True)
class _Estimate:
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


class Countdown:
    """Estimates the time left of a sweep, and counts down between estimates.

    Attributes:
        pace: Seconds of the runs so far as a multiple of the expected seconds, or None until it is known.
    """

    def __init__(self, expected: Mapping[int, float], costs: Mapping[int, float]) -> None:
        """Begin a countdown.

        Args:
            expected: Expected seconds of a run by size.
            costs: Seconds of a run by size as the search counts them.
        """
        self._expected = expected
        self._costs = costs
        self._begun = time.monotonic()
        self.pace: float | None = None
        self._last: _Estimate | None = None
        """The last estimate, or None before the first."""
        self._next_at = self._begun
        """Time before which no new estimate is computed, so that estimates do not take too much time."""

    def seconds_left(self, state: SearchState) -> float:
        """Return the estimated seconds left, or 0 if the sweep has taken longer than estimated."""
        now = time.monotonic()
        trained = [run for run in state.ended if not run.trained_for]
        computed = sum(run.outcome.measures.get("seconds", 0.0) for run in trained)
        # Until a run has ended, the only evidence is the rate of the runs in training. It improves as they train, so a
        # new estimate is made once a minute. Later, an estimate is made after each run. Constant updates would make the
        # displayed end jump; between two estimates, the time left only counts down.
        by_rate = None if computed else state.pace_in_training
        basis = (len(state.ended), 0 if by_rate is None else 1 + int((now - self._begun) / ESTIMATE_EVERY_S))
        if self._last is None or (self._last.basis != basis and now >= self._next_at):
            planned = sum(self._expected.get(run.config.size, 0.0) for run in trained)
            self.pace = sum(map(_passed_s, trained)) / planned if planned and computed else by_rate
            pace = (self.pace or 1.0) / state.workers
            seconds = time_left(state.searcher, state.training, self._expected, self._costs, pace=pace)
            startup_s = STARTUP_S if self._last is None else 0.0  # The first estimate is made before the workers start.
            self._last = _Estimate(basis, now, seconds + startup_s)
            # An estimate runs the whole search to its end, which may take seconds. So wait in proportion.
            self._next_at = time.monotonic() + (time.monotonic() - now) / MAX_SHARE
        return max(self._last.seconds - (now - self._last.at), 0.0)


def _passed_s(run: Run) -> float:
    """Return the seconds that passed while a run trained. Old runs have only their computing seconds."""
    measures = run.outcome.measures
    return measures.get("wall_seconds", measures.get("seconds", 0.0))


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
    """Return a transition for each mix: its estimate, or else a guess from its interval."""
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
