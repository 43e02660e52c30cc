"""The tuning of a sweep's settings, a study for each mix: a pure function of the runs that are known.

The first trial has the settings as written and trains every cell (size, seed). Others begin in two waves: a Latin
hypercube, then values proposed by Optuna. A trial trains its smallest size first and goes on to the others only if it
can still beat the settings as written. What was found is taken only if more of its runs learn than luck explains.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import attrgetter
from typing import ClassVar

from orchestrator.search.base import MixProgress, Problem, Request, Results, Searcher, SearchSettings
from orchestrator.space.spec import SweepSpec
from orchestrator.space.tuning import Range, Tune, Tuned
from orchestrator.tuning.objective import LEARNED, Learning, TuningRun, beats, learned_of, objective

WRITTEN = 0
"""Number of the trial with the space's own settings."""
ENOUGH = 2
"""Trials from which on Optuna's suggestions are more than chance."""
Cell = tuple[int, int]
"""A size and a seed."""


@dataclass(frozen=True)
class TuningTrial:
    """Values by dotted setting, with the runs so far."""

    values: dict[str, float]
    runs: tuple[TuningRun, ...] = ()


Propose = Callable[[Sequence[TuningTrial], int], list[dict[str, float]]]
"""Values for so many new trials, given those that have ended."""


@dataclass(frozen=True)
class Tuning:
    """The trials of one mix in their order, the first with the settings as written, and the choice: no settings in
    ``best`` if no trial was better than those."""

    mix: str
    trials: tuple[TuningTrial, ...]
    best: Tuned


class Study:
    """The tuning of one mix, as it stands with the runs that are known."""

    def __init__(self, spec: SweepSpec, mix: str, results: Results, propose: Propose) -> None:
        assert spec.tune is not None
        self.mix = mix
        self.asked: Tune = spec.tune
        self.sizes = spec.tune.sizes_of(spec.sizes)
        self._spec = spec
        self._results = results
        self._propose = propose
        self._cells: list[Cell] = [(size, seed) for size in self.sizes for seed in spec.tune.seed_list]

    @cached_property
    def trials(self) -> tuple[TuningTrial, ...]:
        """The trials begun, in their order. A wave begins when all trials before it have ended."""
        written = {path: float(attrgetter(path)(self._spec.settings)) for path in self.asked.settings}
        trials = [self._trial(WRITTEN, written)]
        while self._all_ended(trials) and self._has_room(trials) and len(trials) < self.asked.trials:
            begun, others = len(trials) - 1, self.asked.trials - 1
            wave = math.ceil(others / 2) if begun == 0 else others - begun
            new = self._propose(trials, wave)
            trials += [self._trial(number, values) for number, values in enumerate(new, len(trials))]
        return tuple(trials)

    @property
    def ended(self) -> frozenset[int]:
        """Numbers of the trials that want no further run."""
        return frozenset(number for number, _ in enumerate(self.trials) if not self._missing(self.trials, number))

    @property
    def done(self) -> bool:
        """True if no run is wanted any more."""
        return len(self.ended) == len(self.trials)

    @property
    def wanted(self) -> list[Request]:
        """The runs wanted next that have not ended, the most wanted first; none once the tuning is over."""
        return [
            self._request(number, trial.values, cell)
            for number, trial in enumerate(self.trials)
            for cell in self._missing(self.trials, number)
        ]

    def result(self) -> Tuning:
        """The trials and the choice, once no run is wanted any more."""
        whole = [number for number, trial in enumerate(self.trials) if len(trial.runs) == len(self._cells)]
        best = min(whole, key=lambda number: objective(self.trials[number].runs, self.asked.penalty))
        learned, written = learned_of(self.trials[best].runs), learned_of(self.trials[WRITTEN].runs)
        number = best if beats(learned, written, len(self._cells)) else WRITTEN
        return Tuning(self.mix, self.trials, self._tuned(number, self.trials[number].values))

    def progress(self) -> MixProgress:
        """Runs left at most; ``low`` and ``high`` are the first and the last of its sizes."""
        left = self.asked.trials * len(self._cells) - sum(len(trial.runs) for trial in self.trials)
        note = f"{len(self.trials)} of {self.asked.trials} trials begun"
        return MixProgress(self.mix, self.sizes[0], self.sizes[-1], 0 if self.done else left, self.done, note)

    def _all_ended(self, trials: Sequence[TuningTrial]) -> bool:
        return not any(self._missing(trials, number) for number in range(len(trials)))

    def _has_room(self, trials: Sequence[TuningTrial]) -> bool:
        """True if a trial of which every run learns would beat the settings as written."""
        count = len(self._cells)
        return beats(count, learned_of(trials[WRITTEN].runs), count)

    def _missing(self, trials: Sequence[TuningTrial], number: int) -> list[Cell]:
        """The cells that a trial wants next: those of the smallest size, then all others if it may still win."""
        there = {(run.size, run.seed): run for run in trials[number].runs}
        missing = [cell for cell in self._cells if cell not in there]
        first = [cell for cell in self._cells if cell[0] == self.sizes[0]]
        if number == WRITTEN:
            return missing
        if lacking := [cell for cell in first if cell not in there]:
            return lacking
        # The smallest size alone decides: more would make the answer depend on the order in which runs end.
        count = len(self._cells)
        possible = learned_of([there[cell] for cell in first]) + count - len(first)
        return missing if beats(possible, learned_of(trials[WRITTEN].runs), count) else []

    def _trial(self, number: int, values: dict[str, float]) -> TuningTrial:
        runs = [self._run(self._request(number, values, cell)) for cell in self._cells]
        return TuningTrial(values, tuple(run for run in runs if run is not None))

    def _run(self, request: Request) -> TuningRun | None:
        """Outcome of a run of a trial; None before it has ended."""
        seen = self._results.get(request)
        if not isinstance(seen, Learning):
            return None
        steps = self._spec.make_family().steps(self._spec.config(request))
        return TuningRun(request.size, request.seed, seen.learned_at, seen.accuracy, steps, seen.diverged)

    def _request(self, number: int, values: dict[str, float], cell: Cell) -> Request:
        size, seed = cell
        at_size = self._tuned(number, values).at(size, self._spec.family_class.scales_with_size)
        return Request(self.mix, size, seed, values=tuple(at_size.items()), until=LEARNED)

    def _tuned(self, number: int, values: dict[str, float]) -> Tuned:
        """Settings that a trial's runs are trained with: for the trial as written nothing but the space's own."""
        base = math.exp(sum(map(math.log, self.sizes)) / len(self.sizes))
        return Tuned(settings={} if number == WRITTEN else values, base_size=base, size_power=self.asked.size_power)


