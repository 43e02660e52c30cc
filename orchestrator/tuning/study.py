"""The tuning of one mix, as it stands with the runs that are known: where, with which trials, what comes next."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from orchestrator.search.base import MixProgress, Observation, Problem, Request, Results
from orchestrator.search.bisection import Bisection
from orchestrator.space.plain import plain_settings
from orchestrator.space.spec import SweepSpec
from orchestrator.space.tuning import Tune, Tuned
from orchestrator.tuning.halving import WRITTEN, Rungs, Step, TuningCell, chosen, dearest, next_step, rungs_of
from orchestrator.tuning.objective import LEARNED, Learning, TuningRun, objective
from orchestrator.tuning.places import sizes_around
from orchestrator.tuning.results import Tuning, TuningTrial
from trainables.base import KEY_DIGITS

Propose = Callable[[Sequence[TuningTrial], Rungs, int], list[dict[str, float]]]
"""Values for so many new trials, given those there are."""


class Study:
    """A pure function of the results. Where the sizes are ``auto``, those to tune at come from a bisection with the
    first of tuning's seeds and the settings as written; as far as its runs lie at these sizes, they are runs of the
    first trial, too."""

    def __init__(self, spec: SweepSpec, mix: str, results: Results, propose: Propose) -> None:
        if spec.tune is None:
            raise ValueError("the search space asks for no tuning")
        self.mix = mix
        self.asked: Tune = spec.tune
        self._spec = spec
        self._results = results
        self._propose = propose

    @cached_property
    def sizes(self) -> tuple[int, ...] | None:
        """The sizes that the mix is tuned at; None as long as its transition has not been estimated."""
        if self.asked.sizes != "auto":
            return self.asked.sizes
        (found,) = self._pilot().progress()
        return sizes_around(self._spec.sizes, found.low, found.high) if found.done else None

    @property
    def trials(self) -> tuple[TuningTrial, ...]:
        """The trials begun, in their order, with their runs in the order of the rungs."""
        return self._standing[0]

    @property
    def step(self) -> Step:
        """What the trials want next; none is begun any more."""
        return self._standing[1]

    @property
    def wanted(self) -> list[Request]:
        """The runs of the next step that have not ended, most wanted first; none once the tuning is over."""
        if self.sizes is None:
            return [replace(request, until=LEARNED) for request in self._pilot().ask(1)]
        values = [trial.values for trial in self.trials]
        return [self._request(number, values[number], cell) for number, cell in self.step.runs]

    def runs_of(self, number: int) -> list[Request]:
        """The runs of a trial that have ended."""
        trial = self.trials[number]
        return [self._request(number, trial.values, TuningCell(run.size, run.seed)) for run in trial.runs]

    def result(self) -> Tuning:
        """The trials and what was chosen. Raises ``ValueError`` while runs are still wanted."""
        if self.sizes is None or not self.step.done:
            raise ValueError(f"the tuning of {self.mix} has not ended")
        number = chosen(self.trials, self.step.finalists)
        best = self._tuned(number, self.trials[number].values)
        return Tuning(self.mix, study_key(self._spec, self.mix, self.sizes), self.sizes, self.trials, best)

    def progress(self) -> MixProgress:
        """How far it is; ``low`` and ``high`` are the first and the last of its sizes."""
        asked, two = self.asked, self._spec.sizes[-2:]
        most = sum(each.total() for each in dearest(asked.trials, self.sizes or two, asked.seeds))
        if self.sizes is None:
            (pilot,) = self._pilot().progress()
            return replace(pilot, runs_left=pilot.runs_left + most, note=f"a first estimate: {pilot.note}")
        left = 0 if self.step.done else most - sum(len(trial.runs) for trial in self.trials)
        note = f"{len(self.trials)} of {asked.trials} trials begun"
        return MixProgress(self.mix, self.sizes[0], self.sizes[-1], left, self.step.done, note)

    @cached_property
    def _standing(self) -> tuple[tuple[TuningTrial, ...], Step]:
        """Begin trials as long as any are wanted: the first at the settings as written, then what is proposed."""
        if self.sizes is None:
            return (), Step()
        rungs = rungs_of(self.sizes, self.asked.seed_list)
        trials: list[TuningTrial] = []
        while (step := next_step(trials, self.asked.trials, rungs, self.asked.penalty)).begin:
            new = self._propose(trials, rungs, step.begin) if trials else [self._written()]
            trials += [self._trial(number, values, rungs) for number, values in enumerate(new, len(trials))]
        return tuple(trials), step

    def _pilot(self) -> Bisection:
        """The bisection that says where to tune; no run changes what it says but those it asked for. One that learned
        counts as 1: its accuracy is that of the moment at which it was ended."""
        seed = self.asked.seed
        pilot = Bisection(Problem((self.mix,), self._spec.sizes, (seed,)))
        for size in self._spec.sizes:
            seen = self._results.get(Request(self.mix, size, seed, until=LEARNED))
            if isinstance(seen, Learning):
                accuracy = seen.accuracy if seen.learned_at is None else 1.0
                pilot.tell(Request(self.mix, size, seed), Observation(accuracy, 0.0))
        return pilot

    def _trial(self, number: int, values: dict[str, float], rungs: Rungs) -> TuningTrial:
        runs = [self._run(self._request(number, values, cell)) for rung in rungs for cell in rung]
        ended = tuple(run for run in runs if run is not None)
        return TuningTrial(values, ended, objective(ended, self.asked.penalty) if ended else None)

    def _run(self, request: Request) -> TuningRun | None:
        """What a run of a trial came to; None where it has not ended."""
        seen = self._results.get(request)
        if not isinstance(seen, Learning):
            return None
        steps = self._spec.make_family().steps(self._spec.config(request))
        came_to = (seen.learned_at, seen.accuracy, steps, seen.diverged, seen.cost)
        return TuningRun(request.size, request.seed, *came_to)

    def _request(self, number: int, values: dict[str, float], cell: TuningCell) -> Request:
        at_size = self._tuned(number, values).at(cell.size, self._spec.family_class.scales_with_size)
        return Request(self.mix, cell.size, cell.seed, values=tuple(at_size.items()), until=LEARNED)

    def _tuned(self, number: int, values: dict[str, float]) -> Tuned:
        """What a trial's runs are trained with: for the settings as written nothing but those."""
        assert self.sizes is not None, "trials have sizes"
        base = math.exp(sum(map(math.log, self.sizes)) / len(self.sizes))
        return Tuned(settings={} if number == WRITTEN else values, base_size=base, size_power=self.asked.size_power)

    def _written(self) -> dict[str, float]:
        return {path: _look_up(self._spec.settings, path) for path in self.asked.settings}


def study_key(spec: SweepSpec, mix: str, sizes: tuple[int, ...]) -> str:
    """A hash of everything that what is found for a mix depends on: those who ask the same find the same."""
    if spec.tune is None:
        raise ValueError("the search space asks for no tuning")
    described = {
        "family": spec.family,
        "version": spec.family_class.version,
        "mix": mix,
        "target": spec.target,
        "settings": plain_settings(spec.settings),
        "tune": spec.tune.model_dump(mode="json", exclude={"sizes"}),
        "sizes": sizes,
        "learned": LEARNED,
        "method": "halving over seeds and sizes",
    }
    text = json.dumps(described, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]


def _look_up(settings: Any, path: str) -> float:
    for part in path.split("."):
        settings = getattr(settings, part)
    return float(settings)
