"""The checks behind ``check-family``: does a family keep the contract of ``trainables.base``?"""

from __future__ import annotations

import pickle
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any

from trainables.contract.arms import Arm, Mix
from trainables.contract.family import Family
from trainables.contract.learner import Learner
from trainables.contract.report_validator import BrokenFamilyError, ReportValidator, finite
from trainables.contract.runs import Evaluation, Outcome, Parameters, RunConfig
from trainables.contract.settings import SettingsError
from trainables.contract.simple import SimpleFamily, SimpleLearner

SIZES = (8, 16, 32, 64, 128, 4, 2, 1)
"""Sizes to try, in this order, by default."""
CLOSE = 1e-3
"""Largest relative difference between a run's first losses alone and in a stack. A stack sums products in another
order."""
MOMENT_S = 1e-6
"""Seconds in which a learner trains at most one step."""


@dataclass(frozen=True)
class Case:
    """A family, the arms and sizes with which to train it, and a directory for data and checkpoints."""

    family: Family
    arms: tuple[Arm, ...]
    sizes: tuple[int, ...]
    device: str
    directory: Path

    def run(self, seed: int = 0, size: int | None = None, arm: int = 0) -> RunConfig:
        """Return a run, by default at the first size. ``arm`` is the index of its arm."""
        return self.family.config(self.arms[arm], size or self.sizes[0], seed)

    def stack(self) -> list[RunConfig]:
        """Return the runs of a stack: two seeds, or one if the family trains every run alone."""
        return [self.run(seed) for seed in range(2 if self.family.stacks else 1)]

    def learner(self, runs: Sequence[RunConfig]) -> Learner:
        return self.family.learner(runs, device=self.device, cache=self.directory / "data")


@dataclass(frozen=True)
class Finding:
    """Result of a check.

    Attributes:
        wrong: Why the check failed. Empty if it passed.
        skipped: Why the check did not apply. Empty if it did.
        notes: Lines for the user.
    """

    name: str
    wrong: str = ""
    skipped: str = ""
    notes: str = ""


class Skipped(Exception):  # noqa: N818 - not an error of the family
    """Raised by a check that does not apply to a family."""


def case_of(family: Family, sizes: Sequence[int], device: str, directory: Path) -> Case:
    """Return the case for a family: its first task alone and, if it has several, its first two tasks together.

    Without ``sizes``, take the first two of :data:`SIZES` that the family accepts. Raises :class:`BrokenFamilyError` if
    the family has no usable task or size.
    """
    tasks = family.tasks()
    if not isinstance(tasks, tuple) or not tasks or not all(isinstance(task, str) and task for task in tasks):
        raise BrokenFamilyError(f"tasks() must return a tuple of at least one name; it returned {tasks!r}")
    mixes = [Mix.of(dict.fromkeys(tasks[:count], 1)) for count in range(1, min(len(tasks), 2) + 1)]
    accepted = []
    refusal = ""
    for size in sizes or SIZES:
        try:
            for mix in mixes:
                family.check(mix, size)
            accepted.append(size)
        except SettingsError as error:
            refusal = str(error)
            if sizes:
                raise BrokenFamilyError(f"check() refuses size {size}: {error}") from error
    if not accepted:
        raise BrokenFamilyError(f"check() refuses every size of {', '.join(map(str, SIZES))}: {refusal}")
    return Case(family, tuple(map(Arm.of, mixes)), tuple(sorted(accepted[:2])), device, directory)


def findings(case: Case) -> Iterator[Finding]:
    """Run every check. An exception raised by the family is also a finding."""
    for name, check in CHECKS.items():
        try:
            notes = check(case)
        except Skipped as reason:
            yield Finding(name, skipped=str(reason))
        except (BrokenFamilyError, AssertionError) as error:
            yield Finding(name, wrong=str(error))
        except Exception:  # noqa: BLE001 - the family is foreign code and may raise anything
            yield Finding(name, wrong=traceback.format_exc().strip())
        else:
            yield Finding(name, notes=notes or "")


def _settings(case: Case) -> None:
    kind: Any = case.family.Settings
    _require(is_dataclass(kind), f"Settings must be a dataclass; it is {kind!r}")
    _require(kind.__dataclass_params__.frozen, "Settings must be frozen: @dataclass(frozen=True)")
    run = pickle.loads(pickle.dumps(case.run()))
    _require(
        run == case.run(), "a run must stay equal through pickle, which sends it to workers: define __eq__ in Settings"
    )


