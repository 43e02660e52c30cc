"""Tuning of settings for each mix before its transition is searched.

A study tunes one mix and is a pure function of the runs that have ended. Its first trial has the settings as written.
The others come in two waves: the first fills the ranges evenly (a Latin hypercube), and Optuna chooses the second from
the results of the first. Every trial but the first trains its smallest size first, and the rest only if it can still
beat the settings as written. Settings are adopted only if they make more runs learn than chance would explain. Faster
learning is not enough, because such settings may make fewer seeds learn near the transition.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import ClassVar

import numpy as np

from orchestrator.search.base import MixProgress, Observation, Problem, Request, Results, Searcher, SearchSettings
from orchestrator.space.spec import SweepSpec
from orchestrator.space.tuning import Tune
from trainables.base import Evaluation, Outcome, Status

LEARNED = 0.8
"""Validation accuracy of the target at which a run has learned."""
SURE = 80
"""Minimum probability, in percent, that more of all runs learn with a trial's settings than as written."""
NOTHING_BETTER = "no trial was reliably better than the settings as written"


@dataclass(frozen=True)
class Learning(Observation):
    """Outcome of a tuning run. ``learned_at`` is the step at which the target reached :data:`LEARNED`, or None."""

    learned_at: float | None = None


def observe_learning(outcome: Outcome, target: str) -> Learning | None:
    """Return when the target was learned, or None for a failed run, which is not evidence."""
    if outcome.status is Status.FAILED:
        return None
    accuracy = outcome.curve[-1].accuracy[target] if outcome.curve else 0.0
    return Learning(accuracy, 0.0, outcome.measures.get("seconds", 0.0), learned_at(outcome.curve, target))


def learned_at(curve: Sequence[Evaluation], task: str) -> float | None:
    """Return the interpolated step at which a curve, 0 at step 0, first reaches :data:`LEARNED`, or None."""
    step, accuracy = 0.0, 0.0
    for point in curve:
        reached = point.accuracy[task]
        if reached >= LEARNED:
            return step + (LEARNED - accuracy) / (reached - accuracy) * (point.step - step)
        step, accuracy = float(point.step), reached
    return None


def beats(learned: int, written: int, of: int) -> bool:
    """Return True if a trial in which ``learned`` of ``of`` runs learned is reliably better than the settings as
    written, with which ``written`` of ``of`` runs learned.

    The probability that more of all runs learn with the trial must be at least :data:`SURE`. With uniform priors, each
    share is distributed like an order statistic of ``of + 1`` uniform numbers. The probability is therefore a ratio of
    whole numbers: it counts the orders in which at most ``learned`` numbers of the first kind precede number
    ``written + 1`` of the second kind.
    """
    more = sum(math.comb(k + written, k) * math.comb(2 * of + 1 - k - written, of + 1 - k) for k in range(learned + 1))
    return 100 * more >= SURE * math.comb(2 * of + 2, of + 1)


@dataclass(frozen=True)
class Trial:
    """A trial: values by dotted setting, requests in order, and outcomes so far."""

    values: dict[str, float]
    requests: tuple[Request, ...]
    runs: Mapping[Request, Learning]

    @property
    def missing(self) -> list[Request]:
        return [request for request in self.requests if request not in self.runs]

    @property
    def learned(self) -> int:
        return sum(run.learned_at is not None for run in self.runs.values())

    @property
    def mean_steps(self) -> float:
        """Mean steps to learn over the runs that learned, or infinity if none did."""
        steps = [run.learned_at for run in self.runs.values() if run.learned_at is not None]
        return sum(steps) / len(steps) if steps else math.inf

    @property
    def rank(self) -> tuple[int, float]:
        """Sorting key of the best trials: more runs learned, then fewer steps."""
        return -self.learned, self.mean_steps

    def first(self, count: int) -> Trial:
        """Return the trial with only its first requests."""
        requests = self.requests[:count]
        return Trial(self.values, requests, {run: self.runs[run] for run in requests if run in self.runs})

    def __str__(self) -> str:
        """Return text such as ``3 of 4 runs learned, in 2390 steps (training.learning_rate 0.0031)``."""
        steps = f", in {_digits(self.mean_steps)} steps" if self.learned else ""
        return f"{self.learned} of {len(self.runs)} runs learned{steps} ({values_text(self.values)})"


