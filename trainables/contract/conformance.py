"""Conformance of a family: the contract of ``trainables.base``, check by check.

Nothing here knows who schedules the training: a family can be looked at before any sweep is asked of it.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path

from trainables.base import (
    Arm,
    Evaluation,
    Family,
    Learner,
    Mix,
    Outcome,
    Parameters,
    RunConfig,
    SettingsError,
    Words,
)
from trainables.contract.report_validator import BrokenFamilyError, ReportValidator, finite
from trainables.probes.base import load_probe

SIZES = (8, 16, 32, 64, 128, 4, 2, 1)
"""Tried in this order where nobody names sizes."""
CLOSE = 1e-3
"""The largest difference between the losses of a run alone and in a stack, in shares of the loss, at the first
evaluation: batched products add their terms in another order."""


@dataclass(frozen=True)
class Case:
    """A family, what is trained to look at it, and a directory for data and checkpoints."""

    family: Family
    arms: tuple[Arm, ...]
    sizes: tuple[int, ...]
    device: str
    directory: Path

    def run(self, seed: int = 0, size: int | None = None, arm: int = 0) -> RunConfig:
        """A run of the smallest size, unless another is asked for."""
        return self.family.config(self.arms[arm], self.sizes[0] if size is None else size, seed)

    def learner(self, runs: Sequence[RunConfig]) -> Learner:
        """A learner at step 0."""
        return self.family.learner(runs, device=self.device, cache=self.directory / "data")


@dataclass(frozen=True)
class Finding:
    """Result of a check: ``wrong`` is ``""`` if all is well, ``skipped`` is the reason for no result."""

    name: str
    wrong: str = ""
    skipped: str = ""


class Skipped(Exception):  # noqa: N818 - no error: nothing is wrong
    """A check that says nothing about this family."""


def case_of(family: Family, sizes: Sequence[int], device: str, directory: Path) -> Case:
    """The case for a family: its first task alone and, where it has more, with its second, at ``sizes``, or
    at two that it can train. Raises :class:`BrokenFamilyError` where there is none."""
    tasks = family.tasks()
    if not isinstance(tasks, tuple) or not tasks or not all(isinstance(task, str) and task for task in tasks):
        raise BrokenFamilyError(f"tasks() must give a tuple of names, at least one; it gave {tasks!r}")
    if len(set(tasks)) < len(tasks):
        raise BrokenFamilyError(f"tasks() names a task twice: {', '.join(tasks)}")
    mixes = [Mix.of({tasks[0]: 1})] + ([Mix.of({tasks[0]: 1, tasks[1]: 1})] if len(tasks) > 1 else [])
    arms = [Arm.of(mix) for mix in mixes]
    found, refused = [], ""
    for size in sizes or SIZES:
        try:
            for arm in arms:
                family.check(arm.mix, size)
            found.append(size)
        except SettingsError as error:
            refused = str(error)
            if sizes:
                raise BrokenFamilyError(f"check() refuses size {size}: {error}") from error
    if not found:
        raise BrokenFamilyError(f"check() refuses every size of {', '.join(map(str, SIZES))}: {refused}")
    return Case(family, tuple(arms), tuple(sorted(found[:2])), device, directory)


def findings(case: Case) -> Iterator[Finding]:
    """Every check in turn, the quick ones first; what a family raises is what is wrong with it."""
    for name, check in CHECKS.items():
        try:
            check(case)
        except Skipped as why:
            yield Finding(name, skipped=str(why))
        except (BrokenFamilyError, AssertionError) as error:
            yield Finding(name, wrong=str(error))
        except Exception:  # noqa: BLE001 - whatever a family raises is a finding
            yield Finding(name, wrong=traceback.format_exc().strip())
        else:
            yield Finding(name)


def _settings(case: Case) -> None:
    kind = case.family.Settings
    _must(is_dataclass(kind), f"Settings must be a dataclass; it is {kind!r}")
    _must(
        getattr(kind, "__dataclass_params__").frozen,  # noqa: B009 - dataclasses have it, types do not say so
        "Settings must be frozen: @dataclass(frozen=True)",
    )
    run = pickle.loads(pickle.dumps(case.run()))
    _must(run == case.run(), "a run must be the same after pickle, which carries it to workers: give Settings equality")


def _sayings(case: Case) -> None:
    family = case.family
    _must(isinstance(family.words, Words), f"words must be Words; they are {family.words!r}")
    _must(isinstance(family.version, int), f"version must be a whole number; it is {family.version!r}")
    told = {"subject()": [family.subject()], "warnings()": family.warnings(case.sizes)}
    lists = {"tunable": family.tunable, "parts": family.parts, "probes": family.probes}
    for name, said in (told | lists).items():
        texts = isinstance(said, list | tuple) and all(isinstance(each, str) for each in said)
        _must(texts, f"{name} must be text, or a list of texts; it is {said!r}")
    for name in family.probes:
        load_probe(name)


def _numbers(case: Case) -> None:
    for size in case.sizes:
        run, count = case.run(size=size), case.family.parameters(size)
        steps, flops = case.family.steps(run), case.family.flops(run)
        _must(isinstance(count, Parameters), f"parameters({size}) must give Parameters; it gave {count!r}")
        _must(finite(count.total) and finite(count.core), f"parameters({size}) must be finite; they are {count}")
        _must(0 < count.core <= count.total, f"parameters({size}): core must be above 0 and at most total; {count}")
        _must(isinstance(steps, int) and steps >= 1, f"steps() must be a whole number of at least 1; it is {steps!r}")
        _must(finite(flops) and flops > 0, f"flops() must be finite and above 0; it is {flops!r}")
        needed = case.family.memory(size)
        _must(finite(needed) and needed >= 0, f"memory({size}) must be finite and at least 0; it is {needed!r}")
    counts = [case.family.parameters(size).total for size in (*case.sizes, case.sizes[-1] + 0.5)]
    _must(counts == sorted(set(counts)), f"parameters() must grow with the size, fractions included; they are {counts}")


def _keys(case: Case) -> None:
    key = case.family.key
    _must(key(case.run()) == key(case.run()), "key() gives the same run two keys")
    others = {"seed": case.run(seed=1)}
    if len(case.sizes) > 1:
        others["size"] = case.run(size=case.sizes[1])
    if len(case.arms) > 1:
        others["mix"] = case.run(arm=1)
    for what, other in others.items():
        _must(key(case.run()) != key(other), f"key() gives runs that differ in their {what} the same key")
    shapes = {case.family.shape(case.run(seed)) for seed in (0, 1)}
    _must(len(shapes) == 1, "shape() must not depend on the seed, or no two runs can be trained together")
    if len(case.sizes) > 1:
        larger = case.family.shape(case.run(size=case.sizes[1]))
        _must({larger} != shapes, "shape() gives two sizes the same shape; a stack holds runs of one size")


def _budget(case: Case) -> None:
    arm, size = case.arms[0], case.sizes[0]
    once, twice = (case.family.steps(case.family.config(replace(arm, budget=factor), size, 0)) for factor in (1, 2))
    _must(twice == 2 * once, f"scaled(2, 1) must double steps(); {once} became {twice}")


def _training(case: Case) -> None:
    points, outcome = _trained(case)
    _must(outcome.steps >= 1, f"a run must take a step; its outcome says {outcome.steps}")
    _must(len(points) >= 1, "a run must report at least one evaluation, or it has no learning curve")


def _repeated(case: Case) -> None:
    first, second = (_trained(case)[1] for _ in range(2))
    _must(
        first.accuracy == second.accuracy,
        f"the same run must come to the same twice: a seed determines everything; {first.accuracy} and then "
        f"{second.accuracy}",
    )


def _stacked(case: Case) -> None:
    runs = [case.run(0), case.run(1)]
    alone = [_first_losses(case, [run])[0] for run in runs]
    together = _first_losses(case, runs)
    for seed, (one, other) in enumerate(zip(alone, together, strict=True)):
        _must(
            (one != one and other != other) or abs(one - other) <= CLOSE * max(1.0, abs(one)),
            f"seed {seed} has the loss {one:g} alone and {other:g} in a stack; a run's neighbours must not matter",
        )


def _resumed(case: Case) -> None:
    runs, place = [case.run(0), case.run(1)], case.directory / "checkpoint"
    learner, validator = case.learner(runs), ReportValidator(case.family, runs)
    reports = validator.check(learner.advance())
    if any(report.outcome is not None for report in reports):
        raise Skipped("its runs end at their first evaluation, so that there is nothing to go on with")
    learner.save(place)
    again = case.learner(runs)
    again.restore(place)
    expected, found = _to_the_end(learner, validator), _to_the_end(again, ReportValidator(case.family, runs))
    for index, (points, outcome) in expected.items():
        others, other = found[index]
        _must(
            _scores(points) == _scores(others) and outcome.accuracy == other.accuracy,
            f"run {index} must go on from its checkpoint as it would have gone on: with evaluations after steps "
            f"{_steps(points)}, and {outcome.accuracy} in the end; it went on with {_steps(others)}, and "
            f"{other.accuracy}",
        )


def _trained(case: Case) -> tuple[list[Evaluation], Outcome]:
    """The evaluations and the outcome of a run trained to its end."""
    learner = case.learner([case.run()])
    ended = _to_the_end(learner, ReportValidator(case.family, [case.run()]))
    _must(learner.advance() == [], "advance() must return [] once all runs have ended")
    return ended[0]


def _to_the_end(learner: Learner, validator: ReportValidator) -> dict[int, tuple[list[Evaluation], Outcome]]:
    """The evaluations and the outcome of every run that a learner still trains, by its index."""
    points: dict[int, list[Evaluation]] = {}
    ended: dict[int, tuple[list[Evaluation], Outcome]] = {}
    while not ended or len(ended) < len(points):
        for report in validator.check(learner.advance()):
            points.setdefault(report.index, []).extend([report.evaluation] if report.evaluation is not None else [])
            if report.outcome is not None:
                ended[report.index] = (points[report.index], report.outcome)
    return ended


def _scores(points: Sequence[Evaluation]) -> list[tuple[int, dict[str, float]]]:
    """Scores that must repeat exactly, without losses: NaN equals nothing."""
    return [(point.step, point.accuracy) for point in points]


def _steps(points: Sequence[Evaluation]) -> str:
    return ", ".join(str(point.step) for point in points) or "none"


def _first_losses(case: Case, runs: Sequence[RunConfig]) -> list[float]:
    reports = ReportValidator(case.family, runs).check(case.learner(runs).advance())
    losses = {report.index: report.evaluation.loss for report in reports if report.evaluation is not None}
    if len(losses) < len(runs):
        raise Skipped("its runs end without an evaluation")
    return [losses[index] for index in range(len(runs))]


def _must(holds: bool, otherwise: str) -> None:
    if not holds:
        raise BrokenFamilyError(otherwise)


CHECKS: dict[str, Callable[[Case], None]] = {
    "settings are a frozen dataclass, and runs can be sent to workers": _settings,
    "what it says of itself are words": _sayings,
    "parameters, steps, operations and memory are numbers, and grow": _numbers,
    "keys and shapes tell runs apart": _keys,
    "budgets scale": _budget,
    "a run trains to its end, and reports what it must": _training,
    "the same run comes to the same": _repeated,
    "a run in a stack is the run alone": _stacked,
    "a run goes on from its checkpoint": _resumed,
}
"""The checks by what they say of a family that passes, the quick ones first."""
