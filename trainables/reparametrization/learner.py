"""Races: all methods of a mix on one problem, from the same start, with the same budget."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from trainables.base import Evaluation, Learner, Outcome, Report, Status
from trainables.contract.clock import computing_s
from trainables.contract.torch_checkpoints import read_checkpoint, write_checkpoint
from trainables.reparametrization.methods import Method, Standing
from trainables.reparametrization.settings import RaceSettings

CHECKPOINT = "race.safetensors"
"""File of a checkpoint."""


def ahead(standings: Mapping[str, Standing], race: RaceSettings) -> dict[str, float]:
    """Return 1 for the method that is ahead and 0 for the others. For *ahead*, see :attr:`RaceSettings.factor`."""

    def beats_rivals(standing: Standing) -> bool:
        rivals = [other for other in standings.values() if other is not standing]
        return all(rival.broken or rival.spent > race.factor * standing.spent for rival in rivals)

    return {
        name: float(standing.arrives_within(race.steps) and beats_rivals(standing))
        for name, standing in standings.items()
    }


def is_over(standings: Mapping[str, Standing], spent: float, race: RaceSettings) -> bool:
    """Return True if the race is over once every method may have ``spent`` this much.

    It is over at ``race.steps``, or if it is decided and ``spent`` is ``patience`` times the cost of the first arrival.
    """
    methods = standings.values()
    first = min((method.spent for method in methods if method.arrives_within(race.steps)), default=math.inf)
    decided = all(method.ended or method.spent > race.factor * first for method in methods)
    waited = decided and spent >= race.patience * first
    return waited or spent >= race.steps or all(method.ended for method in methods)


@dataclass
class Race:
    """One run. ``digest`` is a hash of its problem."""

    key: str
    digest: str
    methods: Mapping[str, Method]
    curve: list[Evaluation] = field(default_factory=list)

    @property
    def standings(self) -> dict[str, Standing]:
        """Standing of each method, by name."""
        return {name: method.standing for name, method in self.methods.items()}


class RaceLearner(Learner):
    """Runs races of one mix, on graphs of one size, on the CPU. A step is the budget that every method has so far."""

    def __init__(self, races: Sequence[Race], settings: RaceSettings) -> None:
        self._races = tuple(races)
        self._settings = settings
        self._active = list(range(len(races)))
        self._spent = 0

    def advance(self) -> list[Report]:
        self._spent = min(self._spent + self._settings.evaluate_every, self._settings.steps)
        for method in (method for index in self._active for method in self._races[index].methods.values()):
            begun = computing_s(torch.device("cpu"))
            method.run(self._spent)
            method.standing.seconds += computing_s(torch.device("cpu")) - begun
        reports = [self._report(index) for index in self._active]
        self._active = [report.index for report in reports if report.outcome is None]
        return reports

    def _report(self, index: int) -> Report:
        race = self._races[index]
        standings = self._races[index].standings
        scores = ahead(standings, self._settings)
        # A geometric mean, because gaps span orders of magnitude.
        finite = [method.gap if math.isfinite(method.gap) else 1e300 for method in standings.values()]
        gaps = [max(gap, 1e-300) for gap in finite]
        loss = math.exp(sum(map(math.log, gaps)) / len(gaps))
        measures = {f"gap_{name}": gap for name, gap in zip(standings, gaps, strict=True)}
        evaluation = Evaluation(self._spent, loss, scores, measures)
        race.curve.append(evaluation)
        if not is_over(standings, self._spent, self._settings):
            return Report(index, evaluation)
        measures = {"seconds": sum(method.seconds for method in standings.values())}
        for name, method in standings.items():
            measures[f"spent_{name}"] = method.spent
            measures[f"steps_{name}"] = method.steps
            measures[f"seconds_{name}"] = method.seconds
            measures[f"arrived_{name}"] = float(method.arrives_within(self._settings.steps))
            measures[f"broken_{name}"] = float(method.broken)
        floor = dict.fromkeys(scores, 0.0)
        curve = tuple(race.curve)
        outcome = Outcome(Status.FINISHED, self._spent, scores, floor, curve, measures, data=race.digest)
        return Report(index, evaluation, outcome)

    def save(self, directory: Path) -> None:
        arrays: dict[str, NDArray[Any]] = {}
        going = {}
        for race in (self._races[index] for index in self._active):
            standings = {name: asdict(standing) for name, standing in race.standings.items()}
            going[race.key] = {"standings": standings, "curve": [asdict(point) for point in race.curve]}
            for name, method in race.methods.items():
                arrays |= {f"{race.key}/{name}/{part}": array for part, array in method.arrays().items()}
        notes = {"keys": [race.key for race in self._races], "spent": self._spent, "going": going}
        write_checkpoint(directory / CHECKPOINT, {name: torch.tensor(array) for name, array in arrays.items()}, notes)

    def restore(self, directory: Path) -> None:
        tensors, notes = read_checkpoint(directory / CHECKPOINT, (race.key for race in self._races))
        self._spent = notes["spent"]
        self._active = [index for index, race in enumerate(self._races) if race.key in notes["going"]]
        for race in (self._races[index] for index in self._active):
            saved = notes["going"][race.key]
            race.curve = [Evaluation(**point) for point in saved["curve"]]
            for name, method in race.methods.items():
                arrays = {part: tensors[f"{race.key}/{name}/{part}"].numpy() for part in method.kept}
                method.load(arrays, Standing(**saved["standings"][name]))
