"""Reading a script's metrics from the lines that it prints or writes."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainables.contract.bars import Bar
from trainables.contract.runs import Evaluation
from trainables.contract.settings import SettingsError

SCORES = ("accuracy", "score")
"""Names of the number that decides whether a run has learned. ``score`` is the name for numbers with a bar, such as a
loss."""
METRICS = ("step", "loss", *SCORES)
"""Names of metrics. The loss is optional, and a script has only one of the two scores."""
LONGEST_LINE = 100_000
"""Maximum number of characters of a line that are read. In longer lines, metrics must be at the beginning."""
MOST_EXAMPLES = 3
"""Maximum number of lines in a message."""
SHOWN_CHARACTERS = 160
"""Maximum number of characters of each line in a message."""
LONGEST_PATTERNS = 2_000
"""Maximum number of characters of all patterns together. Python compiles a pattern whenever options are read, and needs
up to a millisecond for each character."""
MOST_KEYS = 200
"""Maximum number of keys of JSON lines that are stored. Messages contain the nearest key."""


class MixedStepsError(ValueError):
    """Raised if steps go backwards within one process, for example because two programs write to the same file."""


def group_of(score: str, task: str) -> str:
    """Return the name of a pattern's group for a task's score: ``accuracy_add``.

    Characters that the name of a group cannot have become underscores.
    """
    return f"{score}_" + re.sub(r"\W", "_", task)


def score_of(names: Collection[str], key: str) -> str:
    """Return the name in :data:`SCORES` that is used, by default the accuracy.

    Raises :class:`SettingsError` if both are used.
    """
    given = [name for name in SCORES if name in names]
    if len(given) > 1:
        raise SettingsError(f"{key} has an accuracy and a score, which are the same: keep one", key=f"{key}.score")
    return given[0] if given else SCORES[0]


@dataclass(frozen=True)
class Reading:
    """Where the metrics are: keys of JSON lines, or patterns with a group each.

    Attributes:
        step: Key or name of the step.
        loss: Key or name of the loss. Empty if there is none.
        accuracies: Key or name of each task's score. An empty task stands for all tasks.
        parameters: Key of the number of parameters. Empty if there is none.
        score: Name of the score in the search space.
        is_json: True for keys of JSON lines, False for patterns.
        grouped: A single pattern for all metrics, with named groups.
        patterns: A pattern for each metric.
    """

    step: str
    loss: str
    accuracies: Mapping[str, str]
    parameters: str = ""
    score: str = SCORES[0]
    is_json: bool = True
    grouped: re.Pattern[str] | None = None
    patterns: Mapping[str, re.Pattern[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, metrics: Mapping[str, Any], pattern: Any, parameters: str = "") -> Reading:
        """Return the reading for the options of a script. Raises :class:`SettingsError`."""
        if isinstance(pattern, str) and pattern:
            _check_length([pattern])
            return cls._grouped(_compiled(pattern, "pattern"))
        key = "metrics" if metrics else "pattern"
        written: Any = metrics or pattern
        if not isinstance(written, Mapping):
            raise SettingsError(f"{key} must map step, loss and accuracy to where they are", key=key)
        for name in written:
            if name not in METRICS:
                message = f"{key} has no {name!r}"
                raise SettingsError(message, key=f"{key}.{name}", given=str(name), allowed=METRICS)
        score = score_of(written, key)
        given = written.get(score)
        accuracies = {"": given} if isinstance(given, str) else given
        places = {"step": written.get("step"), "loss": written.get("loss", "")}
        form = "a key" if metrics else "a regular expression"
        for name, place in places.items():
            if not isinstance(place, str) or (not place and name == "step"):
                raise SettingsError(f"{key}.{name} must be {form}; it is {place!r}", key=f"{key}.{name}")
        if not isinstance(accuracies, Mapping) or not accuracies:
            rule = f"must be {form}, or {form} for each task"
            raise SettingsError(f"{key}.{score} {rule}; it is {given!r}", key=f"{key}.{score}")
        for task, place in accuracies.items():
            if not isinstance(place, str) or not place:
                message = f"{key}.{score}.{task} must be {form}; it is {place!r}"
                raise SettingsError(message, key=f"{key}.{score}.{task}")
        if metrics:
            return cls(str(places["step"]), str(places["loss"]), dict(accuracies), parameters, score)
        texts = {"step": places["step"], "loss": places["loss"]}
        texts |= {group_of(score, task): text for task, text in accuracies.items()}
        _check_length(texts.values())
        compiled = {name: _compiled(text, "pattern", one=True) for name, text in texts.items() if text}
        named = {task: group_of(score, task) for task in accuracies}
        return cls("step", "loss" if "loss" in compiled else "", named, score=score, is_json=False, patterns=compiled)

    @classmethod
    def _grouped(cls, pattern: re.Pattern[str]) -> Reading:
        groups = tuple(pattern.groupindex)
        score = score_of([name.partition("_")[0] for name in groups], "pattern")
        prefix = f"{score}_"
        accuracies = {name.removeprefix(prefix): name for name in groups if name.startswith(prefix)}
        if score in groups:
            accuracies = {"": score}
        for name in groups:
            if name not in METRICS and not name.startswith(prefix):
                message = f"the pattern has a group {name!r}"
                raise SettingsError(message, key="pattern", given=name, allowed=(*METRICS, f"{prefix}TASK"))
        if "step" not in groups or not accuracies:
            form = "(?P<step>\\d+) and (?P<accuracy>[\\d.]+%?)"
            raise SettingsError(f"the pattern needs the groups step and accuracy, such as {form}", key="pattern")
        return cls("step", "loss" if "loss" in groups else "", accuracies, score=score, is_json=False, grouped=pattern)

    @property
    def tasks(self) -> tuple[str, ...]:
        """Tasks that have separate scores. Empty if one score stands for all tasks."""
        return tuple(task for task in self.accuracies if task)

    @property
    def names(self) -> list[str]:
        """Keys, or names of metrics if patterns find them."""
        return [name for name in (self.step, self.loss, *self.accuracies.values()) if name]

    def place(self, task: str) -> str:
        """Return the key or name for the score of a task, or an empty string if there is none."""
        places = self.accuracies
        group = group_of(self.score, task).removeprefix(f"{self.score}_")
        return places.get(task, "") or places.get("", "") or (places.get(group, "") if self.grouped else "")

    def values(self, line: str) -> dict[str, Any]:
        """Return the values in a line, by key or by the name of a metric."""
        if self.is_json:
            return _json_object(line)
        numbers: dict[str, Any] = {}
        if self.grouped is not None:
            for match in self.grouped.finditer(line):
                numbers |= {name: _number(line, match, name) for name in match.groupdict() if match[name] is not None}
        for name, pattern in self.patterns.items():
            if (first := pattern.search(line)) is not None:
                numbers[name] = _number(line, first, 1)
        return {name: number for name, number in numbers.items() if number is not None}


def _check_length(patterns: Collection[str]) -> None:
    length = sum(map(len, patterns))
    if length > LONGEST_PATTERNS:
        message = f"the patterns have {length} characters together; at most {LONGEST_PATTERNS} are allowed"
        raise SettingsError(message, key="pattern")


def _compiled(text: str, key: str, *, one: bool = False) -> re.Pattern[str]:
    try:
        pattern = re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise SettingsError(f"{text!r} is not a regular expression: {error}", key=key) from None
    if one and pattern.groups != 1:
        rule = "must have one group, (...), around the number; (?:...) is not a group"
        raise SettingsError(f"the pattern {text!r} {rule}", key=key)
    return pattern


def _number(line: str, match: re.Match[str], group: str | int) -> float | int | None:
    """Return the number in a group. A percent sign in the group or after it divides by 100."""
    text = (match[group] or "").strip()
    end = match.end(group)
    is_percent = text.endswith("%") or line[end : end + 2].strip().startswith("%")
    try:
        value = float(text.removesuffix("%").replace(",", ""))
    except ValueError:
        return None
    return value / 100 if is_percent else value


def _json_object(line: str) -> dict[str, Any]:
    """Return a line's JSON object, or an empty mapping if it has none. Some programs write a time or a level before
    it."""
    begin = line.find("{")
    if begin < 0 or not line.rstrip().endswith("}"):
        return {}
    try:
        values = json.loads(line[begin:])
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def _at(values: Mapping[str, Any], key: str) -> Any:
    """Return the value of a key, or None if there is none. A dot in the key may lead into a mapping."""
    if key in values or "." not in key:
        return values.get(key)
    first, _, rest = key.partition(".")
    inner = values.get(first)
    return _at(inner, rest) if isinstance(inner, Mapping) else None


def _as_number(value: Any) -> float | int | None:
    """Return a number, or None for any other value. A whole number that is too large for a float becomes infinite, as
    1e400 does."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    return value


