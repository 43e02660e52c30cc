"""Tunes settings for each mix before its transition is searched.

A study tunes one mix and is a pure function of the runs that have ended. Its first trial has the settings as written.
The other trials come in two waves. The first wave fills the ranges evenly (a Latin hypercube). Optuna chooses the
second wave from the results of the first.

Except for the first trial, each trial trains its smallest size first, and the other sizes only if it can still beat the
settings as written. Settings are adopted only if more runs learn with them than chance would explain. Faster learning
is not enough, because with such settings fewer seeds may learn near the transition.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import ClassVar

import numpy as np

from orchestrator.search.base import MixProgress, Problem, Request, Results, Searcher, SearchSettings
from orchestrator.space.runs import Run
from orchestrator.space.spec import SweepSpec
from orchestrator.space.tuning_settings import FIRST_SEED, NOTHING_BETTER, Tune, tuning_sizes, values_text
from orchestrator.transition.types import Point
from trainables.base import Evaluation, Status

LEARNED_ACCURACY = 0.8
"""Validation accuracy of the target at which a run has learned."""
SURE_PERCENT = 80
"""Minimum probability, in percent, that a trial's settings have a higher success rate than the settings as written."""


def learning_point(run: Run, target: str) -> Point | None:
    """Return a run's last accuracy as a point, or None if the run failed. The point's cost is the number of steps after
    which the run learned, or 0 if it did not learn."""
    if run.outcome.status is Status.FAILED:
        return None
    curve = run.outcome.curve
    accuracy = curve[-1].accuracy[target] if curve else 0.0
    return run.request.point(accuracy, 0.0, learned_at(curve, target) or 0.0)


def learned_at(curve: Sequence[Evaluation], task: str) -> float | None:
    """Return the interpolated step at which a curve first reaches :data:`LEARNED_ACCURACY`, or None if it does not. The
    curve starts at accuracy 0."""
    step = 0.0
    accuracy = 0.0
    for point in curve:
        reached = point.accuracy[task]
        if reached >= LEARNED_ACCURACY:
            return step + (LEARNED_ACCURACY - accuracy) / (reached - accuracy) * (point.step - step)
        step = float(point.step)
        accuracy = reached
    return None


def beats(learned: int, written: int, of: int) -> bool:
    """Return True if a trial is reliably better than the settings as written.

    The probability that a larger share of runs learns with the trial's settings must be at least :data:`SURE_PERCENT`.

    Args:
        learned: Number of the trial's runs that learned.
        written: Number of runs that learned with the settings as written.
        of: Number of runs of each of the two.
    """
    # With uniform priors, each share is distributed like an order statistic of `of + 1` uniform numbers. The
    # probability is therefore a ratio of whole numbers. It counts the orders in which at most `learned` numbers of the
    # first kind precede number `written + 1` of the second kind.
    more = sum(math.comb(k + written, k) * math.comb(2 * of + 1 - k - written, of + 1 - k) for k in range(learned + 1))
    return 100 * more >= SURE_PERCENT * math.comb(2 * of + 2, of + 1)


@dataclass(frozen=True)
class Trial:
    """Values of the settings, and the runs that test them.

    Attributes:
        values: Values by dotted setting.
        runs: Point of each run, in the order in which they are requested, or None until the run has ended.
    """

    values: dict[str, float]
    runs: Results

    @property
    def missing(self) -> list[Request]:
        """Runs that have not ended."""
        return [request for request, run in self.runs.items() if run is None]

    @property
    def steps(self) -> list[float]:
        """Steps until each run that learned had learned."""
        return [run.cost for run in self.runs.values() if run is not None and run.accuracy >= LEARNED_ACCURACY]

    @property
    def rank(self) -> tuple[int, float]:
        """Sorting key that puts the best trials first: more runs learned, then fewer steps on average."""
        steps = self.steps
        return -len(steps), sum(steps) / len(steps) if steps else math.inf

    def first(self, count: int) -> Trial:
        """Return the trial with only its first runs."""
        return Trial(self.values, dict(list(self.runs.items())[:count]))

    def __str__(self) -> str:
        return f"{len(self.steps)} of {len(self.runs)} runs learned"


