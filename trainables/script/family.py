"""Scripts as a family: each run is a process. This project starts it and reads its output, but never imports it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, ClassVar

from trainables.base import Family, Learner, Mix, Parameters, RunConfig
from trainables.contract.bars import Bar
from trainables.contract.file_hashes import DIGITS
from trainables.contract.runs import run_key
from trainables.contract.settings import SettingsError, digest_of
from trainables.contract.simple import FLOPS_PER_PARAMETER, GUESSED_BATCH
from trainables.contract.unknown_files import MOST_NAMED
from trainables.contract.words import Words
from trainables.script import placeholders
from trainables.script.code import code_hash, code_of, unfound_modules
from trainables.script.learner import ScriptLearner
from trainables.script.options import ScriptOptions
from trainables.script.placeholders import COMMON_PLACEHOLDERS
from trainables.script.user_settings import ScriptSettings, settings_type

SCRIPT_FAMILY = "script"
"""Name of the family in a search space, and part of its runs' keys."""


class ScriptFamily(Family):
    """A family of runs of one script. :func:`script_family` makes the class for a search space."""

    name: ClassVar[str] = SCRIPT_FAMILY
    version: ClassVar[int] = 1
    size_axis: ClassVar[str] = "size"
    Settings: ClassVar[type] = ScriptSettings
    stacks: ClassVar[bool] = False
    options: ClassVar[ScriptOptions]
    floor: ClassVar[float | Mapping[str, float]] = 0.0
    """Score of the best constant answer, for all tasks or by task."""
    knows_floor: ClassVar[bool] = False
    bar: ClassVar[Bar | None] = None
    """The bar of scores that are not accuracies."""
    task_names: ClassVar[tuple[str, ...]] = ()
    file_hashes: ClassVar[Mapping[str, str]] = {}
    """Hash of each file of the code when the sweep began, for messages. Empty if unknown."""

    def tasks(self) -> tuple[str, ...]:
        return self.task_names

    def parameters(self, size: float) -> Parameters:
        """Return the size, because only the script knows its parameters."""
        return Parameters(size, size)

    def scaled(self, steps: float, examples: float) -> Any:
        return self.settings if steps == 1 else replace(self.settings, steps=max(1, round(self.settings.steps * steps)))

    def steps(self, run: RunConfig) -> int:
        return int(run.settings.steps)

    def flops(self, run: RunConfig) -> float:
        """Guess the operations of a run: the operations of a model with ``size`` parameters."""
        return float(FLOPS_PER_PARAMETER * run.size * self.steps(run) * GUESSED_BATCH)

    def shape(self, run: RunConfig) -> str:
        return f"{self.size_axis}-{run.size}".replace(" ", "_")

    def key(self, run: RunConfig) -> str:
        """Return the key of a run. It covers the script's options and the hash of its code."""
        floor = dict(self.floor) if isinstance(self.floor, Mapping) else self.floor
        identity: dict[str, Any] = {"options": self.options.identity(), "floor": floor}
        identity |= {} if self.bar is None else {"learned": str(self.bar)}
        return run_key(f"{SCRIPT_FAMILY}:{digest_of(identity)[:DIGITS]}", self.version, run)

    def check(self, mix: Mix, size: int) -> None:
        """Refuse placeholders without a value, and tasks without a score."""
        options = self.options
        known = (*COMMON_PLACEHOLDERS, *(setting.name for setting in fields(self.settings)))
        for key in ("command", "resume"):
            for word in getattr(options, key):
                placeholders.check(word, known, f"script.{key}")
        placeholders.check(options.file, known, "script.file")
        for name, text in options.environment.items():
            placeholders.check(text, known, f"script.environment.{name}")
        for text in placeholders.texts_in(options.config):
            placeholders.check(text, [name for name in known if name != "config"], "script.config")
        for task in mix.tasks:
            if not options.reading.place(task):
                message = f"the mix {mix} has the task {task!r}, but no {options.reading.score} is read for it"
                raise SettingsError(message, key="script.metrics", given=task, allowed=options.reading.tasks)

    def check_files(self) -> None:
        """Refuse a missing directory, program or code file."""
        options = self.options
        directory = Path(self.options.directory)
        if not directory.is_absolute():
            raise SettingsError(f"{options.directory!r} is not an absolute path", key="script.directory")
        if not directory.is_dir():
            what = "is not a directory" if directory.exists() else "does not exist"
            raise SettingsError(f"{directory} {what}", key="script.directory")
        program = options.command[0]
        if not placeholders.fields_in(program, "script.command"):
            where = str(directory / program) if "/" in program else program
            if shutil.which(where) is None:
                why = "is not a program that can be started" if Path(where).exists() else "was not found"
                place = "" if "/" in program else " in PATH"
                raise SettingsError(f"the program {where} {why}{place}", key="script.command", given=program)
        code_hash(options)

    def warnings(self, sizes: Sequence[int]) -> list[str]:
        warnings = []
        if not self.knows_floor:
            warnings.append(
                "The search space does not give `floor`, the accuracy of the best constant answer, so it is taken as "
                "0, and guessing may count as learning. For n equally frequent answers, `floor` is 1/n."
            )
        if not self.options.seeded:
            warnings.append("The script takes no seed, so the two runs of a pair do not share their data.")
        return warnings

    def code_warnings(self) -> list[str]:
        """Return caveats about the script's code, whose files are read."""
        warnings = []
        if why := code_of(self.options).unknown:
            warnings.append(
                f"{why}, so its runs are reused even if its code changes. List its files under `script: code`, or a "
                "file that changes with them, such as a lock file."
            )
        if unfound := unfound_modules(self.options):
            more = f" and {len(unfound) - MOST_NAMED} more" if len(unfound) > MOST_NAMED else ""
            warnings.append(
                f"The script needs {', '.join(unfound[:MOST_NAMED])}{more}, found neither near it nor installed. "
                "If that code is yours, runs are reused even if it changes: list its files under `script: code`."
            )
        return warnings

    def learner(self, runs: Sequence[RunConfig], *, device: str, cache: Path) -> Learner:
        (run,) = runs
        family = type(self)(run.settings)  # A recipe or a longer budget differs from the family's settings.
        return ScriptLearner(family, run, self.options, bar=self.bar, floor=self.floor, file_hashes=self.file_hashes)


