"""Races for a stack of runs: all methods of a mix on the same graphs, from the same starts, for the same price."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from trainables.base import Evaluation, Learner, Outcome, Report, RunConfig, Status
from trainables.reparametrization.line_search import ConjugateGradients, Lbfgs, Newton
from trainables.reparametrization.methods import Descent, Method, Price
from trainables.reparametrization.network import Network, initial, propagation
from trainables.reparametrization.problems import Problem, rng_of
from trainables.reparametrization.settings import REPARAMETRIZED, RaceSettings, ReparametrizationSettings
from trainables.torch_learner import computing_s, read_checkpoint, write_checkpoint

CHECKPOINT = "race.safetensors"
SEARCHING: dict[str, type[Method]] = {"cg": ConjugateGradients, "lbfgs": Lbfgs, "newton": Newton}


@dataclass
class Standing:
    """One method in one race: what it has ``spent``, in units of the race, its ``steps``, its last ``gap`` (the loss
    above the solution's, as a share of that at the start), whether it has ``arrived``, and whether it is ``broken``:
    its loss was no longer finite. ``seconds`` are its share of the time its stack took."""

    spent: float = 0.0
    steps: int = 0
    gap: float = 1.0
    arrived: bool = False
    broken: bool = False
    seconds: float = 0.0

    def arrives_within(self, budget: float) -> bool:
        """True if it arrived for no more than ``budget``: a line search, or one of Newton's directions, may end beyond
        one."""
        return self.arrived and self.spent <= budget


def ahead(standings: Mapping[str, Standing], race: RaceSettings) -> dict[str, float]:
    """1 for the method that is ahead (:class:`RaceSettings` defines it), 0 for the others.

    A method that broke down never arrives. One without rivals is ahead if it arrived.
    """
    return {
        name: float(
            mine.arrives_within(race.steps)
            and all(
                theirs.broken or theirs.spent > race.factor * mine.spent
                for other, theirs in standings.items()
                if other != name
            )
        )
        for name, mine in standings.items()
    }


def limit(standings: Mapping[str, Standing], race: RaceSettings) -> float:
    """The budget of every method of a race as far as is known: ``race.steps``, or ``patience`` times what the first one
    to arrive needed."""
    first = min((one.spent for one in standings.values() if one.arrives_within(race.steps)), default=math.inf)
    return min(float(race.steps), race.patience * first)


def is_over(standings: Mapping[str, Standing], spent: float, race: RaceSettings) -> bool:
    """True if nothing can change any more once every method may have ``spent`` so much."""
    return spent >= limit(standings, race) or all(one.arrived or one.broken for one in standings.values())


def method_of(name: str, problem: Problem, runs: Sequence[RunConfig], price: Callable[[str], Price]) -> Method:
    """The method ``name`` at the start of a stack, whose runs differ in rates alone."""
    settings: ReparametrizationSettings = runs[0].settings
    tolerance = settings.race.tolerance
    if name in SEARCHING:
        return SEARCHING[name](problem, price(name), tolerance)
    rates = [run.settings.rates.of(name) for run in runs]
    if name not in REPARAMETRIZED:
        return Descent(problem, price(name), tolerance, name, rates)
    network, numbers = settings.network, problem.instances[0].start.shape[1]
    matrices, parameters = [], []  # The first parameters do not depend on the rule.
    for instance, run in zip(problem.instances, runs, strict=True):
        nodes = len(instance.start)
        matrices.append(propagation(name, instance, network, rng_of("shuffle", nodes, run.seed)))
        parameters.append(initial(network, nodes, numbers, rng_of("network", nodes, run.seed)))
    made = Network(network, matrices, numbers, problem.device)
    return Descent(problem, price(name), tolerance, "adam", rates, made, problem.stacked(parameters))


@dataclass(frozen=True)
class Entry:
    """A run of the stack: its key, and a hash of its problem."""

    key: str
    config: RunConfig
    digest: str


class RaceLearner(Learner):
    """Runs races of one mix, on graphs of one size. ``methods`` holds every method of the mix at the start of the whole
    stack.

    Time is the budget of every method so far: between two evaluations each goes on for the same price.
    """

    def __init__(self, entries: Sequence[Entry], race: RaceSettings, methods: Mapping[str, Method]) -> None:
        self._entries = tuple(entries)
        self._race = race
        self._methods = dict(methods)
        self._rows = {name: list(range(len(entries))) for name in methods}
        self._standings = [{name: Standing() for name in methods} for _ in entries]
        self._curves: list[list[Evaluation]] = [[] for _ in entries]
        self._active = list(range(len(entries)))
        self._spent = 0

    def advance(self) -> list[Report]:
        if not self._active:
            return []
        self._spent = min(self._spent + self._race.evaluate_every, self._race.steps)
        for name in list(self._methods):
            self._run(name)
        reports = [self._report(index) for index in self._active]
        self._active = [report.index for report in reports if report.outcome is None]
        self._drop()
        return reports

    def _run(self, name: str) -> None:
        """Let a method go on, and take down its standing in every race."""
        method, rows = self._methods[name], self._rows[name]
        device = method.problem.device
        begun = computing_s(device)
        method.run(self._spent)
        seconds = (computing_s(device) - begun) / len(rows)
        columns = [
            column.tolist()
            for column in (method.spent_S, method.steps_S, method.gap_S, method.arrived_S, method.broken_S)
        ]
        for row, (spent, steps, gap, arrived, broken) in zip(rows, zip(*columns, strict=True), strict=True):
            before = self._standings[row][name].seconds
            self._standings[row][name] = Standing(spent, steps, gap, arrived, broken, before + seconds)

    def _drop(self) -> None:
        """Take the runs that are finished for a method out of its stack."""
        for name in list(self._methods):
            rows = self._rows[name]
            kept = [place for place, row in enumerate(rows) if row in self._active and self._goes_on(row, name)]
            if not kept:
                del self._methods[name], self._rows[name]
            elif len(kept) < len(rows):
                self._methods[name].keep(kept)
                self._rows[name] = [rows[place] for place in kept]

    def _goes_on(self, row: int, name: str) -> bool:
        mine = self._standings[row][name]
        return not (mine.arrived or mine.broken) and self._spent < limit(self._standings[row], self._race)

    def _report(self, index: int) -> Report:
        standings = self._standings[index]
        scores = ahead(standings, self._race)
        # The geometric mean: gaps fall over orders of magnitude.
        gaps = [max(one.gap, 1e-300) if math.isfinite(one.gap) else 1e300 for one in standings.values()]
        loss = math.exp(sum(map(math.log, gaps)) / len(gaps))
        measures = {f"gap_{name}": gap for name, gap in zip(standings, gaps, strict=True)}
        evaluation = Evaluation(self._spent, loss, scores, measures)
        self._curves[index].append(evaluation)
        if not is_over(standings, self._spent, self._race):
            return Report(index, evaluation)
        outcome = Outcome(
            Status.FINISHED,
            self._spent,
            scores,
            dict.fromkeys(scores, 0.0),
            tuple(self._curves[index]),
            self._measures(standings),
            data=self._entries[index].digest,
        )
        return Report(index, evaluation, outcome)

    def _measures(self, standings: Mapping[str, Standing]) -> dict[str, float]:
        """Each method's spending, in units of the race, steps and seconds, and 1 if it arrived within the budget."""
        measures = {"seconds": sum(one.seconds for one in standings.values())}
        for name, one in standings.items():
            measures[f"spent_{name}"] = one.spent
            measures[f"steps_{name}"] = one.steps
            measures[f"seconds_{name}"] = one.seconds
            measures[f"arrived_{name}"] = float(one.arrives_within(self._race.steps))
        return measures

    def save(self, directory: Path) -> None:
        tensors = {
            f"{name}/{part}": tensor
            for name, method in self._methods.items()
            for part, tensor in method.tensors().items()
        }
        notes = {
            "keys": [entry.key for entry in self._entries],
            "active": self._active,
            "spent": self._spent,
            "rows": self._rows,
            "standings": [{name: asdict(one) for name, one in each.items()} for each in self._standings],
            "curves": [[asdict(point) for point in curve] for curve in self._curves],
        }
        write_checkpoint(directory / CHECKPOINT, tensors, notes)

    def restore(self, directory: Path) -> None:
        tensors, notes = read_checkpoint(directory / CHECKPOINT)
        if not {entry.key for entry in self._entries} <= set(notes["keys"]):
            raise ValueError(f"the checkpoint in {directory} belongs to another stack")
        places = [notes["keys"].index(entry.key) for entry in self._entries]
        self._spent = notes["spent"]
        self._active = [index for index, place in enumerate(places) if place in notes["active"]]
        self._standings = [
            {name: Standing(**one) for name, one in notes["standings"][place].items()} for place in places
        ]
        self._curves = [[Evaluation(**point) for point in notes["curves"][place]] for place in places]
        for name in list(self._methods):
            theirs = notes["rows"].get(name, [])
            rows = [index for index, place in enumerate(places) if place in theirs]
            if not rows:
                del self._methods[name], self._rows[name]
                continue
            method = self._methods[name]
            if len(rows) < len(places):
                method.keep(rows)
            self._rows[name] = rows
            where = torch.tensor([theirs.index(places[index]) for index in rows])
            mine = {
                part.removeprefix(f"{name}/"): tensor[where].to(method.problem.device)
                for part, tensor in tensors.items()
                if part.startswith(f"{name}/")
            }
            method.load(mine)