def _numbers(case: Case) -> None:
    for size in case.sizes:
        run = case.run(size=size)
        count = case.family.parameters(size)
        steps = case.family.steps(run)
        flops = case.family.flops(run)
        needed = case.family.memory(size)
        _require(isinstance(count, Parameters), f"parameters({size}) must return Parameters; it returned {count!r}")
        _require(finite(count.total) and finite(count.core), f"parameters({size}) must be finite; it is {count}")
        _require(0 < count.core <= count.total, f"parameters({size}): core must be above 0 and at most total; {count}")
        _require(
            isinstance(steps, int) and steps >= 1, f"steps() must be a whole number of at least 1; it is {steps!r}"
        )
        _require(finite(flops) and flops > 0, f"flops() must be finite and above 0; it is {flops!r}")
        _require(finite(needed) and needed >= 0, f"memory({size}) must be finite and at least 0; it is {needed!r}")
    counts = [case.family.parameters(size).total for size in (*case.sizes, case.sizes[-1] + 0.5)]
    _require(counts == sorted(set(counts)), f"parameters() must grow with the size, fractions included; it is {counts}")


def _keys(case: Case) -> None:
    key = case.family.key
    shape = case.family.shape
    run = case.run()
    _require(key(run) == key(case.run()), "key() must return the same key for the same run; it returned two keys")
    larger = [case.run(size=size) for size in case.sizes[1:]]
    mixed = [case.run(arm=arm) for arm in range(1, len(case.arms))]
    for difference, others in (("seed", [case.run(seed=1)]), ("size", larger), ("mix", mixed)):
        _require(key(run) not in map(key, others), f"key() returns the same key for runs of a different {difference}")
    alike = shape(run) == shape(case.run(seed=1))
    _require(alike, "shape() must not depend on the seed, or no two runs could share a stack")
    distinct = shape(run) not in map(shape, larger)
    _require(distinct, "shape() must depend on the size: the runs of a stack have one size")


def _budget(case: Case) -> None:
    arm = case.arms[0]
    size = case.sizes[0]
    once, twice = (case.family.steps(case.family.config(replace(arm, budget=factor), size, 0)) for factor in (1, 2))
    _require(twice == 2 * once, f"scaled(2, 2) must double steps(); {once} became {twice}")


def _training(case: Case) -> None:
    scores = []
    for _ in range(2):
        with closing(case.learner([case.run()])) as learner:
            points, outcome = _to_the_end(learner, ReportValidator(case.family, [case.run()]))[0]
            _require(learner.advance() == [], "advance() must return [] once all runs have ended")
        _require(outcome.steps >= 1, f"a run must take a step; its outcome has {outcome.steps}")
        _require(len(points) >= 1, "a run must report at least one evaluation, or it has no learning curve")
        scores.append(outcome.accuracy)
    first, second = scores
    _require(first == second, f"a seed must determine a run; trained twice, it scored {first} and then {second}")


def _stacked(case: Case) -> None:
    runs = case.stack()
    if len(runs) == 1:
        raise Skipped("the family trains every run alone (stacks = False)")
    alone = [_first_losses(case, [run])[0] for run in runs]
    for seed, (loss, stacked) in enumerate(zip(alone, _first_losses(case, runs), strict=True)):
        are_nan = loss != loss and stacked != stacked
        _require(
            are_nan or abs(loss - stacked) <= CLOSE * max(1.0, abs(loss)),
            f"seed {seed} has the loss {loss:g} alone and {stacked:g} in a stack; other runs must not affect it",
        )