class Study:
    """The tuning of one mix, given the runs that have ended. ``suggested`` caches the values of each mix's second wave,
    because the outcomes of a completed first wave do not change."""

    def __init__(
        self, spec: SweepSpec, mix: str, results: Results, suggested: dict[str, list[dict[str, float]]]
    ) -> None:
        assert spec.tune is not None
        self.mix, self.tune = mix, spec.tune
        self.sizes = spec.tune.sizes_of(spec.sizes)
        self._results = results
        self._cells = [(size, seed) for size in self.sizes for seed in spec.tune.seed_list]
        self.written = self._trial({path: float(attrgetter(path)(spec.settings)) for path in spec.tune.settings}, {})
        others = spec.tune.trials - 1
        spread = spread_values(spec.tune, math.ceil(others / 2))
        self.trials = [self.written, *(self._trial(values, values) for values in spread)]
        if not self.wanted and self._may_win(len(self._cells)):
            if mix not in suggested:
                suggested[mix] = suggested_values(self, others - len(spread))
            self.trials += [self._trial(values, values) for values in suggested[mix]]

    @property
    def wanted(self) -> list[Request]:
        """Runs to train next, most wanted first. Empty when the tuning has ended."""
        return [request for trial in self.trials for request in self._wanted_by(trial)]

    @property
    def ended(self) -> frozenset[int]:
        """Positions of the trials that were trained and want no more runs."""
        trials = enumerate(self.trials)
        return frozenset(number for number, trial in trials if trial.runs and not self._wanted_by(trial))

    @property
    def best(self) -> Trial:
        """The trial to use after the tuning: the settings as written unless another trial beats them."""
        best = min((trial for trial in self.trials if not trial.missing), key=lambda trial: trial.rank)
        return best if self._may_win(best.learned) else self.written

    @property
    def result(self) -> dict[str, float]:
        """Settings for the mix, empty if those as written are the best."""
        return {} if self.best is self.written else self.best.values

    def progress(self) -> MixProgress:
        """Return the maximum number of runs left. ``low`` and ``high`` are the first and last of the tuning's sizes."""
        done = not self.wanted
        left = self.tune.trials * len(self._cells) - sum(len(trial.runs) for trial in self.trials)
        note = f"{len(self.ended)} of {self.tune.trials} trials ended"
        return MixProgress(self.mix, self.sizes[0], self.sizes[-1], 0 if done else left, done, note)

    def __str__(self) -> str:
        best, written = self.best, self.written
        as_written = f"{written.learned} of {len(written.runs)} runs learned as written"
        if best is written:
            return f"tuning {self.mix}: {NOTHING_BETTER} ({as_written})"
        learned = f"{best.learned} of {len(best.runs)} runs learned"
        why = f"({as_written}; better with a probability of at least {SURE}%)"
        return f"tuned {self.mix}: {values_text(best.values)}, {learned} {why}"

    def _may_win(self, learned: int) -> bool:
        return beats(learned, self.written.learned, len(self._cells))

    def _wanted_by(self, trial: Trial) -> list[Request]:
        """Return the runs that a trial wants next: at the smallest size, then all others if it may still win."""
        if trial is self.written or not trial.missing:
            return trial.missing
        # Only the smallest size decides, so that the result does not depend on the order in which runs end.
        small = trial.first(self.tune.seeds)
        failed = 0 if small.missing else len(small.requests) - small.learned
        hopeless = not self._may_win(len(self._cells) - failed)
        return [] if self.written.missing or hopeless else small.missing or trial.missing

    def _trial(self, values: dict[str, float], settings: Mapping[str, float]) -> Trial:
        """Return a trial with its outcomes so far. ``settings`` is empty for the settings as written."""
        given = tuple(settings.items())
        requests = tuple(Request(self.mix, size, seed, values=given, until=LEARNED) for size, seed in self._cells)
        ended = {request: self._results.get(request) for request in requests}
        return Trial(values, requests, {request: run for request, run in ended.items() if isinstance(run, Learning)})


