"""The checks behind ``check-family``: does a family keep the contract of ``trainables.base``?"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path

from trainables.base import Arm, Evaluation, Family, Learner, Mix, Outcome, Parameters, RunConfig, SettingsError
from trainables.contract.report_validator import BrokenFamilyError, ReportValidator, finite

SIZES = (8, 16, 32, 64, 128, 4, 2, 1)
"""Sizes to try, in this order, by default."""
CLOSE = 1e-3
"""Largest relative difference between a run's first losses alone and in a stack, which sums products in another
order."""


@dataclass(frozen=True)
class Case:
    """A family, the arms and sizes to train it on, and a directory for data and checkpoints."""

    family: Family
    arms: tuple[Arm, ...]
    sizes: tuple[int, ...]
    device: str
    directory: Path

    def run(self, seed: int = 0, size: int | None = None, arm: int = 0) -> RunConfig:
        return self.family.config(self.arms[arm], self.sizes[0] if size is None else size, seed)

    def stack(self) -> list[RunConfig]:
        """Return the runs of a stack: two seeds, or one if the family trains every run alone."""
        return [self.run(seed) for seed in range(2 if self.family.stacks else 1)]

    def learner(self, runs: Sequence[RunConfig]) -> Learner:
        return self.family.learner(runs, device=self.device, cache=self.directory / "data")


@dataclass(frozen=True)
class Finding:
    """Result of a check: ``wrong`` is ``""`` if it passed, and ``skipped`` the reason if it did not apply."""

    name: str
    wrong: str = ""
    skipped: str = ""


class Skipped(Exception):  # noqa: N818 - not an error of the family
    """Raised by a check that does not apply to a family."""


def case_of(family: Family, sizes: Sequence[int], device: str, directory: Path) -> Case:
    """Return the case for a family: its first task alone and, if it has two, its first two together.

    Without ``sizes``, take the first two of :data:`SIZES` that the family accepts.

    Raises:
        BrokenFamilyError: The family has no usable task or size.
    """
    tasks = family.tasks()
    if not isinstance(tasks, tuple) or not tasks or not all(isinstance(task, str) and task for task in tasks):
        raise BrokenFamilyError(f"tasks() must return a tuple of at least one name; it returned {tasks!r}")
    if len(set(tasks)) < len(tasks):
        raise BrokenFamilyError(f"tasks() names a task twice: {', '.join(tasks)}")
    mixes = [Mix.of({tasks[0]: 1})] + ([Mix.of({tasks[0]: 1, tasks[1]: 1})] if len(tasks) > 1 else [])
    arms = [Arm.of(mix) for mix in mixes]
    accepted, refusal = [], ""
    for size in sizes or SIZES:
        try:
            for arm in arms:
                family.check(arm.mix, size)
            accepted.append(size)
        except SettingsError as error:
            refusal = str(error)
            if sizes:
                raise BrokenFamilyError(f"check() refuses size {size}: {error}") from error
    if not accepted:
        raise BrokenFamilyError(f"check() refuses every size of {', '.join(map(str, SIZES))}: {refusal}")
    return Case(family, tuple(arms), tuple(sorted(accepted[:2])), device, directory)


def findings(case: Case) -> Iterator[Finding]:
    """Run every check. An exception raised by the family is also a finding."""
    for name, check in CHECKS.items():
        try:
            check(case)
        except Skipped as reason:
            yield Finding(name, skipped=str(reason))
        except (BrokenFamilyError, AssertionError) as error:
            yield Finding(name, wrong=str(error))
        except Exception:  # noqa: BLE001 - the family is foreign code and may raise anything
            yield Finding(name, wrong=traceback.format_exc().strip())
        else:
            yield Finding(name)


def _settings(case: Case) -> None:
    kind = case.family.Settings
    _require(is_dataclass(kind), f"Settings must be a dataclass; it is {kind!r}")
    _require(
        getattr(kind, "__dataclass_params__").frozen,  # noqa: B009 - missing from the type of dataclasses
        "Settings must be frozen: @dataclass(frozen=True)",
    )
    run = pickle.loads(pickle.dumps(case.run()))
    _require(run == case.run(), "a run must stay equal through pickle, which sends it to workers: give Settings __eq__")


def _numbers(case: Case) -> None:
    for size in case.sizes:
        run, count = case.run(size=size), case.family.parameters(size)
        steps, flops = case.family.steps(run), case.family.flops(run)
        _require(isinstance(count, Parameters), f"parameters({size}) must return Parameters; it returned {count!r}")
        _require(finite(count.total) and finite(count.core), f"parameters({size}) must be finite; it is {count}")
        _require(0 < count.core <= count.total, f"parameters({size}): core must be above 0 and at most total; {count}")
        _require(
            isinstance(steps, int) and steps >= 1, f"steps() must be a whole number of at least 1; it is {steps!r}"
        )
        _require(finite(flops) and flops > 0, f"flops() must be finite and above 0; it is {flops!r}")
        needed = case.family.memory(size)
        _require(finite(needed) and needed >= 0, f"memory({size}) must be finite and at least 0; it is {needed!r}")
    counts = [case.family.parameters(size).total for size in (*case.sizes, case.sizes[-1] + 0.5)]
    _require(counts == sorted(set(counts)), f"parameters() must grow with the size, fractions included; it is {counts}")


def _keys(case: Case) -> None:
    key = case.family.key
    _require(
        key(case.run()) == key(case.run()), "key() must return the same key for the same run; it returned two keys"
    )
    others = {"seed": case.run(seed=1)}
    if len(case.sizes) > 1:
        others["size"] = case.run(size=case.sizes[1])
    if len(case.arms) > 1:
        others["mix"] = case.run(arm=1)
    for difference, other in others.items():
        _require(key(case.run()) != key(other), f"key() returns the same key for runs of a different {difference}")
    shapes = {case.family.shape(case.run(seed)) for seed in (0, 1)}
    _require(len(shapes) == 1, "shape() must not depend on the seed, or no two runs could share a stack")
    if len(case.sizes) > 1:
        larger = case.family.shape(case.run(size=case.sizes[1]))
        _require({larger} != shapes, "shape() must depend on the size: the runs of a stack have one size")


def _budget(case: Case) -> None:
    arm, size = case.arms[0], case.sizes[0]
    once, twice = (case.family.steps(case.family.config(replace(arm, budget=factor), size, 0)) for factor in (1, 2))
    _require(twice == 2 * once, f"scaled(2, 2) must double steps(); {once} became {twice}")


def _training(case: Case) -> None:
    points, outcome = _trained(case)
    _require(outcome.steps >= 1, f"a run must take a step; its outcome has {outcome.steps}")
    _require(len(points) >= 1, "a run must report at least one evaluation, or it has no learning curve")
    again = _trained(case)[1]
    _require(
        outcome.accuracy == again.accuracy,
        f"a seed must determine a run; trained twice, it scored {outcome.accuracy} and then {again.accuracy}",
    )


def _stacked(case: Case) -> None:
    runs = case.stack()
    if len(runs) == 1:
        raise Skipped("the family trains every run alone (stacks = False)")
    alone = [_first_losses(case, [run])[0] for run in runs]
    together = _first_losses(case, runs)
    for seed, (one, other) in enumerate(zip(alone, together, strict=True)):
        _require(
            (one != one and other != other) or abs(one - other) <= CLOSE * max(1.0, abs(one)),
            f"seed {seed} has the loss {one:g} alone and {other:g} in a stack; other runs must not affect it",
        )


def _resumed(case: Case) -> None:
    runs, directory = case.stack(), case.directory / "checkpoint"
    learner, validator = case.learner(runs), ReportValidator(case.family, runs)
    reports = validator.check(learner.advance())
    if any(report.outcome is not None for report in reports):
        raise Skipped("its runs end at their first evaluation, so nothing remains to continue")
    learner.save(directory)
    again = case.learner(runs)
    again.restore(directory)
    expected, resumed = _to_the_end(learner, validator), _to_the_end(again, ReportValidator(case.family, runs))
    for index, (points, outcome) in expected.items():
        other_points, other = resumed[index]
        _require(
            _scores(points) == _scores(other_points) and outcome.accuracy == other.accuracy,
            f"run {index} must continue from its checkpoint as if it had not stopped, with evaluations after steps "
            f"{_steps(points)} and the final score {outcome.accuracy}; it continued with {_steps(other_points)} and "
            f"{other.accuracy}",
        )


def _trained(case: Case) -> tuple[list[Evaluation], Outcome]:
    learner = case.learner([case.run()])
    ended = _to_the_end(learner, ReportValidator(case.family, [case.run()]))
    _require(learner.advance() == [], "advance() must return [] once all runs have ended")
    return ended[0]


def _to_the_end(learner: Learner, validator: ReportValidator) -> dict[int, tuple[list[Evaluation], Outcome]]:
    points: dict[int, list[Evaluation]] = {}
    ended: dict[int, tuple[list[Evaluation], Outcome]] = {}
    while not ended or len(ended) < len(points):
        for report in validator.check(learner.advance()):
            points.setdefault(report.index, []).extend([report.evaluation] if report.evaluation is not None else [])
            if report.outcome is not None:
                ended[report.index] = (points[report.index], report.outcome)
    return ended


def _scores(points: Sequence[Evaluation]) -> list[tuple[int, dict[str, float]]]:
    """Return the scores, which must repeat exactly. Losses are left out because they may be NaN."""
    return [(point.step, point.accuracy) for point in points]


def _steps(points: Sequence[Evaluation]) -> str:
    return ", ".join(str(point.step) for point in points) or "none"


def _first_losses(case: Case, runs: Sequence[RunConfig]) -> list[float]:
    reports = ReportValidator(case.family, runs).check(case.learner(runs).advance())
    losses = {report.index: report.evaluation.loss for report in reports if report.evaluation is not None}
    if len(losses) < len(runs):
        raise Skipped("its runs end without an evaluation")
    return [losses[index] for index in range(len(runs))]


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise BrokenFamilyError(otherwise)


CHECKS: dict[str, Callable[[Case], None]] = {
    "settings are a frozen dataclass, and runs can be sent to workers": _settings,
    "steps, operations and memory are valid, and parameters grow with the size": _numbers,
    "keys and shapes distinguish runs": _keys,
    "budgets scale": _budget,
    "a run trains to its end, and its seed determines it": _training,
    "a run in a stack equals the run alone": _stacked,
    "a run continues from its checkpoint": _resumed,
}
"""The checks, named by the property that they verify, quick checks first."""
