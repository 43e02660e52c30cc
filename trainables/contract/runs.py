"""Runs: what is asked of one, what is known of it in the end, and the words people read of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from numpy.typing import NDArray

from trainables.contract.arms import Mix


@dataclass(frozen=True)
class Words:
    """Words for things, for people.

    ``size`` is what ``Family.size_axis`` counts; ``task`` is one of the things that a mix is made of; ``item`` what a
    row of the arrays kept of a model stands for, and ``held`` what those rows are. All in the form that fits after
    "unknown" or "without". ``cyclic`` says that rows stand for the numbers modulo their count, so that a number's
    residues mean something; ``run`` is what one run makes;
    ``parameters`` are what :class:`Parameters` counts. ``score`` is a share of 1 that says how good a run is,
    ``final_score`` that by which it is judged in the end; to come to enough of it is to ``learn``, to have come there
    ``learned``.
    """

    size: str = "size"
    task: str = "task"
    item: str = "item"
    cyclic: bool = False
    held: str = "what models hold"
    parameters: str = "parameters"
    run: str = "model"
    score: str = "accuracy"
    final_score: str = "test accuracy"
    learn: str = "learn"
    learned: str = "learned"


@dataclass(frozen=True)
class RunConfig:
    """One run: a cell (mix, size) with one seed, and every setting that changes its mathematics.

    ``settings`` is the family's own frozen dataclass, the run's budget in it. Device, stack, retries and the sweep's
    target are not part of it: they do not change what is computed (beyond float rounding), so they do not change the
    key; nor is ``arm``, the sweep's name for the run's arm.

    A run that goes on from another one says from which in ``start``; ``frozen`` are the parts of its model that keep
    their first values. ``until`` says how much of the run is wanted, where that is not all of it. Its family does not
    look at that: whoever trains the run ends it. ``salt`` changes the key and nothing else: a run with one is not taken
    for another of the same mathematics.
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
        """Name of the run's arm: its label, else its mix."""
        return self.arm or self.mix.name

    @property
    def phases(self) -> tuple[RunConfig, ...]:
        """The runs it goes on from, the first phase first, and itself."""
        return (*(self.start.donor.phases if self.start is not None else ()), self)


@dataclass(frozen=True)
class Start:
    """Weights that a run begins with in place of new ones: of the finished run ``donor``, the parts of its model that
    ``takes`` names."""

    donor: RunConfig
    takes: tuple[str, ...]


def salted(run: RunConfig, salt: str) -> RunConfig:
    """The run, and those it goes on from, with this salt."""
    if not salt:
        return run
    start = run.start and replace(run.start, donor=salted(run.start.donor, salt))
    return replace(run, start=start, salt=salt)


@dataclass(frozen=True)
class Until:
    """A run is wanted up to its first evaluation at which ``task`` has at least this ``accuracy``, in (0, 1]."""

    task: str
    accuracy: float

    def reached(self, evaluation: Evaluation) -> bool:
        """True if the run ends at this point of its learning curve."""
        return evaluation.accuracy[self.task] >= self.accuracy


class Status(StrEnum):
    """End of a run. Diverged is data (the model did not learn at this size); failed is a bug, and no data."""

    FINISHED = "finished"
    DIVERGED = "diverged"
    FAILED = "failed"


@dataclass(frozen=True)
class Evaluation:
    """One point of a learning curve: after ``step`` optimizer steps, on the validation part of the held-out data.

    ``loss`` is the mean training loss since the last evaluation, in the family's unit (nats a token for a language
    model); ``accuracy`` maps each task of the mix to a share in [0, 1]; ``measures`` are further numbers worth a curve
    by their names (a gradient's norm, parts of the loss), which may be named like anything else.
    """

    step: int
    loss: float
    accuracy: dict[str, float]
    measures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run.

    ``accuracy`` maps each task of the mix to its score on the test part of the held-out data, in [0, 1]; for a
    diverged run it equals ``floor``, the score of the best constant answer on the same test set. ``measures`` are
    further numbers worth recording (``seconds`` of training, by which a search and its estimates weigh sizes;
    ``test_examples_add``, ``test_cases_add``, ...). ``error`` is the traceback of a failed run, whose ``accuracy`` is
    empty. ``data`` is a hash (at most 36 characters) of the content of everything the run was trained and scored on,
    ``""`` where its family has none.

    A run that ended where it was wanted ``until`` was not scored on the test part: ``accuracy`` and ``floor`` are
    empty, and ``curve`` tells how it went.
    """

    status: Status
    steps: int
    accuracy: dict[str, float]
    floor: dict[str, float]
    curve: tuple[Evaluation, ...] = ()
    measures: dict[str, float] = field(default_factory=dict)
    error: str = ""
    data: str = ""

    def to_json(self) -> dict[str, Any]:
        """A dictionary of plain JSON values; :meth:`from_json` is its inverse."""
        return asdict(self) | {"status": self.status.value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Outcome:
        """Read what :meth:`to_json` wrote. Raises ``KeyError`` or ``TypeError`` for anything else."""
        curve = tuple(Evaluation(**point) for point in data["curve"])
        return cls(**{**data, "status": Status(data["status"]), "curve": curve})


@dataclass(frozen=True)
class Report:
    """Report of one run of a stack after the stack advanced to its next evaluation.

    ``index`` is the run's place in the stack as it was built. ``outcome`` and ``arrays`` are set once, when the run
    ends; ``arrays`` are what is kept of the trained model for a look inside, by names of the family's own; ``weights``
    are its parameters by name.
    """

    index: int
    evaluation: Evaluation | None = None
    outcome: Outcome | None = None
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    weights: Mapping[str, NDArray[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Parameters:
    """Trainable parameters of a model: all of them, and those of its body (``core``), without what depends on the form
    of the data rather than on what is learned."""

    total: float
    core: float
