"""Successive halving over seeds and sizes: which runs of which trials are wanted next. Pure; runs of one step are
independent of each other, so that they train as stacks.

Jamieson and Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization" (arXiv 1502.07943); but
what grows from rung to rung is the number of runs and not their steps: a model that learns late is what is studied.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orchestrator.tuning.evidence import beats
from orchestrator.tuning.objective import TuningRun, learned_of, objective
from orchestrator.tuning.results import TuningTrial

WRITTEN = 0
"""The number of the trial at the space's own settings."""


@dataclass(frozen=True, order=True)
class TuningCell:
    """What every trial is trained at: a size with a seed."""

    size: int
    seed: int


Rungs = tuple[tuple[TuningCell, ...], ...]


def rungs_of(sizes: Sequence[int], seeds: Sequence[int]) -> Rungs:
    """What a trial trains from rung to rung: half of the seeds (rounded up) at the smallest size, the other half there,
    then all seeds at each larger size. ``sizes`` ascend.

    The smallest size comes first as it tells most, where the settings as written are learned by few, and costs least.
    """
    first = math.ceil(len(seeds) / 2)
    lowest = [TuningCell(sizes[0], seed) for seed in seeds]
    above = [tuple(TuningCell(size, seed) for seed in seeds) for size in sizes[1:]]
    return tuple(rung for rung in (tuple(lowest[:first]), tuple(lowest[first:]), *above) if rung)


@dataclass(frozen=True)
class Step:
    """What is to be done next: ``begin`` so many new trials, or train ``runs`` (trial number and cell, in the order of
    urgency). ``ended`` are the trials that want no further run; ``finalists`` those of them that ran everything,
    beside the settings as written, the best first. With neither trials nor runs wanted, tuning is over.
    """

    begin: int = 0
    runs: tuple[tuple[int, TuningCell], ...] = ()
    ended: frozenset[int] = frozenset()
    finalists: tuple[int, ...] = ()

    @property
    def done(self) -> bool:
        return not self.begin and not self.runs


def next_step(trials: Sequence[TuningTrial], asked: int, rungs: Rungs, penalty: float) -> Step:
    """What ``asked`` trials (at least 1) want after those begun so far, with their runs so far.

    The trial of the settings as written comes first and runs everything. Where it leaves room for a better one, half of
    the others begin, then, with those known, the other half; of each rung the better half goes on, rounded down, but
    at least one, and none of which no run learned or that cannot beat the settings as written any more.
    """
    if not trials:
        return Step(begin=1)
    everything = [cell for rung in rungs for cell in rung]
    if missing := _missing(trials, [WRITTEN], everything):
        return Step(runs=missing)
    of, written = len(everything), learned_of(trials[WRITTEN].runs)
    if not beats(of, written, of):
        return Step(ended=frozenset(range(len(trials))))
    begun = list(range(1, len(trials)))
    if missing := _missing(trials, begun, rungs[0]):
        return Step(runs=missing, ended=frozenset([WRITTEN]))
    if len(begun) < asked - 1:
        return Step(begin=_wave(asked, len(begun)), ended=frozenset([WRITTEN]))
    alive = begun
    for place, rung in enumerate(rungs):
        if missing := _missing(trials, alive, rung):
            return Step(runs=missing, ended=frozenset(range(len(trials))) - frozenset(alive))
        if place < len(rungs) - 1:
            alive = _better_half(alive, _runs_at(trials, rungs[: place + 1]), written, of, penalty)
    best = sorted(alive, key=lambda number: objective(trials[number].runs, penalty))
    return Step(ended=frozenset(range(len(trials))), finalists=tuple(best))


def chosen(trials: Sequence[TuningTrial], finalists: Sequence[int]) -> int:
    """The number of the trial to take: the best finalist where it beats the settings as written, else theirs."""
    if not finalists:
        return WRITTEN
    best, written = trials[finalists[0]].runs, trials[WRITTEN].runs
    return finalists[0] if beats(learned_of(best), learned_of(written), len(written)) else WRITTEN


def dearest(trials: int, sizes: Sequence[int], seeds: int) -> Iterator[Counter[int]]:
    """At most so many runs of each size, step by step; those of one step may train at the same time."""
    rungs = rungs_of(sizes, range(seeds))
    yield Counter(cell.size for rung in rungs for cell in rung)
    begun = 0
    while begun < trials - 1:
        wave = _wave(trials, begun)
        yield Counter({rungs[0][0].size: wave * len(rungs[0])})
        begun += wave
    alive = trials - 1
    for rung in rungs[1:] if alive else ():
        alive = max(1, alive // 2)
        yield Counter({rung[0].size: alive * len(rung)})


def _wave(asked: int, begun: int) -> int:
    """How many trials begin together: half of them, then the rest."""
    return math.ceil((asked - 1) / 2) if begun < (asked - 1) // 2 else asked - 1 - begun


def _missing(
    trials: Sequence[TuningTrial], numbers: Sequence[int], cells: Sequence[TuningCell]
) -> tuple[tuple[int, TuningCell], ...]:
    there = {(number, run.size, run.seed) for number in numbers for run in trials[number].runs}
    wanted = ((number, cell) for number in numbers for cell in cells)
    return tuple((number, cell) for number, cell in wanted if (number, cell.size, cell.seed) not in there)


def _runs_at(trials: Sequence[TuningTrial], rungs: Rungs) -> list[list[TuningRun]]:
    """The runs each trial has on these rungs: what can be compared."""
    cells = {(cell.size, cell.seed) for rung in rungs for cell in rung}
    return [[run for run in trial.runs if (run.size, run.seed) in cells] for trial in trials]


def _better_half(
    alive: Sequence[int], runs: Sequence[Sequence[TuningRun]], written: int, of: int, penalty: float
) -> list[int]:
    """The trials that go on, in their order; ``runs`` are those that each trial has up to this rung."""

    def may_win(number: int) -> bool:
        learned = learned_of(runs[number])
        return learned > 0 and beats(learned + of - len(runs[number]), written, of)

    able = sorted(filter(may_win, alive), key=lambda number: objective(runs[number], penalty))
    return sorted(able[: max(1, len(alive) // 2)])
