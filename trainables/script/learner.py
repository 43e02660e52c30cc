"""One run of a script: its process, its output, and its points, which survive a kill."""

from __future__ import annotations

import json
import math
import platform
import shlex
import shutil
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

from trainables.base import Evaluation, Family, Outcome, Report, RunConfig, Status
from trainables.contract.bars import Bar
from trainables.contract.files import write_whole
from trainables.contract.points import PointLearner
from trainables.contract.report_validator import BrokenFamilyError
from trainables.contract.settings import SettingsError
from trainables.script import placeholders
from trainables.script.code import code_hash
from trainables.script.code_change import change_text
from trainables.script.metrics import MetricReader, Metrics, MixedStepsError
from trainables.script.options import ScriptOptions
from trainables.script.process import FileReader, LogReader, NoFileError, ScriptExit, ScriptProcess, TruncatedText

LOGS = "sweep"
"""Directory for the script's output and the points read from it, in a run's directory. The script itself writes to
``checkpoint`` and ``out`` next to it."""
POINTS = "points.jsonl"
"""File with the points that were read, one JSON list per line."""
POLL_S = 0.02
"""Seconds between polls of a script's output."""
RESTARTS = 2
"""Maximum number of restarts of a killed script without a new point."""
LAST_LINES = 20
"""Lines of output that an error shows."""
OUT_OF_MEMORY = ("CUDA out of memory", "OutOfMemoryError", "HIP out of memory")
"""Parts of a script's last lines that show that the memory of a GPU is exhausted."""


class ScriptError(RuntimeError):
    """Raised if a script failed. The message has its exit code, signal or silence, and its last lines."""


@dataclass(frozen=True)
class TimedPoint:
    """A point, and the seconds of training up to it in all processes of the run."""

    point: Metrics
    seconds: float