class Tuner(Searcher):
    """Requests the runs of every mix's study, with results from :func:`observe_learning`."""

    Settings: ClassVar[type[SearchSettings]] = SearchSettings

    def __init__(self, spec: SweepSpec) -> None:
        assert spec.tune is not None
        super().__init__(Problem(tuple(mix.name for mix in spec.mixes), spec.sizes, spec.tune.seed_list))
        self._spec = spec
        self._suggested: dict[str, list[dict[str, float]]] = {}

    def choose(self, pending: Sequence[Request], limit: int) -> list[Request]:
        wanted = [request for mix in self.problem.mixes for request in self.study(mix).wanted]
        return [request for request in wanted if request not in self.results and request not in pending][:limit]

    def progress_of(self, mix: str) -> MixProgress:
        return self.study(mix).progress()

    def study(self, mix: str) -> Study:
        return Study(self._spec, mix, self.results, self._suggested)


def suggested_values(study: Study, count: int) -> list[dict[str, float]]:
    """Return ``count`` values from Optuna's tree-structured Parzen estimator, given the rank of a study's ended trials
    at the smallest size."""
    import optuna  # Takes a second to import, and few sweeps tune.

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    tune = study.tune
    spans: dict[str, optuna.distributions.BaseDistribution] = {
        path: optuna.distributions.FloatDistribution(span.low, span.high, log=span.scale == "log")
        for path, span in tune.settings.items()
    }
    # Optuna seeds numpy's RandomState, which takes 32 bits. A constant liar keeps a wave's suggestions apart.
    sampler = optuna.samplers.TPESampler(seed=tune.seed % 2**32, n_startup_trials=1, constant_liar=True)
    optimizer = optuna.create_study(direction="minimize", sampler=sampler)
    small = [
        trial.first(tune.seeds)
        for trial in study.trials
        if all(span.low <= trial.values[path] <= span.high for path, span in tune.settings.items())
    ]
    for rank, trial in enumerate(sorted(small, key=lambda trial: trial.rank)):
        optimizer.add_trial(optuna.trial.create_trial(params=trial.values, distributions=spans, value=float(rank)))
    return [dict(optimizer.ask(spans).params) for _ in range(count)]


def spread_values(tune: Tune, count: int) -> list[dict[str, float]]:
    """Return ``count`` values that fill the ranges evenly, as a Latin hypercube from the seed."""
    rng = np.random.default_rng(tune.seed)
    columns = [(rng.permutation(count) + rng.random(count)) / count for _ in tune.settings]
    spans = list(zip(tune.settings.items(), columns, strict=True))
    return [{path: span.at(float(places[number])) for (path, span), places in spans} for number in range(count)]


def values_text(values: Mapping[str, float]) -> str:
    """Return text such as ``training.learning_rate 0.0031, training.weight_decay 0.12``."""
    return ", ".join(f"{path} {_digits(value)}" for path, value in values.items())


def tune_text(tune: Tune) -> str:
    """Return the ranges, trials, seeds and sizes of the tuning in one line."""
    spans = ", ".join(
        f"{path} {_digits(span.low)} to {_digits(span.high)}{' (log)' if span.scale == 'log' else ''}"
        for path, span in tune.settings.items()
    )
    sizes = "two sizes" if tune.sizes == "auto" else f"sizes {', '.join(map(str, tune.sizes))}"
    return f"{spans}: up to {tune.trials} trials for every mix, up to {tune.seeds} seeds at {sizes}"


def tuned_text(mix: str, values: Mapping[str, float], tune: Tune | None) -> str:
    """Return the settings with which a mix was trained in one line."""
    how = "set" if tune is None else "tuned"
    return f"{mix}: {how}: {values_text(values)}" if values else f"{mix}: {NOTHING_BETTER}"


def _digits(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"
