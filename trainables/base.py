"""The contract between a family of models and whatever schedules their training.

A *family* knows how to train models of one kind at any size on any mix of its tasks. The orchestrator knows none of
that: it names runs, hands stacks of them to the family's learner and reads back evaluations and outcomes. Nothing
here imports Ray, MLflow or the orchestrator, so a family can be stepped through in a debugger by itself.

A family outside this repository is any class that subclasses :class:`Family`, named ``package.module:Class``.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar

from numpy.typing import NDArray

from trainables.contract.arms import Arm, Mix
from trainables.contract.runs import Evaluation, Outcome, Parameters, Report, RunConfig, Start, Status, Until, Words
from trainables.contract.settings import SettingsError, described_fields
from trainables.contract.tables import Integers

__all__ = [
    "Arm",
    "Evaluation",
    "Family",
    "Learner",
    "Mix",
    "Outcome",
    "Parameters",
    "Report",
    "RunConfig",
    "SettingsError",
    "Start",
    "Status",
    "Until",
    "Words",
]

KEY_DIGITS = 16
"""Hex digits of a run key: 64 bits, so a clash among a million runs has probability below 1e-7."""


class Learner(ABC):
    """Trains one stack of runs of equal shape as one batched model. Called from one thread only."""

    @abstractmethod
    def advance(self) -> list[Report]:
        """Train every unfinished run to its next evaluation and report on each; ``[]`` once all have ended.

        A run that ends (budget used, solved, diverged) is frozen: nothing that happens to its neighbours later
        changes its outcome.
        """

    def take_over(self, weights: Mapping[int, Mapping[str, NDArray[Any]]]) -> None:
        """Let runs, by their places in the stack, begin with weights of the runs they go on from: of those, what their
        ``start`` takes. Called at most once, at step 0. A family whose arms have one phase needs none."""
        raise NotImplementedError(f"{type(self).__name__} cannot begin with the weights of another run")

    @abstractmethod
    def save(self, directory: Path) -> None:
        """Write a checkpoint into ``directory`` (made if missing), replacing an older one in a single rename."""

    @abstractmethod
    def restore(self, directory: Path) -> None:
        """Continue from a checkpoint of the same stack, bit for bit on the same device, or of a larger one that held
        all of these runs.

        Raises ``FileNotFoundError`` where there is none, ``ValueError`` where it lacks one of the runs.
        """


class Family(ABC):
    """A kind of model and the tasks it is trained on, with its settings resolved.

    ``Settings`` is a frozen dataclass (nested dataclasses allowed) whose ``__post_init__`` raises
    :class:`SettingsError`; its fields are what a search space writes under ``settings:``.
    """

    name: ClassVar[str]
    """Part of every run key, so that no other family may have it."""
    version: ClassVar[int]
    """Part of every run key: raise it when a change alters what the same settings compute."""
    size_axis: ClassVar[str]
    """Meaning of a size (``n_embed``); the name of the parameter in records and of the axis in figures."""
    Settings: ClassVar[type]
    tunable: ClassVar[tuple[str, ...]] = ()
    """Settings that may be tuned for each mix, by dotted name: numbers that decide how well a run is trained, and
    neither what it learns nor what it may spend."""
    parts: ClassVar[tuple[str, ...]] = ()
    """The parts of a model that a phase may take over from the one before, or freeze. Without any, its arms have one
    phase."""
    resizable: ClassVar[tuple[str, ...]] = ()
    """Those of them that a phase may take over from a model of another size."""
    divides_examples: ClassVar[bool] = True
    """True if the tasks of a mix share its examples, so that each sees fewer of its own the more there are."""
    compares_mixes: ClassVar[bool] = True
    """True if a mix's transition is compared with the first mix's; False if each mix is a question of its own."""
    words: ClassVar[Words] = Words()
    """Names of its things, for people."""
    stacks: ClassVar[bool] = True
    """False if every run trains alone: ``learner`` then gets one run at a time."""
    probes: ClassVar[tuple[str, ...]] = ()
    """Probes (trainables/probes/) run on its trained models where a search space names none."""

    def __init__(self, settings: Any) -> None:
        self.settings = settings

    @abstractmethod
    def tasks(self) -> tuple[str, ...]:
        """The names a mix may hold."""

    @abstractmethod
    def check(self, mix: Mix, size: int) -> None:
        """Raise :class:`SettingsError` unless a run of this mix and size can be trained with these settings."""

    def subject(self) -> str:
        """Subject of learning, in a few words for the head of an answer (``modulus 6``); ``""`` leaves it out."""
        return ""

    def items_in_order(self) -> bool:
        """True if the rows of the arrays kept of a model have a meaningful order, as numbers do."""
        return True

    def groupings(self) -> dict[str, tuple[int, ...]]:
        """Ways to divide the items, the rows of the arrays kept of a model, into groups that the tasks know: by name, a
        label an item (``mod2``: 0, 1, 0, 1, ...). Names are those of numbers of probes."""
        return {}

    def grouping_words(self) -> dict[str, str]:
        """Words for items of different groups, by the name of the grouping (``mod2``: ``even and odd numbers``),
        to come before "are apart". A grouping that is missing here goes by its name."""
        return {}

    def tables(self, tasks: Sequence[str], seed: int) -> dict[str, Integers] | None:
        """These tasks as tables, as the runs of a data seed are asked them; None where they are no functions of a few
        items."""
        return None

    @abstractmethod
    def warnings(self, sizes: Sequence[int]) -> list[str]:
        """Warnings about these settings at these sizes, a sentence each, before anything is paid for."""

    @abstractmethod
    def parameters(self, size: float) -> Parameters:
        """Parameter counts in closed form; ``size`` may be fractional (an interpolated transition)."""

    @abstractmethod
    def scaled(self, steps: float, examples: float) -> Any:
        """The settings with ``steps`` times the optimizer steps and ``examples`` times the training examples.

        Both are positive; what is 1 stays as it is. The schedule of the learning rate is stretched with the steps.
        Raises :class:`SettingsError` where the other settings do not fit so few steps.
        """

    def adjusted(self, values: Mapping[str, float]) -> Any:
        """The settings with other values, by dotted name; whole numbers are rounded.

        Raises :class:`SettingsError` for a value that cannot be used, ``AttributeError`` for an unknown name.
        """
        settings = self.settings
        for path, value in values.items():
            settings = _replaced(settings, path.split("."), value)
        return settings

    @abstractmethod
    def steps(self, run: RunConfig) -> int:
        """Optimizer steps a run takes at most."""

    @abstractmethod
    def flops(self, run: RunConfig) -> float:
        """Floating-point operations a run takes at most: the basis of cost estimates."""

    @abstractmethod
    def shape(self, run: RunConfig) -> str:
        """Runs with equal shapes can be trained in one stack."""

    @abstractmethod
    def learner(self, runs: Sequence[RunConfig], *, device: str, cache: Path) -> Learner:
        """A learner for a stack of runs of equal shape, at step 0.

        ``cache`` is a directory on this node for data that several runs share (made once, memory-mapped).
        ``device`` is a torch device name (``cpu``, ``cuda``).
        """

    def load(self, run: RunConfig, weights: Mapping[str, NDArray[Any]]) -> Any:
        """The trained model of a run from the weights it left, on the CPU, ready to be asked and not to be trained.

        What it is, is the family's own: whoever asks for it knows the family. Raises ``ValueError`` for weights of
        another shape, ``NotImplementedError`` where the family does not load models.
        """
        raise NotImplementedError(f"the family {self.name!r} does not load models: it has no method load(run, weights)")

    def data(self, run: RunConfig, cache: Path) -> Any:
        """Data that a run was trained and scored on, from ``cache`` or made there; its form is the family's own.

        Raises ``NotImplementedError`` where the family does not hand it out.
        """
        raise NotImplementedError(f"the family {self.name!r} hands out no data: it has no method data(run, cache)")

    def training_step(self, device: str) -> str:
        """Return the name of the code that trains on this device here, "" if there is no choice."""
        return ""

    def memory(self, size: int) -> float:
        """Bytes of memory each run of a stack needs at its peak, rather too many than too few; 0 where not known."""
        return 0.0

    def config(self, arm: Arm, size: int, seed: int, tuned: Mapping[str, float] | None = None) -> RunConfig:
        """The run of this family at (arm, size, seed): the arm's budget in steps and examples, and ``tuned`` settings
        by dotted name.

        Every phase of an arm is a run, which goes on from the one before; this is the last. Phases without steps are
        left out: what would follow them begins anew.
        """
        family = type(self)(self.adjusted(tuned)) if tuned else self
        run: RunConfig | None = None
        for place, phase in enumerate(arm.phases, start=1):
            if phase.share:
                # What stays as it is is not made anew: settings read from disk keep to the rules of their own time.
                steps = arm.budget * phase.share
                settings = family.settings if steps == arm.budget == 1 else family.scaled(steps, arm.budget)
                start = None if run is None else Start(run, phase.takes)
                label = arm.name if phase is arm.phases[-1] else f"{arm.name}, phase {place}"
                width = size if phase.size is None else phase.size
                run = RunConfig(phase.mix, width, seed, settings, label, start, phase.frozen)
        assert run is not None, "an arm's last phase has steps"
        return run

    def key(self, run: RunConfig) -> str:
        """The run's identity: a hash of the family, its version and everything that changes the mathematics."""
        described: dict[str, Any] = {
            "family": self.name,
            "version": self.version,
            "mix": {task: round(share, 12) for task, share in zip(run.mix.tasks, run.mix.shares, strict=True)},
            "size": run.size,
            "seed": run.seed,
            "settings": described_fields(run.settings),
        }
        if run.start is not None:
            described["start"] = {"donor": self.key(run.start.donor), "takes": sorted(run.start.takes)}
        if run.frozen:
            described["frozen"] = sorted(run.frozen)
        if run.until is not None:
            described["until"] = asdict(run.until)
        if run.salt:
            described["salt"] = run.salt
        text = json.dumps(described, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]


