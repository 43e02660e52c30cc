"""The checks behind ``check-family`` for a script. They start it a few times, and end it after two evaluations."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

from trainables.base import Evaluation, RunConfig, SettingsError
from trainables.contract.conformance import CHECKS, Case, Finding, Skipped
from trainables.contract.report_validator import BrokenFamilyError, ReportValidator
from trainables.script import placeholders
from trainables.script.family import ScriptFamily
from trainables.script.learner import ScriptError, ScriptLearner

POINTS = 2
"""Number of evaluations that are compared."""
KEYS = "keys and shapes distinguish runs"


class ScriptChecks:
    """The checks of one script. They share its runs.

    Each check returns notes for the user, or an empty string. It raises :class:`BrokenFamilyError` if it fails, and
    :class:`Skipped` if it does not apply.
    """

    def __init__(self, case: Case) -> None:
        assert isinstance(case.family, ScriptFamily), "the family is of a script"
        self._case = case
        self._family = case.family
        self._first: list[Evaluation] = []
        """The first evaluations at the smallest size with the first seed."""
        self._parameters: float | None = None
        self._resumed: Evaluation | None = None

    def findings(self) -> Iterator[Finding]:
        """Run every check. If there are no evaluations, the checks that need them are skipped."""
        checks: dict[str, Callable[[], str]] = {
            "directory, program and code are there": self._files,
            KEYS: self._keys,
            "its metrics are found": self._metrics,
            "a killed run continues from its checkpoint": self._resume,
            "the same seed gives the same numbers": self._repeated,
            "another seed gives other numbers": self._seed,
            "another size gives other numbers": self._size,
        }
        for name, check in checks.items():
            try:
                yield Finding(name, notes=check())
            except Skipped as reason:
                yield Finding(name, skipped=str(reason))
            except (BrokenFamilyError, ScriptError, SettingsError, AssertionError) as error:
                yield Finding(name, wrong=str(error))

    def _files(self) -> str:
        self._family.check_files()
        return ""

    def _keys(self) -> str:
        CHECKS[KEYS](self._case)
        return ""

    def _metrics(self) -> str:
        run = self._case.run()
        with closing(self._learner(run, "first")) as learner:
            self._first = self._points(learner, run)
            self._parameters = learner.reader.parameters
            matched = "\n".join(f"{name}: {line}" for name, line in learner.reader.matched.items())
        name = self._family.options.parameters
        if name and self._parameters is None:
            raise BrokenFamilyError(f"no line up to the second evaluation has the key {name!r} of script.parameters")
        return matched

    def _resume(self) -> str:
        options = self._family.options
        run = self._case.run()
        if not options.resume:
            raise Skipped("script.resume is not given, so a killed run starts again")
        self._need_points()
        directory = self._case.directory / "resumed"
        values = placeholders.values_of(run, directory, options.config_name)
        named = [word for word in options.resume if "checkpoint" in placeholders.fields_in(word, "script.resume")]
        paths = [Path(options.directory, placeholders.fill(word, values)) for word in named]
        with closing(self._learner(run, "resumed")) as learner:
            steps: list[int] = []
            for point in self._evaluations(learner, run):
                steps.append(point.step)
                if len(steps) >= POINTS and all(path.exists() for path in paths):
                    break
            process = learner.process
            if process is None:
                missing = next((path for path in paths if not path.exists()), None)
                if missing is not None:
                    raise BrokenFamilyError(f"the run ended, and {missing} was never there, where script.resume looks")
                raise Skipped("its runs end before they can be killed")
            process.ended()
            with suppress(ProcessLookupError):
                os.killpg(process.process or 0, signal.SIGKILL)
            process.stop()
            killed_at = steps[-1]
        with closing(self._learner(run, "resumed")) as learner:
            return self._continued(learner, run, killed_at)

    def _continued(self, learner: ScriptLearner, run: RunConfig, killed_at: int) -> str:
        """Check that a learner continues a run that was killed after a step. Return notes."""
        last: Evaluation | None = None
        for last in self._evaluations(learner, run):
            if learner.steps_seen and last.step == learner.steps_seen[-1]:
                break
        if not learner.steps_seen:
            return f"killed after step {killed_at}; the script had nothing left to do"
        begun = learner.steps_seen[0]
        if begun <= self._first[0].step:
            raise BrokenFamilyError(
                f"killed after step {killed_at}, the script began again at step {begun}, although it was started with "
                "script.resume"
            )
        self._resumed = last
        return f"killed after step {killed_at}, continued at step {begun}"

    def _repeated(self) -> str:
        if not self._family.options.seeded:
            raise Skipped("script.seeded is false, so equal runs differ by chance")
        self._need_points()
        run = self._case.run()
        wanted = self._resumed
        with closing(self._learner(run, "repeated")) as learner:
            points: list[Evaluation] = []
            for point in self._evaluations(learner, run):
                points.append(point)
                if len(points) >= len(self._first) and (wanted is None or point.step >= wanted.step):
                    break
        if _numbers(points[: len(self._first)]) != _numbers(self._first):
            raise Skipped("they differ, although the seed is the same; pairs of runs allow that, but share less")
        same = [point for point in points if wanted is not None and point.step == wanted.step]
        if wanted is not None and same and _numbers(same) != _numbers([wanted]):
            return f"at step {wanted.step} a run that was killed has other numbers than an undisturbed one"
        return ""

    def _seed(self) -> str:
        if not self._family.options.seeded:
            raise Skipped("script.seeded is false: the script takes no seed")
        self._need_points()
        self._differs(self._case.run(seed=1), "seed", "seeds 0 and 1")
        return ""

    def _size(self) -> str:
        self._need_points()
        if len(self._case.sizes) < 2:
            raise Skipped("only one size was given")
        low, high = self._case.sizes[:2]
        count = self._differs(self._case.run(size=high), "size", f"{self._family.size_axis} {low} and {high}")
        if self._parameters is None or count is None:
            return ""
        if not self._parameters < count:
            raise BrokenFamilyError(
                f"the script counts {count:g} parameters at {self._family.size_axis} {high} and {self._parameters:g} "
                f"at {low}; the count must grow with the size"
            )
        return f"parameters: {self._parameters:g} at {low}, {count:g} at {high}"

    def _differs(self, run: RunConfig, name: str, words: str) -> float | None:
        """Check that a run's first numbers differ from those of the first run. Return its parameters."""
        with closing(self._learner(run, name)) as learner:
            points = self._points(learner, run)
            count = learner.reader.parameters
        if _numbers(points) == _numbers(self._first):
            steps = " and ".join(str(point.step) for point in points)
            raise BrokenFamilyError(f"{words} give the same numbers at step {steps}: the script ignores the {name}")
        return count

    def _need_points(self) -> None:
        if not self._first:
            raise Skipped("no metrics were found")

    def _learner(self, run: RunConfig, name: str) -> ScriptLearner:
        learner = self._case.learner([run])
        assert isinstance(learner, ScriptLearner), "a script family makes script learners"
        learner.work_in(self._case.directory / name)
        return learner

    def _evaluations(self, learner: ScriptLearner, run: RunConfig) -> Iterator[Evaluation]:
        validator = ReportValidator(self._family, [run])
        while True:
            [report] = validator.check(learner.advance())
            if report.evaluation is not None:
                yield report.evaluation
            if report.outcome is not None:
                return

    def _points(self, learner: ScriptLearner, run: RunConfig) -> list[Evaluation]:
        points = []
        for point in self._evaluations(learner, run):
            points.append(point)
            if len(points) == POINTS:
                break
        if not points:
            raise BrokenFamilyError("the run diverged before its first evaluation")
        return points


def _numbers(points: list[Evaluation]) -> list[tuple[int, float, dict[str, float], dict[str, float]]]:
    """Return the numbers to compare. With a bar, accuracies are 0 or 1, and the scores are measures."""
    return [(point.step, point.loss, point.accuracy, dict(point.measures)) for point in points]
