"""Runs: their configuration, outcome and key."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from numpy.typing import NDArray

from trainables.contract.arms import Mix
from trainables.contract.settings import described_fields

KEY_DIGITS = 16
"""Hex digits of a run's key: 64 bits, so a clash among a million runs has a probability below 1e-7."""


@dataclass(frozen=True)
class RunConfig:
    """One run: a mix, a size, a seed, and every setting that changes its mathematics.

    The key of a run omits ``arm``, which is only a name. It also omits device, stack, retries and target, which change
    a result at most by floating-point rounding.

    Attributes:
        settings: The family's frozen dataclass. It includes the run's budget.
        start: Run from whose weights this run continues, or None for new weights.
        frozen: Parts of the model that do not train.
        until: Rule that ends the run early, or None. The engine applies it, and families ignore it.
        salt: Text that changes only the key, so that an equal earlier run is not reused.
    """

    mix: Mix
    size: int
    seed: int
    settings: Any
    arm: str = ""
    start: Start | None = None
    frozen: tuple[str, ...] = ()
    until: Until | None = None
    salt: str = ""

    @property
    def label(self) -> str:
        """The name of the run's arm, or its mix if the arm has no name."""
        return self.arm or self.mix.name

    @property
    def phases(self) -> tuple[RunConfig, ...]:
        """The runs of all phases up to this one, in order."""
        return (*(self.start.donor.phases if self.start is not None else ()), self)


@dataclass(frozen=True)
class Start:
    """Weights to start from: the parts ``takes`` of the model of the finished run ``donor``."""

    donor: RunConfig
    takes: tuple[str, ...]


def salted(run: RunConfig, salt: str) -> RunConfig:
    """Return the run, and the phases before it, with this salt."""
    if not salt:
        return run
    start = run.start and replace(run.start, donor=salted(run.start.donor, salt))
    return replace(run, start=start, salt=salt)


def run_key(family: str, version: int, run: RunConfig) -> str:
    """Return a hash of a family's name and version and of everything that changes the mathematics of a run."""
    described: dict[str, Any] = {
        "family": family,
        "version": version,
        "mix": {task: round(share, 12) for task, share in zip(run.mix.tasks, run.mix.shares, strict=True)},
        "size": run.size,
        "seed": run.seed,
        "settings": described_fields(run.settings),
    }
    if run.start is not None:
        donor = run_key(family, version, run.start.donor)
        described["start"] = {"donor": donor, "takes": sorted(run.start.takes)}
    rare = {"frozen": sorted(run.frozen), "until": run.until and asdict(run.until), "salt": run.salt}
    described |= {name: value for name, value in rare.items() if value}
    text = json.dumps(described, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]


@dataclass(frozen=True)
class Until:
    """An early end: the run's first evaluation at which ``task`` has at least this ``accuracy``, in (0, 1]."""

    task: str
    accuracy: float

    def reached(self, evaluation: Evaluation) -> bool:
        """Return True if an evaluation ends the run."""
        return evaluation.accuracy[self.task] >= self.accuracy


class Status(StrEnum):
    """End of a run. A diverged run is data: the model did not learn at this size. A failed run is a bug."""

    FINISHED = "finished"
    DIVERGED = "diverged"
    FAILED = "failed"


@dataclass(frozen=True)
class Evaluation:
    """One point of a learning curve, on the validation part of the held-out data.

    Attributes:
        step: Number of optimizer steps so far.
        loss: Mean training loss since the previous evaluation, in the family's unit (nats per token for a language
            model).
        accuracy: Share in [0, 1] for each task of the mix.
        measures: Further numbers to plot, by name (a gradient's norm, parts of the loss).
    """

    step: int
    loss: float
    accuracy: dict[str, float]
    measures: Mapping[str, float] = field(default_factory=dict)


def settled_measure(task: str) -> str:
    """Return the name of a measure of a settled task: 1 if the task was learned, 0 if it was given up."""
    return f"settled_{task}"


@dataclass(frozen=True)
class Outcome:
    """Result of a run.

    Attributes:
        accuracy: Score of each task of the mix on the test part of the held-out data, in [0, 1]. A diverged run has the
            ``floor``. It is empty for a failed run, and for a run that ended because of ``until``.
        floor: Score of the best constant answer on the same data, by task. Empty for a run that ended because of
            ``until``.
        measures: Further numbers to record: ``seconds`` of training, by which searchers weigh sizes,
            ``test_examples_add``, ``test_cases_add``, ... If the run ended early because its outcome was settled, it
            has a :func:`settled_measure` for each settled task.
        error: Traceback of a failed run.
        data: Hash of all training and test data, at most 36 characters. Empty if there are no data.
    """

    status: Status
    steps: int
    accuracy: dict[str, float]
    floor: dict[str, float]
    curve: tuple[Evaluation, ...] = ()
    measures: dict[str, float] = field(default_factory=dict)
    error: str = ""
    data: str = ""

    def settled(self, task: str) -> bool | None:
        """Return True if a settled task was learned, False if it was given up, None if it was not settled."""
        value = self.measures.get(settled_measure(task))
        return None if value is None else bool(value)

    def to_json(self) -> dict[str, Any]:
        """Return a dictionary of plain JSON values. :meth:`from_json` is the inverse."""
        return asdict(self) | {"status": self.status.value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Outcome:
        """Read the result of :meth:`to_json`. Raises ``KeyError`` or ``TypeError`` for anything else."""
        curve = tuple(Evaluation(**point) for point in data["curve"])
        return cls(**{**data, "status": Status(data["status"]), "curve": curve})


@dataclass(frozen=True)
class Report:
    """Report on one run of a stack after the stack trained to its next evaluation.

    Attributes:
        index: Index of the run in the stack as it was built.
        outcome: Result of the run, set once, when the run ends.
        arrays: Arrays for probes, by the family's names, set when the run ends.
        weights: The model's parameters by name, set when the run ends.
        output: Text that the run has printed, of bounded size, to keep with the run.
    """

    index: int
    evaluation: Evaluation | None = None
    outcome: Outcome | None = None
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    weights: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    output: str = ""


@dataclass(frozen=True)
class Parameters:
    """Counts of trainable parameters: ``total``, and ``core`` without parameters that depend only on the data's
    form."""

    total: float
    core: float