class Tuner(Searcher):
    """Asks for the runs of every mix's study, each wanted until it has learned; a campaign trains them like all others.

    It is told what :func:`observe_learning` sees. A failed run is not asked for again; whoever drives the tuning ends
    it there.
    """

    Settings: ClassVar[type[SearchSettings]] = SearchSettings

    def __init__(self, spec: SweepSpec) -> None:
        assert spec.tune is not None
        super().__init__(Problem(tuple(mix.name for mix in spec.mixes), spec.sizes, spec.tune.seed_list))
        self._spec = spec
        self._asked: Tune = spec.tune
        self._proposed: dict[tuple[str, int], list[dict[str, float]]] = {}

    def choose(self, results: Results, pending: Sequence[Request], limit: int) -> list[Request]:
        taken = set(pending)
        wanted = [request for mix in self.problem.mixes for request in self._study(results, mix).wanted]
        # Two trials of the same values have the same runs.
        return list(dict.fromkeys(each for each in wanted if each not in results and each not in taken))[:limit]

    def progress(self) -> list[MixProgress]:
        return [self.study(mix).progress() for mix in self.problem.mixes]

    def study(self, mix: str) -> Study:
        """The tuning of a mix as it stands."""
        return self._study(self.results, mix)

    def _study(self, results: Results, mix: str) -> Study:
        return Study(self._spec, mix, results, partial(self._propose, mix))

    def _propose(self, mix: str, trials: Sequence[TuningTrial], wanted: int) -> list[dict[str, float]]:
        """Optuna's values for the next wave, worked out once: the trials before it have ended."""
        if (mix, len(trials)) not in self._proposed:
            self._proposed[mix, len(trials)] = propose(self._asked, trials, wanted)
        return self._proposed[mix, len(trials)]


def propose(asked: Tune, trials: Sequence[TuningTrial], wanted: int) -> list[dict[str, float]]:
    """Values for ``wanted`` new trials, within the ranges. The same trials give the same values.

    The first wave (``trials`` holds the settings as written alone) is a Latin hypercube. Later ones come from Optuna's
    tree-structured Parzen estimator, told the objective of each trial on the smallest size, which all have trained.
    """
    import optuna  # It takes a second, and few sweeps tune.

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    # Another stream for every wave, or the first suggestions would come again.
    seed = (asked.seed + len(trials)) % 2**32  # Beyond it numpy's RandomState, which Optuna uses, refuses one.
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=ENOUGH, constant_liar=True, multivariate=True)
    spans: dict[str, optuna.distributions.BaseDistribution] = {
        path: optuna.distributions.FloatDistribution(span.low, span.high, log=span.scale == "log")
        for path, span in asked.settings.items()
    }
    study = optuna.create_study(direction="minimize", sampler=sampler)
    if len(trials) == 1:
        from scipy.stats.qmc import LatinHypercube  # Takes .8 s to import.

        for places in LatinHypercube(len(spans), seed=asked.seed).random(wanted):
            named = zip(asked.settings.items(), places, strict=True)
            study.enqueue_trial({path: _at(span, float(place)) for (path, span), place in named})
    for trial in trials:
        runs = [run for run in trial.runs if run.size == min(each.size for each in trial.runs)]
        if runs and all(span.low <= trial.values[path] <= span.high for path, span in asked.settings.items()):
            score = objective(runs, asked.penalty)
            study.add_trial(optuna.trial.create_trial(params=trial.values, distributions=spans, value=score))
    return [dict(study.ask(spans).params) for _ in range(wanted)]


def _at(span: Range, place: float) -> float:
    """The value at a place in [0, 1) of a range, evenly on its scale."""
    value = span.low + place * (span.high - span.low)
    if span.scale == "log":
        value = math.exp(math.log(span.low) + place * math.log(span.high / span.low))
    return min(max(value, span.low), span.high)  # exp(log(x)) may be a little less than x.