def _replaced(settings: Any, path: Sequence[str], value: float) -> Any:
    """A dataclass with the number at ``path`` inside it replaced."""
    old = getattr(settings, path[0])
    if len(path) > 1:
        return replace(settings, **{path[0]: _replaced(old, path[1:], value)})
    return replace(settings, **{path[0]: round(value) if isinstance(old, int) else float(value)})


def find(name: str, built_in: Mapping[str, str], *, kind: str, key: str) -> object:
    """The object that ``name`` stands for, directly or through ``built_in``.

    ``kind`` is what is looked for, in a word. Raises :class:`SettingsError` (with ``key``) for a name of neither form,
    for a module that cannot be imported, and for one that has no such name.
    """
    module_name, colon, class_name = built_in.get(name, name).partition(":")
    if not colon:
        raise SettingsError(
            f"there is no {kind} {name!r}; give a built-in one or package.module:Class",
            key=key,
            given=name,
            allowed=tuple(built_in),
        )
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # The module may be a user's, and may raise anything while it is imported.
        raise SettingsError(_import_message(kind, name, module_name, error), key=key, given=name) from error
    if not hasattr(module, class_name):
        own = [each for each, value in vars(module).items() if getattr(value, "__module__", "") == module_name]
        there = tuple(f"{module_name}:{each}" for each in own if isinstance(getattr(module, each), type))
        raise SettingsError(f"{module_name} has no {class_name!r}", key=key, given=name, allowed=there)
    found: object = getattr(module, class_name)
    return found


