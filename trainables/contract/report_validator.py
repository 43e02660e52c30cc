"""Validation of the reports of a family's learner, before anything uses them.

A user's family may score in percent, omit a task or never end. Such a report raises an error that names the family. It
is not an outcome of a run. Numpy numbers become Python numbers, because a journal stores JSON.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from trainables.contract.family import Family
from trainables.contract.runs import Evaluation, Outcome, Report, RunConfig, Status

ROUNDING = 1e-6
"""Tolerance for shares below 0 or above 1: a mean in float32 may be inexact."""

MOST_EVALUATIONS = 100_000
"""Largest number of evaluations of a run. The outcome of a run with a million could be stored, but not read again."""


class BrokenFamilyError(Exception):
    """Raised if a family breaks its contract. The message names the family and its mistake."""


class ReportValidator:
    """Checks the reports of one learner of these ``runs``. Call :meth:`check` after each ``advance()``."""

    def __init__(self, family: Family, runs: Sequence[RunConfig]) -> None:
        self._family = family
        self._runs = tuple(runs)
        self._steps = [0] * len(self._runs)
        self._evaluations = [0] * len(self._runs)
        self._open = set(range(len(self._runs)))

    def check(self, reports: Any) -> list[Report]:
        """Return the reports with numpy numbers converted to Python's.

        Raises :class:`BrokenFamilyError` if a report breaks the contract.
        """
        self._require(
            isinstance(reports, list) and all(isinstance(report, Report) for report in reports),
            f"advance() must return a list of Report; it returned {shortened(reports)}",
        )
        indices = [report.index for report in reports]
        self._require(
            sorted(indices) == sorted(self._open),
            f"advance() must report on every run that has not ended (by index: {_listed(sorted(self._open))}); it "
            f"reported on {_listed(indices)}{'' if indices else ', so the sweep would never end'}",
        )
        return [self._checked(report) for report in reports]

    def _checked(self, report: Report) -> Report:
        index = report.index
        run = self._runs[report.index]
        where = f"run {index} (mix {run.label}, {self._family.size_axis} {run.size}, seed {run.seed}): its"
        evaluation = report.evaluation
        outcome = report.outcome
        ends = evaluation is not None or outcome is not None
        self._require(ends, f"{where} report has neither an evaluation nor an outcome")
        if evaluation is not None:
            evaluation = self._evaluation(evaluation, run, where)
            before = self._steps[index]
            rule = f"step {evaluation.step} follows step {before}; steps must increase"
            self._require(evaluation.step > before, f"{where} {rule}")
            self._steps[index] = evaluation.step
            self._evaluations[index] += 1
            self._check_length(self._evaluations[index], where)
        if outcome is not None:
            outcome = self._outcome(outcome, run, where)
            self._check_length(len(outcome.curve), where)
            self._open.discard(index)
        for kind, arrays in (("weights", report.weights), ("arrays", report.arrays)):
            self._require(isinstance(arrays, Mapping), f"{where} {kind} must map names to numpy arrays")
            for name, array in arrays.items():
                numeric = isinstance(array, np.ndarray) and not array.dtype.hasobject
                rule = f"must be numpy arrays of numbers; {name!r} is {shortened(array)}"
                self._require(numeric, f"{where} {kind} {rule}")
        return replace(report, evaluation=evaluation, outcome=outcome)

    def _check_length(self, evaluations: int, where: str) -> None:
        rule = f"learning curve has more than {MOST_EVALUATIONS:,} points; evaluate or log it less often"
        self._require(evaluations <= MOST_EVALUATIONS, f"{where} {rule}")

    def _evaluation(self, given: Any, run: RunConfig, where: str) -> Evaluation:
        rule = f"evaluation must be an Evaluation; it is {shortened(given)}"
        self._require(isinstance(given, Evaluation), f"{where} {rule}")
        return Evaluation(
            self._step(given.step, run, f"{where} step"),
            self._number(given.loss, f"{where} loss"),
            self._shares(given.accuracy, run, f"{where} accuracy"),
            self._measures(given.measures, where),
        )

    def _outcome(self, given: Any, run: RunConfig, where: str) -> Outcome:
        typed = isinstance(given, Outcome) and isinstance(given.status, Status)
        self._require(typed, f"{where} outcome must be an Outcome with a Status; it is {shortened(given)}")
        outcome: Outcome = given
        failed = outcome.status is Status.FAILED
        return replace(
            outcome,
            steps=self._step(given.steps, run, f"{where} outcome's step"),
            accuracy={} if failed else self._shares(given.accuracy, run, f"{where} final accuracy"),
            floor={} if failed else self._shares(given.floor, run, f"{where} floor"),
            curve=tuple(self._evaluation(point, run, where) for point in given.curve),
            measures=self._measures(given.measures, where),
        )

    def _step(self, given: Any, run: RunConfig, where: str) -> int:
        most = self._family.steps(run)
        whole = isinstance(given, numbers.Integral) and not isinstance(given, bool)
        self._require(whole, f"{where} must be a whole number; it is {shortened(given)}")
        self._require(0 <= given <= most, f"{where} is {given}; steps() allows the run at most {most}")
        return int(given)

    def _shares(self, given: Any, run: RunConfig, where: str) -> dict[str, float]:
        complete = isinstance(given, Mapping) and set(given) == set(run.mix.tasks)
        tasks = f"each task of the mix ({_listed(map(repr, run.mix.tasks))})"
        self._require(complete, f"{where} must have a value for {tasks}; it is {shortened(given)}")
        shares = {task: self._number(value, f"{where} on {task!r}") for task, value in given.items()}
        for task, share in shares.items():
            hint = "; divide percentages by 100" if 2 <= share <= 100 else ""
            is_share = -ROUNDING <= share <= 1 + ROUNDING  # Also False for NaN.
            self._require(is_share, f"{where} on {task!r} is {share:g}; it must be a share from 0 to 1{hint}")
        return {task: min(max(share, 0.0), 1.0) for task, share in shares.items()}

    def _measures(self, given: Any, where: str) -> dict[str, float]:
        rule = f"measures must map names to numbers; they are {shortened(given)}"
        self._require(isinstance(given, Mapping), f"{where} {rule}")
        return {str(name): self._number(value, f"{where} measure {name!r}") for name, value in given.items()}

    def _number(self, given: Any, where: str) -> float:
        value = given[()] if isinstance(given, np.ndarray) and given.ndim == 0 else given
        real = isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)
        several = isinstance(value, list | tuple) or getattr(value, "shape", ()) != ()
        hint = "; use one number, such as the mean" if several else ""
        self._require(real, f"{where} must be a number; it is {shortened(value)}{hint}")
        return float(value)

    def _require(self, holds: bool, otherwise: str) -> None:
        if not holds:
            raise BrokenFamilyError(f"the family {self._family.name!r} does not keep its contract: {otherwise}")


def finite(value: float) -> bool:
    """Return True unless a number is infinite or NaN."""
    return isinstance(value, numbers.Real) and math.isfinite(value)


def shortened(value: object, limit: int = 60) -> str:
    """Return the type and value of an object, cut to ``limit`` characters."""
    text = f"{type(value).__name__} {value!r}"
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _listed(names: Any) -> str:
    return ", ".join(map(str, names)) or "none"
