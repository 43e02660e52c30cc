"""Contract of a searcher, which chooses the next runs from the results so far.

A searcher has an ask/tell interface and does not use Ray, a clock or files. Its state is the results, the requested
blocks (in order) and the stopped mixes. Each decision is a pure function of that state: results may arrive in any
order, twice, or from a journal, and the same results lead to the same decisions.
"""

from __future__ import annotations

import copy
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Final, Literal, Self

import numpy as np

from orchestrator.transition.evidence import ERROR, LEARNED, Block
from orchestrator.transition.types import Point
from trainables.contract.settings import SettingsError

BY_HAND: Final = "stopped by hand"
"""Note of a mix or run that the user stopped."""


@dataclass(frozen=True, order=True)
class Request:
    """A requested run: one cell (mix, size) with one seed.

    Attributes:
        phase: 0 for the last phase of an arm, otherwise the number of an earlier phase. Searchers ignore phases.
        values: Numbers that replace settings of the mix, by dotted name.
        until: Accuracy in (0, 1] on the target at which the run stops, or None if it trains to its end.
    """

    mix: str
    size: int
    seed: int
    phase: int = 0
    values: tuple[tuple[str, float], ...] = ()
    until: float | None = None

    @property
    def is_full(self) -> bool:
        """True if the run trains to the end of its arm. Only such runs are evidence. An earlier phase of an arm is not
        full, and neither is a tuning run, because it stops as soon as it has learned."""
        return not self.phase and self.until is None

    def point(self, accuracy: float, floor: float, cost: float = 0.0, settled: bool | None = None) -> Point:
        """Return the run's result on a task as a point."""
        return Point(self.size, self.seed, accuracy, floor, settled, cost)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Request:
        """Return a request from its fields in JSON, where tuples have become lists.

        Raises:
            TypeError: A field is unknown.
            ValueError: The run has several times the steps, as in audits of earlier versions.
        """
        fields = dict(data)
        if fields.pop("steps_factor", 1) != 1:
            raise ValueError("a run with several times the steps (an audit), which this version does not support")
        fields["values"] = tuple((name, value) for name, value in fields.get("values", ()))
        return cls(**fields)


Results = Mapping[Request, Point | None]
"""Each run's result on the target. None marks a failed run, which is not requested again."""


@dataclass(frozen=True)
class Problem:
    """The question that a searcher answers.

    Attributes:
        mixes: Names of the mixes.
        sizes: Candidate sizes, ascending.
        seeds: Seeds, in order of use.
        comparisons: Each compared mix with its baseline.
        parameters: Parameters of a model by size. If empty, a model has the square of its size.
        looks: Number of earlier analyses of some of the runs of each comparison. If empty, there were none.
    """

    mixes: tuple[str, ...]
    sizes: tuple[int, ...]
    seeds: tuple[int, ...]
    comparisons: tuple[tuple[str, str], ...] = ()
    parameters: tuple[float, ...] = ()
    looks: tuple[int, ...] = ()

    def earlier_looks(self, mix: str, baseline: str) -> int:
        """Return the number of earlier analyses of a comparison's runs."""
        return dict(zip(self.comparisons, self.looks, strict=bool(self.looks))).get((mix, baseline), 0)

    def counts(self) -> dict[int, float]:
        """Return the parameters of a model by size."""
        return dict(zip(self.sizes, self.parameters or [float(size) ** 2 for size in self.sizes], strict=True))

    def count(self, size: float) -> float:
        """Return the parameters of a model of any size, interpolated between the candidate sizes. An extended sweep may
        have tried sizes that are no longer candidates."""
        if size not in self._counts:
            sizes, counts = zip(*sorted(self.counts().items()), strict=True)
            log_sizes = [math.log(known) for known in sizes]
            log_counts = [math.log(count) for count in counts]
            log_count = np.interp(math.log(size), log_sizes, log_counts)
            self._counts[size] = math.exp(float(log_count))
        return self._counts[size]

    @cached_property
    def _counts(self) -> dict[float, float]:
        """Cached results of :meth:`count`."""
        return {}


@dataclass(frozen=True)
class MixProgress:
    """State of the search for one mix.

    Attributes:
        low: Largest size that did not learn, or None if unknown.
        high: Smallest size that learned, or None if unknown.
        runs_left: Upper bound on the remaining runs.
    """

    mix: str
    low: int | None
    high: int | None
    runs_left: int
    done: bool


@dataclass(frozen=True)
class SearchSettings:
    """Settings under ``search:`` for every method."""

    stack: int | Literal["auto"] = "auto"
    """Maximum number of seeds to request together at one size. The engine trains them as one batched model, at little
    more than the cost of one run. With ``auto``, the engine chooses the number. Without an engine, ``auto`` means 1."""

    def __post_init__(self) -> None:
        if self.stack != "auto" and not 1 <= self.stack <= 4096:
            raise SettingsError(f"search.stack is {self.stack!r}; it must be between 1 and 4096, or auto.", key="stack")


