"""Sweeps of the logistic family, whose true transitions are known, for tests of reports and records."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from orchestrator.catalog.reading import StoredSweep, read_sweep
from orchestrator.home.directories import Home
from orchestrator.report.answer import Answer, Count, MixAnswer, TaskAnswer
from orchestrator.search.base import Request
from orchestrator.space.runs import Run
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.comparison import Comparison, compare
from orchestrator.transition.evidence import Block, Pair
from orchestrator.transition.types import Estimate, Point, SizeShare, Synergy, Transition, Verdict
from tests.catalog.fabricated import write_sweep
from tests.families import LogisticFamily
from trainables.base import Arm, Outcome, RunConfig, Status

SIZES = (8, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128)


def make_spec(**changes: Any) -> SweepSpec:
    """Return a spec of ``add`` against ``add+prod``, whose true midpoints are 40 units alone and 20 together."""
    settings: dict[str, Any] = {
        "name": "add_vs_add_prod",
        "question": "Does training on PROD as well let a smaller model learn ADD?",
        "family": "tests.families:LogisticFamily",
        "target": "add",
        "mixes": ("add", "add+prod"),
        "sizes": SIZES,
        "seeds": 3,
    }
    return SweepSpec(**{**settings, **changes})


def run_of(config: RunConfig, outcome: Outcome, key: str = "", directory: Path = Path()) -> Run:
    """Return a run that was requested by its mix, size and seed."""
    request = Request(config.label, config.size, config.seed)
    return Run(request, config, outcome, key, directory)


def train(spec: SweepSpec, cells: Iterable[tuple[str, int]], seeds: int = 2) -> list[Run]:
    """Train runs of these (mix, size) cells, each alone."""
    family = spec.make_family()
    ended = []
    for mix, size in cells:
        for seed in range(seeds):
            config = family.config(Arm.parse(mix), size, seed)
            learner = family.learner([config], device="cpu", cache=Path())
            reports = learner.advance()
            while reports[0].outcome is None:
                reports = learner.advance()
            ended.append(run_of(config, reports[0].outcome))
    return ended


@functools.cache
def bracketed() -> tuple[Run, ...]:
    """Return runs at every size for both mixes, which locate both transitions."""
    spec = make_spec()
    return tuple(train(spec, [(mix.name, size) for mix in spec.mixes for size in SIZES]))


def in_order(spec: SweepSpec, sizes: Iterable[int] = SIZES, seeds: int = 2) -> tuple[Block, ...]:
    """Return blocks that pair every other mix with the first one, at equal sizes, seed by seed."""
    baseline, *mixes = (mix.name for mix in spec.mixes)
    cells = [(mix, size, seed) for seed in range(seeds) for size in sizes for mix in mixes]
    return tuple(Block(mix, baseline, size, size, seed) for mix, size, seed in cells)


def compared(pairs: Iterable[tuple[int, bool, bool] | tuple[int, bool, bool, int]]) -> Comparison:
    """Compare pairs of the mix's size, whether the mix and its baseline learned, and the baseline's size if it
    differs."""
    made = [
        Pair(pair[0], pair[3] if len(pair) == 4 else pair[0], at, pair[1], pair[2]) for at, pair in enumerate(pairs)
    ]
    return compare(made, make_spec().make_family().parameters)


def scored(config: RunConfig, accuracy: float, steps: int = 3) -> Outcome:
    """Return the outcome of a finished run with this accuracy on all tasks."""
    tasks = config.mix.tasks
    return Outcome(Status.FINISHED, steps, dict.fromkeys(tasks, accuracy), dict.fromkeys(tasks, 0.1))


def diverged(config: RunConfig, floor: float = 0.1) -> Outcome:
    floors = dict.fromkeys(config.mix.tasks, floor)
    return Outcome(Status.DIVERGED, 2, dict(floors), floors)


def failed(error: str = "Traceback: ZeroDivisionError") -> Outcome:
    return Outcome(Status.FAILED, 0, {}, {}, error=error)


def config(mix: str, size: int, seed: int = 0) -> RunConfig:
    return make_spec().make_family().config(Arm.parse(mix), size, seed)


NOWHERE = Estimate(None, None, None)
FOUND = Estimate(37.1, 33.0, 41.0)
UNKNOWN = Synergy(None, None, None)


@dataclass(frozen=True)
class Made(Transition):
    """A made-up transition with made-up counts of learned runs."""

    shares: tuple[SizeShare, ...] = ()


def transition(verdict: Verdict, relative: Estimate = NOWHERE) -> Made:
    """Return a transition whose runs have sizes 8 to 64, whatever the verdict."""
    points = tuple(Point(size, seed, 0.95, 0.1) for size in (8, 32, 64) for seed in (0, 1))
    return Made(verdict, relative, relative, points, 0.9)


def called(text: str, plain: MixAnswer) -> MixAnswer:
    """Return the answer relabelled as another arm, with that arm's number of examples."""
    arm = Arm.parse(text)
    return replace(
        plain,
        mix=arm.name,
        recipe=arm.recipe,
        plain=arm.plain_name,
        composition=arm.composition,
        budget=arm.budget,
        seen=arm.seen("add"),
    )


def make_answer(first: Made, second: Made, comparison: Comparison | None = None, synergy: Synergy = UNKNOWN) -> Answer:
    """Return an answer for ``add`` and ``add+prod`` with made-up transitions, 10 parameters a unit and 8 of them
    core."""

    def task(name: str, transition: Transition) -> TaskAnswer:
        return TaskAnswer(name, transition, _times(transition.relative, 10), _times(transition.relative, 8))

    own = MixAnswer("", 11, 1, 2, (task("add", second), task("prod", second)), second.shares, comparison, synergy)
    mixes = (called("add", MixAnswer("", 14, 0, 0, (task("add", first),), first.shares)), called("add+prod", own))
    counts = tuple(Count(size, size * 10.0, size * 8.0) for size in (8, 16, 32, 64, 128))
    return Answer("add", "modulus 6", LogisticFamily.size_axis, counts, "add", mixes)


def _times(estimate: Estimate, factor: float) -> Estimate:
    sides = (estimate.value, estimate.low, estimate.high)
    return Estimate(*(None if side is None else side * factor for side in sides))


def written(path: Path, sweep_spec: SweepSpec | None = None, **changes: Any) -> StoredSweep:
    """Write a sweep under ``path`` as :func:`write_sweep`, and read it."""
    return read_sweep(Home(path), write_sweep(Home(path), sweep_spec, **changes).id)
