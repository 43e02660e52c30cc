"""The contract of a searcher: which runs are wanted next, given what is known.

A searcher is ask/tell and knows no Ray, no clock and no files. Its whole state is the results, what it asked for
(blocks in order) and which mixes were stopped: every decision is a pure function of these, so results may come in any
order, twice, or from a journal, and the same results lead to the same decisions.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal, Self

from orchestrator.transition.evidence import ERROR, LEARNED, Block
from trainables.contract.settings import SettingsError

AUTO: Final = "auto"
"""For a value that a rule decides before the sweep (orchestrator/stacks.py)."""
BY_HAND: Final = "stopped by hand"
"""Of a mix or run that a person stopped."""


@dataclass(frozen=True, order=True)
class Request:
    """A run that is wanted: one cell (mix, size) with one seed.

    With ``phase`` above 0 it is that phase of the run, which a later one continues: no searcher asks for it, and none
    gets its result.

    ``values`` are settings by dotted name that the run has in the place of its mix's own. With ``until`` the run is
    wanted up to its first evaluation at which the target has that accuracy, in (0, 1], and no further.
    """

    mix: str
    size: int
    seed: int
    phase: int = 0
    values: tuple[tuple[str, float], ...] = ()
    until: float | None = None

    @property
    def is_evidence(self) -> bool:
        """True if the outcome is evidence of the mix's transition: the run is trained whole. (For runs that ended,
        orchestrator/space/evidence.py decides the same.)"""
        return not self.phase and self.until is None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Request:
        """Return a request from its fields as plain values, of which JSON has made lists.

        Raises:
            TypeError: for other fields.
            ValueError: for a run of several times the steps, which earlier versions had.
        """
        fields = dict(data)
        if fields.pop("steps_factor", 1) != 1:
            raise ValueError("a run of several times the steps, an audit that this version does not have")
        fields["values"] = tuple((name, value) for name, value in fields.get("values", ()))
        return cls(**fields)


@dataclass(frozen=True)
class Observation:
    """A finished run's evidence about the target: its test accuracy, the floor of its test set (both in [0, 1]) and
    what the run cost in seconds on its device (0 where unknown)."""

    accuracy: float
    floor: float
    cost: float = 0.0


Results = Mapping[Request, Observation | None]
"""Results by run. None stands for a failed run, which is not asked for again."""


@dataclass(frozen=True)
class Problem:
    """The question searched.

    Attributes:
        mixes: Mixes by name.
        sizes: Candidate sizes, ascending.
        seeds: Seeds in the order they are used.
        comparisons: Each mix that is compared, with its baseline.
        parameters: Parameters of a model of each size; without them the square of the size.
    """

    mixes: tuple[str, ...]
    sizes: tuple[int, ...]
    seeds: tuple[int, ...]
    comparisons: tuple[tuple[str, str], ...] = ()
    parameters: tuple[float, ...] = ()

    def counts(self) -> dict[int, float]:
        """Return the parameters of a model of each size."""
        return dict(zip(self.sizes, self.parameters or [float(size) ** 2 for size in self.sizes], strict=True))


@dataclass(frozen=True)
class MixProgress:
    """The state of the search for one mix.

    ``low`` is the largest size that did not learn and ``high`` the smallest that did, None while unknown.
    ``runs_left`` is an upper bound on the runs still to come. ``note`` describes the state in a few words.
    """

    mix: str
    low: int | None
    high: int | None
    runs_left: int
    done: bool
    note: str


@dataclass(frozen=True)
class SearchSettings:
    """Settings under ``search:`` for every method."""

    stack: int | Literal["auto"] = AUTO
    """Most seeds to ask for together at one size. The engine trains them as one batched model, at little more than
    the cost of one. ``auto`` leaves the number to the engine, and is 1 without one."""

    def __post_init__(self) -> None:
        if self.stack != AUTO and not 1 <= self.stack <= 4096:
            raise SettingsError(
                f"search.stack is {self.stack!r}; it must lie between 1 and 4096, or be auto.", key="stack"
            )


@dataclass(frozen=True)
class EvidenceSettings(SearchSettings):
    """Settings under ``search:`` of the methods whose runs are evidence for a comparison.

    Choose them before the first run: evidence under a bar that was chosen afterwards means nothing.
    """

    error: float = ERROR
    """Probability of a decision if nothing differs; evidence of 1 / error decides. Choose it before the first run."""
    learned: float = LEARNED
    """A run learned if it scores this share of what can be scored above the best constant answer. Choose it before the
    first run."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("error", self.error, 1e-6, 0.5)
        check_range("learned", self.learned, 0.05, 1.0)