@dataclass(frozen=True)
class EvidenceSettings(SearchSettings):
    """Settings under ``search:`` of methods whose runs are evidence for a comparison. A threshold chosen after the
    first run makes the evidence meaningless."""

    error: float = ERROR
    """Largest probability of a decision if two mixes are equally good; evidence of 1 / error decides. Choose it before
    the first run."""
    learned: float = LEARNED
    """A run counts as learned if it scores this share of the possible score above the best constant answer. Choose it
    before the first run."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("error", self.error, 1e-6, 0.5)
        check_range("learned", self.learned, 0.05, 1.0)


def check_range(name: str, value: float, least: float, most: float) -> None:
    """Raise ``SettingsError`` if a setting of ``search:`` is not between ``least`` and ``most``."""
    if not least <= value <= most:
        rule = f"be at least {least:g}" if most == math.inf else f"be between {least:g} and {most:g}"
        raise SettingsError(f"search.{name} is {value!r}; it must {rule}.", key=name)


class Searcher(ABC):
    """Base of searchers. A subclass decides in :meth:`choose` and :meth:`progress_of`; this class keeps the state.

    ``Settings`` is the frozen dataclass of the settings. They are passed as keywords.

    Attributes:
        results: Results of the runs that ended.
        blocks: Blocks that were requested as evidence, in order (:mod:`orchestrator.transition.evidence`).
        stopped: Mixes that the user stopped. They get no more runs.
    """

    Settings: ClassVar[type[SearchSettings]]
    settings: SearchSettings
    prefers_small_stacks: ClassVar[bool] = False
    """True if the searcher should get few results soon rather than many results later, because each result changes
    its next requests. Stacks are then kept small (space/stack_sizes.py)."""

    def __init__(self, problem: Problem, **settings: Any) -> None:
        self.problem = problem
        self.settings = self.Settings(**settings)
        self.results: dict[Request, Point | None] = {}
        self.blocks: tuple[Block, ...] = ()
        self.stopped: frozenset[str] = frozenset()
        self._pending: dict[Request, None] = {}

    @abstractmethod
    def choose(
        self, pending: Sequence[Request], limit: int, ending: Collection[Request] = ()
    ) -> Sequence[Request | Block]:
        """Return the next runs, most wanted first, without changing the state.

        Known and ``pending`` runs are not chosen again. In a block, they do not count toward the limit.

        Args:
            pending: Requested runs that have not ended.
            limit: Maximum number of new runs. One more is allowed to complete a block.
            ending: Pending runs whose results arrive soon. A searcher may choose nothing until it has their results,
                if its next choice depends on them.
        """

    @abstractmethod
    def progress_of(self, mix: str) -> MixProgress:
        """Return the state of a mix that the user did not stop."""

    def progress(self) -> list[MixProgress]:
        """Return the state of each mix, in the problem's order."""
        return [
            replace(state, runs_left=0, done=True) if state.mix in self.stopped else state
            for state in map(self.progress_of, self.problem.mixes)
        ]

    @property
    def stack(self) -> int:
        """Number of seeds to request together, 1 if it was not chosen."""
        return 1 if self.settings.stack == "auto" else self.settings.stack

    @property
    def pending(self) -> tuple[Request, ...]:
        """Requested runs that have not ended."""
        return tuple(self._pending)

    @property
    def done(self) -> bool:
        """True if no run is pending and none is needed."""
        return not self._pending and not self.choose((), 1)

    def ask(self, limit: int, ending: Collection[Request] = ()) -> list[Request]:
        """Return up to ``limit`` runs to start now, plus one to complete a block.

        If the list is empty, wait for results, or stop if the searcher is :attr:`done`. ``ending`` are runs that are
        about to end (:data:`orchestrator.jobs.plan.ENDING`).
        """
        if limit < 1:
            return []
        chosen = self.choose(self.pending, limit, ending)
        self.blocks += tuple(item for item in chosen if isinstance(item, Block))
        requests = [run for run in requests_of(*chosen) if run not in self.results and run not in self._pending]
        self._pending.update(dict.fromkeys(requests))
        return requests

    def tell(self, request: Request, point: Point | None) -> None:
        """Record a run's result on the target, or None if the run failed.

        Later results of the same run are ignored. The run need not have been requested, because resumed and extended
        sweeps pass results from their journals.
        """
        self._pending.pop(request, None)
        self.results.setdefault(request, point)

    def needs(self, run: Request) -> bool:
        """Return False if the outcome of a run cannot change anything that this searcher decides, now or later."""
        return True

    def release(self) -> list[Request]:
        """Stop waiting for pending runs that are no longer needed, and return them. If their results arrive anyway,
        they are kept."""
        released = [run for run in self._pending if not self.needs(run)]
        for run in released:
            del self._pending[run]
        return released

    def restore(self, blocks: Iterable[Block]) -> None:
        """Continue after blocks that an earlier searcher requested, in this order."""
        self.blocks = tuple(dict.fromkeys((*blocks, *self.blocks)))

    def stop(self, mix: str) -> None:
        """Request no more runs of a mix and do not wait for its runs. All its results are kept, even later ones."""
        self.stopped |= {mix}
        self._pending = {request: None for request in self._pending if request.mix != mix}

    def branch(self) -> Self:
        """Return an independent copy. Results reported to either searcher do not affect the other."""
        duplicate = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict):
                setattr(duplicate, name, dict(value))
        return duplicate


def requests_of(*items: Request | Block) -> list[Request]:
    """Return the distinct runs of requests and blocks. A block has two runs, the mix's and the baseline's."""
    runs = [[Request(*run) for run in item.runs] if isinstance(item, Block) else [item] for item in items]
    return list(dict.fromkeys(itertools.chain.from_iterable(runs)))