@dataclass(frozen=True)
class Metrics:
    """Metrics that a script has reported after some steps.

    ``accuracy`` has the scores by task. With a bar, they may be any numbers. It is empty if a number is not finite.
    """

    step: int
    loss: float
    accuracy: dict[str, float]

    @property
    def is_finite(self) -> bool:
        """True if all numbers are finite, so the run has not diverged."""
        return math.isfinite(self.loss) and bool(self.accuracy)

    def evaluation(self, bar: Bar | None = None) -> Evaluation:
        """Return the metrics as an evaluation. With a bar, scores become measures."""
        if bar is None:
            return Evaluation(self.step, self.loss, self.accuracy)
        return Evaluation(self.step, self.loss, bar.shares(self.accuracy), bar.measures(self.accuracy))


class MetricReader:
    """Finds the points of a learning curve in a run's lines. Metrics may be on separate lines: an accuracy belongs to
    the last step before it."""

    def __init__(self, reading: Reading, tasks: Sequence[str], bar: Bar | None = None) -> None:
        self._reading = reading
        self._tasks = tuple(tasks)
        self._bar = bar
        self._step: int | None = None
        self._loss: float | None = None
        self._accuracy: dict[str, float] = {}
        self._is_reported = False
        self.is_tolerant = False
        """True while the lines may come from several processes, so that steps may go backwards."""
        self.parameters: float | None = None
        """Number of trainable parameters, if the script has reported it."""
        self.matched: dict[str, str] = {}
        """The last line in which each metric was found."""
        self.examples: list[str] = []
        """The first lines that are not empty."""
        self._keys: dict[str, None] = {}

    def begin_process(self) -> None:
        """Forget the last step, because a new process may begin at an earlier step."""
        self._step = None

    def read(self, line: str) -> Metrics | None:
        """Return the point that a line completes, or None if it does not complete one. Raises
        :class:`MixedStepsError`."""
        line = line[:LONGEST_LINE]
        if len(self.examples) < MOST_EXAMPLES and (text := line.strip()):
            self.examples.append(text[:SHOWN_CHARACTERS])
        values = self._reading.values(line)
        if not values:
            return None
        if len(self._keys) < MOST_KEYS:
            self._keys |= dict.fromkeys(_leaves(values))
        if self._reading.parameters and (count := _as_number(_at(values, self._reading.parameters))) is not None:
            self.parameters = float(count)
        self._take_step(_as_number(_at(values, self._reading.step)), line)
        if self._step is None or self._step < 1:  # An evaluation of the untrained model.
            return None
        self._take_numbers(values, line)
        return self._point()

    def _take_step(self, value: float | int | None, line: str) -> None:
        if value is None or not math.isfinite(value) or value != int(value):
            return
        self.matched["step"] = line.strip()[:SHOWN_CHARACTERS]
        step = int(value)
        if self._step is not None and step < self._step and not self.is_tolerant:
            why = "do two programs write to one file, or does the step begin again?"
            raise MixedStepsError(f"step {step} follows step {self._step}: {why}")
        if step != self._step:
            self._step = step
            self._loss = None
            self._accuracy = {}
            self._is_reported = False

    def _take_numbers(self, values: Mapping[str, Any], line: str) -> None:
        reading = self._reading
        if reading.loss and (loss := _as_number(_at(values, reading.loss))) is not None:
            self._loss = float(loss)
            self.matched["loss"] = line.strip()[:SHOWN_CHARACTERS]
        for task in self._tasks:
            place = reading.place(task)
            if place and (share := _as_number(_at(values, place))) is not None:
                self._accuracy[task] = float(share)
                self.matched[f"{reading.score} of {task}"] = line.strip()[:SHOWN_CHARACTERS]

    def _point(self) -> Metrics | None:
        assert self._step is not None, "numbers are taken after a step"
        if self._is_reported:
            return None
        numbers = [*self._accuracy.values(), *([] if self._loss is None else [self._loss])]
        is_complete = len(self._accuracy) == len(self._tasks) and (self._loss is not None or not self._reading.loss)
        if not all(map(math.isfinite, numbers)):
            self._is_reported = True
            return Metrics(self._step, math.nan, {})
        if not is_complete:
            return None
        self._is_reported = True
        shares = self._accuracy if self._bar is None else self._bar.shares(self._accuracy)
        wrong = 1 - sum(shares.values()) / len(shares)
        return Metrics(self._step, wrong if self._loss is None else self._loss, dict(self._accuracy))

    def missing(self) -> str:
        """Return a sentence about the missing metrics, with the first lines and the nearest key."""
        needed = {"step": self._reading.step} | ({"loss": self._reading.loss} if self._reading.loss else {})
        needed |= {f"{self._reading.score} of {task}": self._reading.place(task) for task in self._tasks}
        lost = {name: place for name, place in needed.items() if name not in self.matched}
        what = "no line has " + ", ".join(
            f"the {name}" + (f" (key {place!r})" if self._reading.is_json else "") for name, place in lost.items()
        )
        if not lost:
            what = "no step has every metric"
        near = [difflib.get_close_matches(place, self._keys, n=1) for place in lost.values() if self._reading.is_json]
        hint = f". Did you mean {near[0][0]!r}?" if near and near[0] else "."
        seen = " | ".join(self.examples)
        return f"{what}{hint} " + (f"Its first lines: {seen}" if seen else "It printed nothing.")


def _leaves(values: Mapping[str, Any], prefix: str = "") -> list[str]:
    leaves: list[str] = []
    for name, value in values.items():
        leaves += _leaves(value, f"{prefix}{name}.") if isinstance(value, Mapping) else [f"{prefix}{name}"]
    return leaves