class Study:
    """The tuning of one mix, given the runs that have ended."""

    def __init__(self, spec: SweepSpec, mix: str, results: Results) -> None:
        assert spec.tune is not None
        self.mix = mix
        self.tune = spec.tune
        self.sizes = tuning_sizes(spec.sizes)
        self._cells = [(size, seed) for size in self.sizes for seed in spec.tune.seed_list]

        def trial(values: dict[str, float], *settings: tuple[str, float]) -> Trial:
            requests = [Request(mix, size, seed, values=settings, until=LEARNED_ACCURACY) for size, seed in self._cells]
            return Trial(values, {request: results.get(request) for request in requests})

        others = spec.tune.trials - 1
        self.written = trial({path: float(attrgetter(path)(spec.settings)) for path in spec.tune.settings})
        spread = spread_values(spec.tune, math.ceil(others / 2))
        self.trials = [self.written, *(trial(values, *values.items()) for values in spread)]
        if not self.wanted and self._may_win(len(self._cells)):
            # A study is made again for each request. The suggested values are the same each time, because the outcomes
            # of a completed first wave do not change.
            suggested = suggested_values(self, others - len(spread))
            self.trials += [trial(values, *values.items()) for values in suggested]

    @property
    def wanted(self) -> list[Request]:
        """Runs to train next, most urgent first. Empty when the tuning has ended."""
        return [request for trial in self.trials for request in self._wanted_by(trial)]

    @property
    def best(self) -> Trial:
        """The trial to use after the tuning: the settings as written unless another trial beats them."""
        best = min((trial for trial in self.trials if not trial.missing), key=lambda trial: trial.rank)
        return best if self._may_win(len(best.steps)) else self.written

    @property
    def result(self) -> dict[str, float]:
        """Tuned settings of the mix. Empty if the settings as written are the best."""
        return {} if self.best is self.written else self.best.values

    def __str__(self) -> str:
        if not self.result:
            return f"tuning {self.mix}: {NOTHING_BETTER} ({self.written} as written)"
        reason = f"({self.written} as written; better with a probability of at least {SURE_PERCENT}%)"
        return f"tuned {self.mix}: {values_text(self.result)}, {self.best} {reason}"

    def _may_win(self, learned: int) -> bool:
        """Return True if a trial in which this many runs learn beats the settings as written."""
        return beats(learned, len(self.written.steps), len(self._cells))

    def _wanted_by(self, trial: Trial) -> list[Request]:
        """Return the runs that a trial needs next: first the smallest size, then the others if it may still win."""
        if trial is self.written or not trial.missing:
            return trial.missing
        # Only the smallest size decides whether a trial continues. If every run did, the set of trained runs would
        # depend on the order in which runs end.
        small = trial.first(self.tune.seeds)
        failed = 0 if small.missing else len(small.runs) - len(small.steps)
        hopeless = not self._may_win(len(self._cells) - failed)
        return [] if self.written.missing or hopeless else small.missing or trial.missing


class Tuner(Searcher):
    """Requests the runs of every mix's study. Its results are the points of :func:`learning_point`."""

    Settings: ClassVar[type[SearchSettings]] = SearchSettings

    def __init__(self, spec: SweepSpec) -> None:
        assert spec.tune is not None
        super().__init__(Problem(tuple(mix.name for mix in spec.mixes), spec.sizes, spec.tune.seed_list))
        self._spec = spec

    def choose(self, pending: Sequence[Request], limit: int, ending: Collection[Request] = ()) -> list[Request]:
        wanted = [request for study in self.studies() for request in study.wanted]
        return [request for request in wanted if request not in self.results and request not in pending][:limit]

    def progress_of(self, mix: str) -> MixProgress:
        """Return the number of runs that are wanted now. More may follow."""
        wanted = Study(self._spec, mix, self.results).wanted
        return MixProgress(mix, None, None, len(wanted), not wanted)

    def studies(self) -> list[Study]:
        """Return the study of each mix so far."""
        return [Study(self._spec, mix, self.results) for mix in self.problem.mixes]


def suggested_values(study: Study, count: int) -> list[dict[str, float]]:
    """Return ``count`` trials' values from Optuna's tree-structured Parzen estimator. It gets the ranks of a study's
    ended trials at the smallest size."""
    import optuna  # Takes a second to import, and few sweeps tune.

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    tune = study.tune
    spans: dict[str, optuna.distributions.BaseDistribution] = {
        path: optuna.distributions.FloatDistribution(span.low, span.high, log=True)
        for path, span in tune.settings.items()
    }
    # Without the constant liar, suggestions of a wave may be close together, because none of them has a result yet.
    sampler = optuna.samplers.TPESampler(seed=FIRST_SEED, n_startup_trials=1, constant_liar=True)
    optimizer = optuna.create_study(direction="minimize", sampler=sampler)
    # The values as written may be outside the ranges. Optuna refuses such trials.
    in_ranges = [
        trial.first(tune.seeds)
        for trial in study.trials
        if all(span.low <= trial.values[path] <= span.high for path, span in tune.settings.items())
    ]
    for rank, trial in enumerate(sorted(in_ranges, key=lambda trial: trial.rank)):
        optimizer.add_trial(optuna.trial.create_trial(params=trial.values, distributions=spans, value=float(rank)))
    return [dict(optimizer.ask(spans).params) for _ in range(count)]


def spread_values(tune: Tune, count: int) -> list[dict[str, float]]:
    """Return ``count`` trials' values that fill the ranges evenly, as a Latin hypercube."""
    rng = np.random.default_rng(FIRST_SEED)
    columns = [(rng.permutation(count) + rng.random(count)) / count for _ in tune.settings]
    spans = list(zip(tune.settings.items(), columns, strict=True))
    return [{path: span.at(float(column[trial])) for (path, span), column in spans} for trial in range(count)]
