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
from typing import Any, ClassVar, NamedTuple

from numpy.typing import NDArray

from trainables.contract.arms import Arm, Mix
from trainables.contract.runs import Parameters, Report, RunConfig, Start, run_key
from trainables.contract.tables import Integers
from trainables.contract.words import Words


class Learner(ABC):
    """Trains one stack of runs of equal shape as one batched model. Only one thread calls it."""

    @abstractmethod
    def advance(self) -> list[Report]:
        """Train every unfinished run to its next evaluation and report on each.

        Return an empty list once all runs have ended. A run that ends (budget used, solved, diverged) is frozen: later
        events in the stack do not change its outcome.
        """

    def train_for(self, seconds: float) -> bool:
        """Train for about ``seconds`` (above 0), but not past the next evaluation. Return True if the evaluation is
        due.

        The engine can then write checkpoints even if evaluations are far apart. Results do not change. A learner that
        cannot be saved between evaluations does nothing and returns True, as by default.
        """
        return True

    def steps_so_far(self) -> int:
        """Return the steps that every unfinished run has trained, including steps since its last evaluation, or 0 if
        unknown."""
        return 0

    @abstractmethod
    def save(self, directory: Path) -> None:
        """Write a checkpoint into ``directory``. Create the directory if it is missing, and replace an older checkpoint
        in a single rename."""

    @abstractmethod
    def restore(self, directory: Path) -> None:
        """Continue from a checkpoint, bit for bit on the same device. The checkpoint may be of a larger stack.

        Raises:
            FileNotFoundError: There is no checkpoint.
            ValueError: The checkpoint lacks one of the runs.
        """

    def take_over(self, weights: Mapping[int, Mapping[str, NDArray[Any]]]) -> None:
        """Start runs, by their index in the stack, from the weights of the previous phase.

        Take only the parts that a run's ``start`` names. This is called at most once, at step 0, for arms of several
        phases.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot start from the weights of another run")

    def work_in(self, directory: Path) -> None:  # noqa: B027 - most learners keep everything in memory
        """Use a directory for files that must survive a kill of this process, such as the checkpoints of a script.

        The directory may be missing, or contain the files of an earlier, killed learner of the same runs. This is
        called at most once, before :meth:`advance`. The caller removes the directory when all runs have ended.
        """

    def close(self) -> None:  # noqa: B027 - most learners have nothing to end
        """End everything that the learner has started, such as processes, and free its memory.

        This is called once, however the stack ends: finished, stopped, failed, interrupted or continued by another
        learner. No other method is called afterwards.
        """


class Speed(NamedTuple):
    """Operations per second of a large model, and the parameters at which overhead halves that rate."""

    flops_per_s: float
    half_parameters: float

    def seconds(self, flops: float, parameters: float) -> float:
        """Return the seconds that ``flops`` take with a model of this many ``parameters``."""
        return flops / (self.flops_per_s * parameters / (parameters + self.half_parameters))


class Family(ABC):
    """A kind of model and its tasks, with its settings resolved.

    A family defines the first four members and the abstract methods. The others have defaults. ``Settings`` is a frozen
    dataclass, and its fields are the keys under ``settings:`` in a search space. Nested dataclasses are allowed. Its
    ``__post_init__`` raises :class:`SettingsError` for settings that cannot be used.
    """

    name: ClassVar[str]
    """Part of every run's key: no other family may have the same name."""
    version: ClassVar[int]
    """Part of every run's key: raise it when a change alters what the same settings compute."""
    size_axis: ClassVar[str]
    """Meaning of a size (``n_embed``), as the name of a parameter in records and of an axis in figures."""
    Settings: ClassVar[type]

    # How runs train.
    stacks: ClassVar[bool] = True
    """False if every run trains alone: ``learner`` then gets one run at a time."""
    resumes: ClassVar[bool] = True
    """False if a killed run begins again at its first step, so that its checkpoints save no training."""
    tunable: ClassVar[tuple[str, ...]] = ()
    """Settings that may be tuned for each mix, by dotted name: numbers that affect how well a run trains, not what it
    learns or may spend."""
    parts: ClassVar[tuple[str, ...]] = ()
    """Parts of a model that a phase may freeze or take over from the previous phase. If empty, arms have one phase."""
    resizable: ClassVar[tuple[str, ...]] = ()
    """Parts that a phase may take over from a model of another size."""

    # For reports.
    compares_mixes: ClassVar[bool] = True
    """True if each mix is compared with the first mix. False if each mix is a separate question, such as a race."""
    items_in_order: ClassVar[bool] = True
    """True if the items (the rows of a model's arrays) have a meaningful order, as numbers do."""
    words: ClassVar[Words] = Words()
    """The family's nouns and verbs for reports."""
    probes: ClassVar[tuple[str, ...]] = ()
    """Default probes (trainables/probes/) of a search space that lists none."""

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

    def check(self, mix: Mix, size: int) -> None:  # noqa: B027 - by default every run can be trained
        """Raise :class:`SettingsError` unless these settings can train a run of this mix and size."""

    def warnings(self, sizes: Sequence[int]) -> list[str]:
        """Return caveats about results with these settings and sizes, which `plan` and `explain` print."""
        return []

    def training_step(self, device: str) -> str:
        """Return the name of the code that trains on this device, or an empty string if there is no choice."""
        return ""

    def slowness(self, device: str) -> str:
        """Return why this machine trains more slowly on this device than it could, and the remedy.

        Return an empty string if it does not.
        """
        return ""

    def speed(self, device: str) -> Speed | None:
        """Return the speed of a core or a GPU, for estimates of time, or None to assume the speed of torch."""
        return None

    def typical_speed(self, device: str) -> Speed | None:
        """Return the speed by which a search weighs runs, or None to weigh them by measured seconds.

        It must be the same on every machine, so that a search requests the same runs.
        """
        return None

    def check_files(self) -> None:  # noqa: B027 - most families need no files
        """Raise :class:`SettingsError` if a file or program that training needs is missing on this machine.

        This is called before a sweep starts, but not when a stored sweep is read.
        """

    def check_device(self, device: str) -> None:  # noqa: B027 - most families train on any device
        """Raise :class:`SettingsError` if this device cannot train with the settings."""

    def compiles(self, device: str) -> bool:
        """Return True if ``learner`` compiles on this device. That is slow, happens once per shape, and is cached for
        other processes."""
        return False

    def memory(self, size: int) -> float:
        """Return one run's peak memory in a stack, in bytes rounded up, or 0 if unknown."""
        return 0.0

    def adjusted(self, values: Mapping[str, float]) -> Any:
        """Return the settings with other values, by dotted name. Whole numbers are rounded.

        Raises:
            SettingsError: A value cannot be used.
            AttributeError: There is no setting of that name.
        """
        return _replaced(self.settings, values)

    def subject(self) -> str:
        """Return the subject of the tasks in a few words, such as ``modulus 6``, for the heading of an answer.

        Return an empty string to omit it.
        """
        return ""

    def groupings(self) -> dict[str, tuple[int, ...]]:
        """Return groupings of the items that matter to the tasks: a label per item (0, 1, 0, 1, ...), by name.

        A name such as ``mod2`` becomes part of the names of probes' numbers.
        """
        return {}

    def grouping_words(self) -> dict[str, str]:
        """Return the noun phrase for items of different groups, by grouping: ``even and odd numbers`` for ``mod2``.

        Reports write "are apart" after it. For a grouping without a phrase, they use its name.
        """
        return {}

    def tables(self, tasks: Sequence[str], seed: int) -> dict[str, Integers] | None:
        """Return the tasks as tables (contract/tables.py) for a data seed, or None if they are not functions of
        items."""
        return None

    def load(self, run: RunConfig, weights: Mapping[str, NDArray[Any]]) -> Any:
        """Return a run's trained model from its weights, on the CPU. The family chooses the type of the model.

        Raises ``ValueError`` for weights of another shape.
        """
        raise NotImplementedError(f"the family {self.name!r} does not load models: it has no method load(run, weights)")

    def data(self, run: RunConfig, cache: Path) -> Any:
        """Return a run's training and test data, from ``cache`` or made there. The family chooses their type."""
        raise NotImplementedError(f"the family {self.name!r} does not expose data: it has no method data(run, cache)")


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