class ScriptLearner(PointLearner):
    """Runs a script for one run, and reads its points. :class:`ReportValidator` checks their numbers.

    Points are on disk before they are reported. After a kill, the next learner in the same directory reads them and the
    rest of the output, and continues the script from the script's own checkpoint. If the script begins again, or at an
    earlier step, its new points replace the old ones.
    """

    def __init__(
        self,
        family: Family,
        run: RunConfig,
        options: ScriptOptions,
        *,
        bar: Bar | None = None,
        floor: float | Mapping[str, float] = 0.0,
        file_hashes: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare a run. The first :meth:`advance` starts it. Pass the family's ``bar``, ``floor`` and
        ``file_hashes``."""
        super().__init__(family, run)
        self._family = family
        self._options = options
        self._bar = bar
        self._floor = floor
        self._file_hashes = file_hashes or {}
        self._directory: Path | None = None
        self._is_temporary = False
        self._process: ScriptProcess | None = None
        self._points: list[TimedPoint] = []
        self._reader = MetricReader(self._options.reading, run.mix.tasks, bar)
        self._output = TruncatedText()
        self.steps_seen: list[int] = []
        """Steps of the points that the present process has reported."""

    @property
    def reader(self) -> MetricReader:
        """The reader of the script's lines, with the metrics that it has found."""
        return self._reader

    @property
    def process(self) -> ScriptProcess | None:
        """The running script, or None."""
        return self._process

    def work_in(self, directory: Path) -> None:
        self._directory = directory

    def close(self) -> None:
        super().close()
        self._stop()
        if self._is_temporary and self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    def _stop(self) -> None:
        process = self._process
        self._process = None
        if process is not None:
            process.stop()

    # The run

    def _train(self) -> Generator[Report]:
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="script-"))
            self._is_temporary = True
        logs = self._directory / LOGS
        for path in (logs, self._directory / "checkpoint", self._directory / "out"):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._points = _read_points(logs / POINTS)
        log = LogReader(logs)
        diverged_at = 0
        yield from self._due()
        for _ in self._attempts():
            for point in self._points_of(log):
                if not point.point.is_finite:
                    diverged_at = point.point.step
                    break
                self._add(point)
                yield from self._due()
            if diverged_at:
                break
        self._stop()
        yield self._end(diverged_at)

    def _attempts(self) -> Iterator[None]:
        """Yield once for each process to start. Yield again if the process was killed.

        Raises :class:`ScriptError` if the script failed, or was killed too often without a new point.
        """
        best = self._last_step
        failures = 0
        while True:
            yield
            ended = self._process.ended() if self._process is not None else None
            assert ended is not None, "the lines of a process end with it"
            self._stop()
            if not ended.was_killed:
                self._check_end(ended)
                return
            failures = failures + 1 if self._last_step <= best else 1
            best = max(best, self._last_step)
            if failures > RESTARTS:
                times = f"was killed {failures} times without a new evaluation"
                raise self._failed(f"{times}, the last time {_signal_text(ended)}")

    def _points_of(self, log: LogReader) -> Iterator[TimedPoint]:
        """Start a process and yield its points until it ends."""
        assert self._directory is not None, "a run has a directory"
        self._check_code()
        values = placeholders.values_of(self._run, self._directory, self._options.config_name)
        file = FileReader(Path(self._options.directory, placeholders.fill(self._options.file, values)))
        command = self._command(values)
        before = self._points[-1].seconds if self._points else 0.0
        number = log.newest
        self._process = self._started(command, values)
        self.steps_seen = []
        begun = heard = time.monotonic()
        is_first = True
        is_checked = False
        while True:
            ended = self._process.ended()
            lines = log.read()
            for line in lines:
                if line is not None:
                    self._output.add(line)
            if self._options.file:
                lines = self._lines_of(file) or (file.last() if ended is not None else [])
                # Lines from before this process may come from several processes.
                self._reader.is_tolerant = is_first
            is_first = False
            for point in self._read(lines):
                heard = time.monotonic()
                if not is_checked:  # It has imported its files by now, perhaps after they were changed.
                    self._check_code()
                    is_checked = True
                if not self._reader.is_tolerant and log.number > number:
                    self.steps_seen.append(point.step)
                yield TimedPoint(point, before + heard - begun)
            if ended is not None and not lines:
                return
            if time.monotonic() - heard > self._options.silent_s:
                seconds = f"{self._options.silent_s:g} s"
                raise self._failed(f"reported nothing for {seconds}, so it was ended (script.silent_s)")
            if not lines:
                time.sleep(POLL_S)

    def _lines_of(self, file: FileReader) -> list[str | None]:
        try:
            return file.read()
        except NoFileError:
            raise self._broken(f"cannot be read: {file.path.name}, its file of metrics, is not a plain file") from None

    def _read(self, lines: Sequence[str | None]) -> Iterator[Metrics]:
        for line in lines:
            if line is None:
                self._reader.begin_process()
                self.steps_seen = []
                continue
            try:
                point = self._reader.read(line)
            except MixedStepsError as error:
                raise self._broken(str(error)) from None
            if point is not None:
                yield point

    def _command(self, values: Mapping[str, Any]) -> list[str]:
        """Return the command. If there is a checkpoint, add the arguments for resuming."""
        assert self._directory is not None, "a run has a directory"
        options = self._options
        named = [word for word in options.resume if "checkpoint" in placeholders.fields_in(word, "script.resume")]
        paths = [Path(options.directory, placeholders.fill(word, values)) for word in named]
        if named:
            resumes = all(path.exists() for path in paths)
        else:
            resumes = bool(options.resume) and any((self._directory / "checkpoint").iterdir())
        words = (*options.command, *(options.resume if resumes else ()))
        return [placeholders.fill(word, values) for word in words]

    def _started(self, command: Sequence[str], values: Mapping[str, Any]) -> ScriptProcess:
        assert self._directory is not None, "a run has a directory"
        options = self._options
        for name in ("checkpoint", "out"):  # The script may have removed these directories.
            (self._directory / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        content = placeholders.fill_value(options.config, values) or {
            name: value for name, value in values.items() if name not in ("config", "shares")
        } | {"tasks": values["shares"]}
        write_whole(Path(values["config"]), f"{placeholders.as_configuration(content)}\n")
        own = {name: placeholders.fill(text, values) for name, text in options.environment.items()}
        return ScriptProcess(
            command,
            Path(options.directory),
            placeholders.environment(values) | own,
            self._directory / LOGS,
            memory_bytes=round(options.memory_gb * 1e9),
        )

    # Points

    @property
    def _last_step(self) -> int:
        return self._points[-1].point.step if self._points else 0

    def _add(self, point: TimedPoint) -> None:
        """Keep a point. It replaces points at its step or later, which came from a killed process."""
        assert self._directory is not None, "a run has a directory"
        path = self._directory / LOGS / POINTS
        if point.point.step <= self._last_step:
            self._points = [known for known in self._points if known.point.step < point.point.step]
            write_whole(path, "".join(map(_line, self._points)))
        self._points.append(point)
        with path.open("a", encoding="utf-8") as file:
            file.write(_line(point))

    def _due(self) -> Iterator[Report]:
        """Yield a report for each point that was not reported yet."""
        for timed in list(self._points):
            if timed.point.step > self._reported_step:
                self._reported_step = timed.point.step
                yield Report(0, timed.point.evaluation(self._bar))

    def _end(self, diverged_at: int) -> Report:
        """Return the last report of a run."""
        curve: tuple[Evaluation, ...] = tuple(timed.point.evaluation(self._bar) for timed in self._points)
        floor = self._floor
        floors = {task: float(floor.get(task, 0.0) if isinstance(floor, Mapping) else floor) for task in self._tasks}
        measures = {"seconds": self._points[-1].seconds if self._points else 0.0}
        if self._reader.parameters is not None:
            measures["parameters"] = self._reader.parameters
        if diverged_at:
            curve = tuple(point for point in curve if point.step < diverged_at)
            outcome = Outcome(Status.DIVERGED, min(diverged_at, self._most), floors, floors, curve, measures)
        else:
            last = curve[-1]
            measures |= last.measures
            outcome = Outcome(Status.FINISHED, last.step, dict(last.accuracy), floors, curve, measures)
        return Report(0, None, outcome, output=self._output.text())

    @property
    def _tasks(self) -> tuple[str, ...]:
        return self._run.mix.tasks

    @property
    def _most(self) -> int:
        return self._family.steps(self._run)

    # Errors

    def _check_code(self) -> None:
        """Raise an exception if the code has changed. Results would be stored under the keys of other code."""
        try:
            now = code_hash(self._options)
        except SettingsError as error:
            raise self._broken(f"cannot be started on {platform.node()}: {error}") from error
        if now != self._options.code_hash:
            change = change_text(self._options, self._file_hashes)
            raise self._broken(f"has other code than when the sweep began: {change}")

    def _check_end(self, ended: ScriptExit) -> None:
        """Raise an exception unless a script ended without an error, after its last step."""
        if ended.errno is not None:
            raise OSError(ended.errno, ended.error)
        if ended.error:
            raise self._broken(f"cannot be started: {ended.error}")
        if ended.memory:
            raise self._failed(f"used more than {self._options.memory_gb:g} GB, so it was ended (script.memory_gb)")
        if ended.code != 0:
            lines = "\n".join(self._output.last_lines(LAST_LINES))
            if any(words in lines for words in OUT_OF_MEMORY):
                raise MemoryError(f"{self._title} ran out of memory: {self._last_line}")
            raise self._failed(_signal_text(ended))
        if not self._points:
            raise self._broken(f"ended with exit code 0 and without an evaluation: {self._reader.missing()}")
        steps = [0, *(timed.point.step for timed in self._points)]
        gap = max(later - earlier for earlier, later in pairwise(steps))
        if not self._options.stops_early and steps[-1] + gap < self._most:
            rule = "if it may do so, set script.stops_early: true"
            raise self._failed(f"ended with exit code 0 after step {steps[-1]} of {self._most}; {rule}")

    @property
    def _title(self) -> str:
        """The beginning of the script's command: ``python train.py``."""
        words = takewhile(lambda word: not word.startswith("-") and "{" not in word, self._options.command)
        return f"`{shlex.join(list(words) or self._options.command[:1])[:120]}`"

    @property
    def _last_line(self) -> str:
        return next(iter(self._output.last_lines(1)), "it printed nothing")[:300]

    def _failed(self, what: str) -> ScriptError:
        """Return the error of a script that failed. Its first line is complete, and the script's last lines follow."""
        lines = "".join(f"\n    | {line}" for line in self._output.last_lines(LAST_LINES))
        return ScriptError(f"{self._title} {what}. Its last line: {self._last_line}{lines}")

    def _broken(self, what: str) -> BrokenFamilyError:
        run = self._run
        where = f"mix {run.label}, {self._family.size_axis} {run.size}, seed {run.seed}"
        return BrokenFamilyError(f"the script {self._title} ({where}) {what}")


def _signal_text(ended: ScriptExit) -> str:
    if ended.code is None:
        return "by an unknown signal"
    if ended.code < 0:
        hint = " (SIGKILL: was memory exhausted?)" if ended.code == -9 else ""
        return f"was ended by signal {-ended.code}{hint}"
    return f"ended with exit code {ended.code}"


def _line(point: TimedPoint) -> str:
    return json.dumps([point.point.step, point.point.loss, point.point.accuracy, point.seconds]) + "\n"


def _read_points(path: Path) -> list[TimedPoint]:
    """Return the points in a file, up to the first line that is damaged."""
    points: list[TimedPoint] = []
    if path.is_symlink() or not path.is_file():  # A link could lead to a file of another user.
        path.unlink(missing_ok=True)
        return points
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True):
        try:
            step, loss, accuracy, seconds = json.loads(line)
            shares = {str(task): float(share) for task, share in accuracy.items()}
            numbers = (float(loss), float(seconds), *shares.values())
        except (ValueError, TypeError, AttributeError):
            break
        is_next = type(step) is int and step > (points[-1].point.step if points else 0)
        if not is_next or not line.endswith("\n") or not all(map(math.isfinite, numbers)):
            break
        points.append(TimedPoint(Metrics(step, numbers[0], shares), numbers[1]))
    return points