def script_family(
    options: ScriptOptions,
    floor: float | Mapping[str, float] | None,
    settings: Mapping[str, Any],
    tasks: Sequence[str],
    bar: Bar | None = None,
    file_hashes: Mapping[str, str] | None = None,
) -> type[ScriptFamily]:
    """Return the family of a script.

    Args:
        options: The script's options.
        floor: Score of the best constant answer, for all tasks or by task. None if it is unknown.
        settings: The script's settings, as plain values.
        tasks: Tasks of the mixes. They count if the options do not list tasks.
        bar: Bar of scores that are not accuracies. A constant answer is assumed not to reach it.
        file_hashes: Hash of each file of the code when the sweep began, None if unknown.
    """
    tunable = tuple(
        name
        for name, value in settings.items()
        if name != "steps" and isinstance(value, int | float) and not isinstance(value, bool)
    )
    words = Words(size=options.size_axis, parameters=f"units of {options.size_axis}")
    members = {
        "__doc__": ScriptFamily.__doc__,
        "name": SCRIPT_FAMILY,
        "Settings": settings_type(tuple(settings)),
        "options": options,
        "size_axis": options.size_axis,
        "floor": 0.0 if floor is None else floor,
        "knows_floor": floor is not None or bar is not None,
        "bar": bar,
        "file_hashes": file_hashes or {},
        "task_names": options.task_names or tuple(dict.fromkeys(tasks)),
        "tunable": tunable,
        "resumes": bool(options.resume),
        "words": words if bar is None else bar.words(words),
    }
    return type("Script", (ScriptFamily,), members)
