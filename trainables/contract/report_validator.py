"""Checks of everything that a family's learner reports, before anything uses it.

A user's family may score in per cent, leave out a task or never end. Such a report raises an error that names the
family; it is not an outcome of a run. Numbers of numpy become Python's, because a journal stores JSON.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from trainables.base import Evaluation, Family, Outcome, Report, RunConfig, Status

LONGEST_HASH = 36
"""Characters of a hash of data at most."""
ROUNDING = 1e-6
"""Largest distance of a share below 0 or above 1: a mean of float32 may be inexact."""


class BrokenFamilyError(Exception):
    """A family does not keep its contract. The message names the family and its mistake."""


class ReportValidator:
    """Checks the reports of one learner: call :meth:`check` after each ``advance()``.

    ``runs`` are the runs of the learner, in its order.
    """

    def __init__(self, family: Family, runs: Sequence[RunConfig]) -> None:
        self._family = family
        self._runs = tuple(runs)
        self._steps = [0] * len(self._runs)
        self._open = set(range(len(self._runs)))

    def check(self, reports: Any) -> list[Report]:
        """Return the reports with Python's numbers in them. Raises :class:`BrokenFamilyError`."""
        if not isinstance(reports, list) or not all(isinstance(report, Report) for report in reports):
            raise self._broken(f"advance() must return a list of Report; it returned {shortened(reports)}")
        indices = [report.index for report in reports]
        if sorted(indices) != sorted(self._open):
            open_runs = ", ".join(map(str, sorted(self._open))) or "none"
            raise self._broken(
                f"advance() must report on every run that has not ended (by index: {open_runs}); it reported on "
                f"{', '.join(map(str, indices)) or 'none, so the sweep would never end'}"
            )
        return [self._checked(report) for report in reports]

    def _checked(self, report: Report) -> Report:
        run, where = self._runs[report.index], self._described(report.index)
        evaluation, outcome = report.evaluation, report.outcome
        if evaluation is None and outcome is None:
            raise self._broken(f"{where}: its report has neither an evaluation nor an outcome")
        if evaluation is not None:
            evaluation = self._evaluation(evaluation, run, where)
            if evaluation.step <= self._steps[report.index]:
                before = self._steps[report.index]
                raise self._broken(f"{where}: step {evaluation.step} follows step {before}; train further each time")
            self._steps[report.index] = evaluation.step
        if outcome is not None:
            outcome = self._outcome(outcome, run, where)
            self._open.discard(report.index)
        for kind, arrays in (("weights", report.weights), ("arrays", report.arrays)):
            self._check_arrays(kind, arrays, where)
        return replace(report, evaluation=evaluation, outcome=outcome)

    def _evaluation(self, given: Any, run: RunConfig, where: str) -> Evaluation:
        if not isinstance(given, Evaluation):
            raise self._broken(f"{where}: its evaluation must be an Evaluation; it is {shortened(given)}")
        step = self._step(given.step, run, f"{where}: the step of its evaluation")
        accuracy = self._shares(given.accuracy, run, f"{where}: its accuracy")
        loss = self._number(given.loss, f"{where}: its loss")
        return Evaluation(step, loss, accuracy, self._measures(given.measures, where))

    def _outcome(self, given: Any, run: RunConfig, where: str) -> Outcome:
        if not isinstance(given, Outcome) or not isinstance(given.status, Status):
            raise self._broken(f"{where}: its outcome must be an Outcome with a Status; it is {shortened(given)}")
        if not isinstance(given.data, str) or len(given.data) > LONGEST_HASH:
            raise self._broken(f"{where}: the data of its outcome must be a hash of at most {LONGEST_HASH} characters")
        failed = given.status is Status.FAILED
        return replace(
            given,
            steps=self._step(given.steps, run, f"{where}: the steps of its outcome"),
            accuracy={} if failed else self._shares(given.accuracy, run, f"{where}: its final accuracy"),
            floor={} if failed else self._shares(given.floor, run, f"{where}: its floor"),
            curve=tuple(self._evaluation(point, run, f"{where}, in its curve") for point in given.curve),
            measures=self._measures(given.measures, where),
        )

    def _step(self, given: Any, run: RunConfig, where: str) -> int:
        most = self._family.steps(run)
        if isinstance(given, bool) or not isinstance(given, numbers.Integral):
            raise self._broken(f"{where} must be a whole number; it is {shortened(given)}")
        if not 0 <= int(given) <= most:
            raise self._broken(f"{where} is {int(given)}; steps() allows the run at most {most}")
        return int(given)

    def _shares(self, given: Any, run: RunConfig, where: str) -> dict[str, float]:
        if not isinstance(given, Mapping) or set(given) != set(run.mix.tasks):
            named = ", ".join(map(repr, given)) if isinstance(given, Mapping) else shortened(given)
            raise self._broken(
                f"{where} must have each task of the mix ({', '.join(map(repr, run.mix.tasks))}); it has "
                f"{named or 'none'}"
            )
        shares = {}
        for task, value in given.items():
            share = self._number(value, f"{where} on {task!r}")
            if not -ROUNDING <= share <= 1 + ROUNDING:  # This includes NaN.
                hint = "; divide per cent by 100" if 2 <= share <= 100 else ""
                raise self._broken(f"{where} on {task!r} is {share:g}; it must be a share from 0 to 1{hint}")
            shares[task] = min(max(share, 0.0), 1.0)
        return shares

    def _measures(self, given: Any, where: str) -> dict[str, float]:
        if not isinstance(given, Mapping):
            raise self._broken(f"{where}: measures must map names to numbers; they are {shortened(given)}")
        return {str(name): self._number(value, f"{where}: the measure {name!r}") for name, value in given.items()}

    def _number(self, given: Any, where: str) -> float:
        if isinstance(given, np.ndarray) and given.ndim == 0:
            given = given[()]
        if isinstance(given, bool | np.bool_) or not isinstance(given, numbers.Real):
            raise self._broken(f"{where} must be a number; it is {shortened(given)}")
        return float(given)

    def _check_arrays(self, kind: str, given: Any, where: str) -> None:
        if not isinstance(given, Mapping):
            raise self._broken(f"{where}: {kind} must map names to numpy arrays; they are {shortened(given)}")
        for name, array in given.items():
            if not isinstance(array, np.ndarray) or array.dtype.hasobject:
                raise self._broken(f"{where}: {kind} must be numpy arrays of numbers; {name!r} is {shortened(array)}")

    def _described(self, index: int) -> str:
        run = self._runs[index]
        return f"run {index} (mix {run.label}, {self._family.size_axis} {run.size}, seed {run.seed})"

    def _broken(self, what: str) -> BrokenFamilyError:
        return BrokenFamilyError(f"the family {self._family.name!r} does not keep its contract: {what}")


def finite(value: float) -> bool:
    """Return True if a value is a number that is neither infinite nor NaN."""
    return isinstance(value, numbers.Real) and math.isfinite(value)


def shortened(value: object, limit: int = 60) -> str:
    """Return the type and value of an object, cut to ``limit`` characters."""
    text = f"{type(value).__name__} {value!r}"
    return text if len(text) <= limit else text[: limit - 3] + "..."
