"""Races for a stack of runs: all methods of a mix on the same graphs, from the same starts, for the same price."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from trainables.base import Evaluation, Learner, Outcome, Report, RunConfig, Status
from trainables.checkpoint import read_checkpoint, write_checkpoint
from trainables.reparametrization.methods import Method
from trainables.reparametrization.moments import Moments
from trainables.reparametrization.race import Standing, ahead, is_over, limit
from trainables.reparametrization.settings import RaceSettings
from trainables.timing import computing_s

CHECKPOINT = "race.safetensors"
LEFT = "left"
"""No method is called so; in a checkpoint, before what is kept for pictures."""


@dataclass(frozen=True)
class Entry:
    """A run of the stack: its key, and a hash of the problem it is about."""

    key: str
    config: RunConfig
    digest: str


class RaceLearner(Learner):
    """Runs races of one mix, on graphs of one size. ``methods`` holds every method of the mix at the start of the whole
    stack.

    Time is what every method may have spent: between two evaluations each goes on for the same price.
    """

    def __init__(self, entries: Sequence[Entry], race: RaceSettings, methods: Mapping[str, Method]) -> None:
        self._entries = tuple(entries)
        self._race = race
        self._methods = dict(methods)
        self._moments = Moments(next(iter(self._methods.values())).problem)
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
        return [
            report if report.outcome is None else replace(report, arrays=self._moments.arrays(report.index))
            for report in reports
        ]

    def _run(self, name: str) -> None:
        """Let a method go on, and take down how it stands in every race."""
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
        """Leave out of each method's stack the runs that it has nothing more to do in."""
        for name in list(self._methods):
            rows = self._rows[name]
            kept = [place for place, row in enumerate(rows) if row in self._active and self._goes_on(row, name)]
            for place in sorted(set(range(len(rows))) - set(kept)):
                self._moments.leave(rows[place], name, self._methods[name], place)
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
        measures |= {f"seconds_{name}": one.seconds for name, one in standings.items()}
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
        """What each method spent, in units of the race, steps and seconds, and whether it arrived for that."""
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
        tensors |= {f"{LEFT}/{part}": tensor for part, tensor in self._moments.tensors().items()}
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
        left = {
            part.removeprefix(f"{LEFT}/"): tensor for part, tensor in tensors.items() if part.startswith(f"{LEFT}/")
        }
        self._moments.load(left, places)
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