def _import_message(kind: str, name: str, module_name: str, error: Exception) -> str:
    """Return why a module cannot be imported: it does not exist, or it raises."""
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing and f"{module_name}.".startswith(f"{missing}."):
        where = "put it next to the search space, or add its folder to PYTHONPATH"
        return f"{kind} {name!r} cannot be imported: there is no module {missing!r}; {where}"
    return f"{kind} {name!r} cannot be imported: {type(error).__name__}: {error}"


BUILT_IN = {
    "listops": "trainables.tasks.listops:ListOps",
    "permutations": "trainables.tasks.permutations:Permutations",
    "heat_diffusion": "trainables.reparametrization.family:HeatDiffusion",
    "synchronization": "trainables.reparametrization.family:Synchronization",
    "persistent_homology": "trainables.reparametrization.family:PersistentHomology",
}
"""Short names of the families that come with the project."""


def load_family(name: str) -> type[Family]:
    """The class a search space names: a built-in family or ``package.module:Class``.

    Raises :class:`SettingsError` (key ``family``) for anything that is no :class:`Family`, and for one without a name
    of its own: keys would take its runs for those of the class that it inherits the name from.
    """
    found = find(name, BUILT_IN, kind="family", key="family")
    if not (isinstance(found, type) and issubclass(found, Family)):
        raise SettingsError(f"{name!r} is not a subclass of trainables.base.Family", key="family", given=name)
    if "name" not in vars(found):
        raise SettingsError(f"{name!r} needs a `name` of its own: runs are kept by it", key="family", given=name)
    return found
