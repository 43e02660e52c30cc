"""The contract between a family of models and the program that schedules their training.

A *family* trains models of one kind at any size on any mix of its tasks. The orchestrator names runs, passes stacks of
them to the family's learner and reads back evaluations and outcomes. Nothing here imports Ray, MLflow or the
orchestrator, so you can step through a family in a debugger.

A family outside this repository is any subclass of :class:`Family`. Its name is ``package.module:Class``. The shortest
form is a :class:`trainables.SimpleFamily`, which needs only a generator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from trainables.contract.arms import Arm, Mix
from trainables.contract.learner import Learner
from trainables.contract.machine_traits import MachineTraits
from trainables.contract.report_traits import ReportTraits
from trainables.contract.runs import Parameters, RunConfig, Start, run_key


class Family(MachineTraits, ReportTraits, ABC):
    """A kind of model and its tasks, with its settings resolved.

    A family defines the first four members and the abstract methods. The others have defaults, and so have all members
    of :class:`MachineTraits` and :class:`ReportTraits`.

    ``Settings`` is a frozen dataclass, and its fields are the keys under ``settings:`` in a search space. Nested
    dataclasses are allowed. Its ``__post_init__`` raises :class:`SettingsError` for settings that cannot be used.
    """

    name: ClassVar[str]
    """Part of every run's key: no other family may have the same name."""
    version: ClassVar[int]
    """Part of every run's key: raise it when a change alters what the same settings compute."""
    size_axis: ClassVar[str]
    """Meaning of a size (``n_embed``), as the name of a parameter in records and of an axis in figures."""
    Settings: ClassVar[type]

    tunable: ClassVar[tuple[str, ...]] = ()
    """Settings that may be tuned for each mix, by dotted name: numbers that affect how well a run trains, not what it
    learns or may spend."""
    parts: ClassVar[tuple[str, ...]] = ()
    """Parts of a model that a phase may freeze or take over from the previous phase. If empty, arms have one phase."""
    resizable: ClassVar[tuple[str, ...]] = ()
    """Parts that a phase may take over from a model of another size."""

    def __init__(self, settings: Any) -> None:
        self.settings = settings

    @abstractmethod
    def tasks(self) -> tuple[str, ...]:
        """Return the names of the tasks that a mix may contain."""

    @abstractmethod
    def parameters(self, size: float) -> Parameters:
        """Return parameter counts in closed form; ``size`` may be fractional (an interpolated transition)."""

    @abstractmethod
    def scaled(self, steps: float, examples: float) -> Any:
        """Return the settings with ``steps`` times the optimizer steps and ``examples`` times the training examples.

        Both factors are positive; a factor of 1 changes nothing. The learning-rate schedule stretches with the steps.
        Raises :class:`SettingsError` if the other settings do not fit so few steps.
        """

    @abstractmethod
    def steps(self, run: RunConfig) -> int:
        """Return the maximum number of optimizer steps of a run."""

    @abstractmethod
    def flops(self, run: RunConfig) -> float:
        """Return the maximum number of floating-point operations of a run. Cost estimates are based on it."""

    @abstractmethod
    def shape(self, run: RunConfig) -> str:
        """Return the shape of a run. Runs of equal shape can train in one stack."""

    @abstractmethod
    def learner(self, runs: Sequence[RunConfig], *, device: str, cache: Path) -> Learner:
        """Return a learner for a stack of runs of equal shape, at step 0, on a torch device (``cpu``, ``cuda``).

        ``cache`` is a directory on this node for data that several runs share. Data are made once and memory-mapped.
        """

    def config(self, arm: Arm, size: int, seed: int, tuned: Mapping[str, float] | None = None) -> RunConfig:
        """Return the run of an arm at this size and seed: the arm's last phase, with earlier phases in its ``start``.

        The arm's budget scales steps and examples. ``tuned`` replaces settings, by dotted name. A phase without steps
        is skipped, and the next phase starts from new weights.
        """
        family = type(self)(self.adjusted(tuned)) if tuned else self
        run: RunConfig | None = None
        for number, phase in enumerate(arm.phases, start=1):
            if phase.share:
                # Reuse unscaled settings as they are: settings read from disk may not pass today's validation.
                steps = arm.budget * phase.share
                settings = family.settings if steps == arm.budget == 1 else family.scaled(steps, arm.budget)
                start = None if run is None else Start(run, phase.takes)
                label = arm.name if phase is arm.phases[-1] else f"{arm.name}, phase {number}"
                width = size if phase.size is None else phase.size
                run = RunConfig(phase.mix, width, seed, settings, label, start, phase.frozen)
        assert run is not None, "an arm's last phase has steps"
        return run

    def key(self, run: RunConfig) -> str:
        """Return the run's identity: a hash of the family, its version and everything that changes the mathematics."""
        return run_key(self.name, self.version, run)

    # Members that have defaults.

    def check(self, mix: Mix, size: int) -> None:
        """Raise :class:`SettingsError` unless these settings can train a run of this mix and size."""

    def warnings(self, sizes: Sequence[int]) -> list[str]:
        """Return caveats about results with these settings and sizes, which `plan` and `explain` print."""
        return []

    def adjusted(self, values: Mapping[str, float]) -> Any:
        """Return the settings with other values, by dotted name. Whole numbers are rounded.

        Raises:
            SettingsError: A value cannot be used.
            AttributeError: There is no setting of that name.
        """
        return _replaced(self.settings, values)


def _replaced(settings: Any, values: Mapping[str, float]) -> Any:
    """Return a dataclass with other values. They are replaced together, because a new value may not fit an old one."""
    inner: dict[str, dict[str, float]] = {}
    for path, value in values.items():
        name, _, rest = path.partition(".")
        inner.setdefault(name, {})[rest] = value
    changes: dict[str, Any] = {}
    for name, new in inner.items():
        old = getattr(settings, name)
        if "" not in new:
            changes[name] = _replaced(old, new)
        else:
            changes[name] = round(new[""]) if isinstance(old, int) else float(new[""])
    return replace(settings, **changes)
