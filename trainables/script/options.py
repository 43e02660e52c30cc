"""Options of a script, under ``script:`` in a search space, and the checks of them that need no files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from trainables.contract.settings import SettingsError
from trainables.script.metrics import Reading
from trainables.script.placeholders import fields_in

ENVIRONMENT_NAME = re.compile(r"[A-Za-z_]\w*")
"""Pattern of names of environment variables."""
FILE_NAME = re.compile(r"[A-Za-z0-9_][\w.-]{0,63}")
"""Pattern of names of configuration files."""
RESULTS = ("command", "metrics", "pattern", "file", "environment", "config", "code_hash")
"""Options that can change the result of a run or how it is read. They are part of the run's key."""


@dataclass(frozen=True)
class ScriptOptions:
    """A training program: how to start it, where its numbers are, and how to continue it.

    Words of ``command``, ``resume`` and ``file``, and the values of ``environment`` and ``config``, may contain
    ``{size}``, ``{seed}``, ``{tasks}``, ``{shares}``, ``{checkpoint}``, ``{out}``, ``{config}`` and the name of any
    setting.
    """

    command: tuple[str, ...]
    """Program and arguments, without a shell: ``[uv, run, train.py, --seed, "{seed}"]``."""
    directory: str = ""
    """Working directory of the program, by default the folder of the search space."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Keys of JSON lines: ``{step: iter, loss: val_loss, accuracy: {add: acc_add, prod: acc_prod}}``. A dot leads into
    a mapping. ``loss`` may be absent. Write ``score`` instead of ``accuracy`` for a number with a bar."""
    pattern: Any = ""
    """Instead of ``metrics``, for lines of text: a regular expression with groups ``step``, ``accuracy`` or ``score``
    (or ``accuracy_TASK`` for each task) and ``loss``, or one expression for each metric. A percent sign divides by
    100."""
    file: str = ""
    """File with these lines, such as ``{out}/metrics.jsonl``. By default, lines are read from the program's output."""
    resume: tuple[str, ...] = ()
    """Arguments that continue a killed run. They are added if the file that they specify with ``{checkpoint}``
    exists."""
    parameters: str = ""
    """Key of a JSON line with the number of trainable parameters."""
    code: tuple[str, ...] = ()
    """Files whose hash is part of each run's key. By default the files that ``command`` names, its modules after
    ``-m``, and what they import from their own folders."""
    seeded: bool = True
    """False if the program takes no seed: equal runs then differ by chance."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables, in addition to ``SWEEP_SIZE``, ``SWEEP_SEED`` and the like."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Content of the file ``{config}``, by default every setting by name."""
    config_name: str = "config.yaml"
    """Name of the file ``{config}``. Its content is JSON, which every reader of YAML understands."""
    tasks: tuple[str, ...] = ()
    """Names of the tasks, by default those of ``accuracy`` or ``score``, or those of the mixes."""
    size_axis: str = "size"
    """Meaning of a size, for tables and figures."""
    stops_early: bool = False
    """True if the program may end before ``settings.steps``, for example once it has learned."""
    silent_s: float = 3600.0
    """Seconds without a new evaluation after which a run counts as hung, and is ended."""
    code_hash: str = ""
    """Hash of the code, computed before a sweep starts. A value that is written here is replaced."""
    memory_gb: float = 0.0
    """Memory of the program and its children above which it is ended, or 0 for no limit."""

    def __post_init__(self) -> None:
        _require(bool(self.command) and all(self.command), "command", "must list a program and its arguments")
        _require("\0" not in "".join((*self.command, *self.resume, self.directory)), "command", "must not contain NUL")
        _require(
            bool(self.metrics) != bool(self.pattern),
            "metrics",
            "specify either metrics: or pattern:, with the places of step and accuracy, such as "
            "{step: iter, loss: val_loss, accuracy: val_acc}",
        )
        self.reading  # noqa: B018 - checks metrics and patterns
        is_apart = not self.file or {"out", "checkpoint"} & set(fields_in(self.file, "file"))
        _require(bool(is_apart), "file", "must begin with {out}/, or runs would write to the same file")
        for name in self.environment:
            is_name = ENVIRONMENT_NAME.fullmatch(name) is not None
            _require(is_name, f"environment.{name}", "is not the name of an environment variable")
        is_file = FILE_NAME.fullmatch(self.config_name) is not None
        _require(is_file, "config_name", "must be the name of a file, such as config.json")
        for name in self.code:
            is_inside = not name.startswith(("/", "~")) and ".." not in name.split("/")
            _require(is_inside, "code", f"must name files below the directory; got {name!r}")
        _require(self.silent_s > 0, "silent_s", "must be above 0")
        _require(self.memory_gb >= 0, "memory_gb", "must be at least 0")
        _require(bool(self.size_axis.strip()), "size_axis", "must not be empty")
        _require(self.parameters == "" or not self.pattern, "parameters", "is a key of JSON lines: specify metrics:")

    @property
    def reading(self) -> Reading:
        """How to read the program's lines. Raises :class:`SettingsError` for options that do not fit together."""
        return Reading.of(self.metrics, self.pattern, self.parameters)

    @property
    def task_names(self) -> tuple[str, ...]:
        """Tasks in the options. Empty if the tasks are those of the mixes."""
        return self.tasks or self.reading.tasks

    def identity(self) -> dict[str, Any]:
        """Return the options that are part of a run's key, as plain values.

        The directory is not one of them, because a project does not change when it is moved.
        """
        options = asdict(self)
        return {name: options[name] for name in RESULTS if options[name]}


def _require(holds: bool, key: str, rule: str) -> None:
    if not holds:
        raise SettingsError(rule, key=key)