def _resumed(case: Case) -> str:
    if not case.family.resumes:
        raise Skipped("train has no parameter `resume`, so a killed run begins again at its first step")
    if isinstance(case.family, SimpleFamily):
        return _resumed_simply(case)
    runs = case.stack()
    directory = case.directory / "checkpoint"
    validator = ReportValidator(case.family, runs)
    with closing(case.learner(runs)) as learner, closing(case.learner(runs)) as again:
        if any(report.outcome for report in validator.check(learner.advance())):
            raise Skipped("its runs end at their first evaluation, so nothing remains to continue")
        learner.train_for(MOMENT_S)  # Stops between two evaluations if the learner can.
        learner.save(directory)
        again.restore(directory)
        expected = _to_the_end(learner, validator)
        resumed = _to_the_end(again, ReportValidator(case.family, runs))
    for index, ended in expected.items():
        # Losses are not compared, because they may be NaN.
        scores = [[(point.step, point.accuracy) for point in points] for points, _ in (ended, resumed[index])]
        steps = [", ".join(str(step) for step, _ in points) or "none" for points in scores]
        final = ended[1].accuracy
        other = resumed[index][1].accuracy
        rule = f"run {index} must continue from its checkpoint as if it had not stopped"
        given = f"after steps {steps[0]} and the final score {final}; it continued with {steps[1]} and {other}"
        _require(scores[0] == scores[1] and final == other, f"{rule}, with evaluations {given}")
    return ""


def _resumed_simply(case: Case) -> str:
    """Check that a run continues from the state that it has saved.

    Its numbers may differ from those of an undisturbed run, because not every model can be continued exactly.
    """
    run = case.run()
    directory = case.directory / "checkpoint"
    validator = ReportValidator(case.family, [run])
    with closing(case.learner([run])) as learner, closing(case.learner([run])) as again:
        assert isinstance(learner, SimpleLearner), "a simple family makes simple learners"
        assert isinstance(again, SimpleLearner), "a simple family makes simple learners"
        steps: list[int] = []
        while len(steps) < 2 or not learner.has_state:
            [report] = validator.check(learner.advance())
            if report.outcome is not None:
                how = "call self.save(state) before an evaluation is yielded"
                _require(learner.has_state, f"train has a parameter `resume`, but a whole run saved no state; {how}")
                raise Skipped("its runs end at their second evaluation or before, so nothing remains to continue")
            assert report.evaluation is not None, "a report has an evaluation or an outcome"
            steps.append(report.evaluation.step)
        learner.save(directory)
        again.restore(directory)
        _, expected = _to_the_end(learner, validator)[0]
        _, outcome = _to_the_end(again, ReportValidator(case.family, [run]))[0]
    stopped = steps[-1]
    begun = again.first_step
    _require(
        not 0 < begun <= steps[0],
        f"after step {stopped}, train began again at step {begun}, although it got its state as `resume`",
    )
    where = (
        f"stopped after step {stopped}, continued at step {begun}"
        if begun
        else f"stopped after its last step {stopped}"
    )
    if (outcome.curve, outcome.accuracy) == (expected.curve, expected.accuracy):
        return f"{where}, with the same numbers as an undisturbed run"
    return (
        f"{where}, with other numbers than an undisturbed run; to get the same numbers, also save the states of the "
        "optimizer and of the random generators"
    )


def _to_the_end(learner: Learner, validator: ReportValidator) -> dict[int, tuple[list[Evaluation], Outcome]]:
    points: defaultdict[int, list[Evaluation]] = defaultdict(list)
    ended: dict[int, tuple[list[Evaluation], Outcome]] = {}
    while not ended or len(ended) < len(points):
        for report in validator.check(learner.advance()):
            points[report.index] += [] if report.evaluation is None else [report.evaluation]
            if report.outcome is not None:
                ended[report.index] = (points[report.index], report.outcome)
    return ended


def _first_losses(case: Case, runs: Sequence[RunConfig]) -> list[float]:
    with closing(case.learner(runs)) as learner:
        reports = ReportValidator(case.family, runs).check(learner.advance())
    losses = {report.index: report.evaluation.loss for report in reports if report.evaluation is not None}
    if len(losses) < len(runs):
        raise Skipped("its runs end without an evaluation")
    return [losses[index] for index in range(len(runs))]


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise BrokenFamilyError(otherwise)


CHECKS: dict[str, Callable[[Case], str | None]] = {
    "settings are a frozen dataclass, and runs can be sent to workers": _settings,
    "steps, operations and memory are valid, and parameters grow with the size": _numbers,
    "keys and shapes distinguish runs": _keys,
    "budgets scale": _budget,
    "a run trains to its end, and its seed determines it": _training,
    "a run in a stack equals the run alone": _stacked,
    "a run continues from its checkpoint": _resumed,
}
"""The checks by the property that they verify, quick checks first. A check may return notes for the user."""