def check_range(name: str, value: float, least: float, most: float) -> None:
    """Raise ``SettingsError`` unless a setting of ``search:`` lies between two values."""
    if not least <= value <= most:
        rule = f"be at least {least:g}" if most == math.inf else f"lie between {least:g} and {most:g}"
        raise SettingsError(f"search.{name} is {value!r}; it must {rule}.", key=name)


class Searcher(ABC):
    """Chooses runs. Subclasses decide in :meth:`choose` and :meth:`progress`; all bookkeeping is here.

    ``Settings`` is a frozen dataclass of what can be set, refusing unknown fields; its values come as keywords.

    :attr:`blocks` are the pairs of runs asked for as evidence, in the order asked
    (:mod:`orchestrator.transition.evidence`). They are part of the state: :meth:`restore` continues after them.
    """

    Settings: ClassVar[type[SearchSettings]]
    settings: SearchSettings

    def __init__(self, problem: Problem, **settings: Any) -> None:
        self.problem = problem
        self.settings = self.Settings(**settings)
        self._results: dict[Request, Observation | None] = {}
        self._pending: dict[Request, None] = {}
        self._stopped: frozenset[str] = frozenset()
        self._blocks: tuple[Block, ...] = ()

    @abstractmethod
    def choose(self, results: Results, pending: Sequence[Request], limit: int) -> Sequence[Request | Block]:
        """Return the runs to start now, most wanted first: none known or pending, none of a mix in :attr:`stopped`.

        A block stands for those of its two runs that are neither known nor pending; there may be none. All together are
        at most ``limit`` runs, or one more so that a block is whole. Pure, given :attr:`blocks` and :attr:`stopped`.
        """

    @abstractmethod
    def progress(self) -> list[MixProgress]:
        """Return the state of each mix, in the problem's order."""

    @property
    def stack(self) -> int:
        """The most runs to ask for together at one size."""
        return 1 if self.settings.stack == AUTO else self.settings.stack

    @property
    def results(self) -> Results:
        """Results of the runs that ended."""
        return self._results

    @property
    def pending(self) -> tuple[Request, ...]:
        """The runs that were asked for and have not ended."""
        return tuple(self._pending)

    @property
    def stopped(self) -> frozenset[str]:
        """Mixes that a person stopped: no more runs of them are wanted."""
        return self._stopped

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks asked for, in order."""
        return self._blocks

    @property
    def done(self) -> bool:
        """True when nothing is pending and nothing more is wanted."""
        return not self._pending and not self.choose(self._results, (), 1)

    def ask(self, limit: int) -> list[Request]:
        """Return up to ``limit`` runs to start now, or one more so that a block is whole.

        An empty list means wait for results, or, with :attr:`done`, stop.
        """
        if limit < 1:
            return []
        wanted = self.choose(self._results, self.pending, limit)
        self._blocks += tuple(item for item in wanted if isinstance(item, Block))
        requests = self._missing(wanted)
        self._pending.update(dict.fromkeys(requests))
        return requests

    def tell(self, request: Request, observation: Observation | None) -> None:
        """Record how a run ended (None: it failed). The first result of a run counts; later ones change nothing.

        Runs that were never asked for are accepted: a resumed or extended sweep passes on what its journal has.
        """
        self._pending.pop(request, None)
        self._results.setdefault(request, observation)

    def restore(self, blocks: Iterable[Block]) -> None:
        """Continue after blocks that an earlier searcher asked for, in this order."""
        self._blocks = tuple(dict.fromkeys((*blocks, *self._blocks)))

    def stop(self, mix: str) -> None:
        """Want no more runs of a mix, and wait for none. Its results, also later ones, are kept."""
        self._stopped |= {mix}
        for request in [request for request in self._pending if request.mix == mix]:
            del self._pending[request]

    def as_stopped(self, found: MixProgress) -> MixProgress:
        """Return the state of the search for a mix, taking a stop by hand into account."""
        if found.mix not in self._stopped:
            return found
        return replace(found, runs_left=0, done=True, note=BY_HAND)

    def branch(self) -> Self:
        """Return an independent copy. Results reported to one do not affect the other."""
        made = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict):
                setattr(made, name, dict(value))
        return made

    def _missing(self, wanted: Iterable[Request | Block]) -> list[Request]:
        """The runs that a choice means."""
        requests: dict[Request, None] = {}
        for item in wanted:
            runs = requests_of(item) if isinstance(item, Block) else (item,)
            requests |= dict.fromkeys(run for run in runs if run not in self._results and run not in self._pending)
        return list(requests)


def requests_of(block: Block) -> tuple[Request, Request]:
    """Return the two runs of a block: the mix's and the baseline's."""
    mix, baseline = block.runs
    return Request(*mix), Request(*baseline)
