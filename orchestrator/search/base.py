"""The contract of a searcher: which runs are wanted next, given what is known.

A searcher is ask/tell and knows no Ray, no clock and no files. Its whole state is what it was told, what it asked for
and which mixes were stopped: every decision is a pure function of these, so results may come in any order, twice, or
from a journal, and the same results lead to the same decisions.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal, Self

from trainables.contract.settings import SettingsError

AUTO: Final = "auto"
"""For a value that a rule decides before the sweep (orchestrator/stacks.py)."""
BY_HAND: Final = "stopped by hand"
"""Of a mix or run that a person stopped."""


@dataclass(frozen=True, order=True)
class Request:
    """A run that is wanted: one cell (mix, size) with one seed.

    With ``steps_factor`` above 1 it trains so many times the steps of the mix's other runs. Such a run tests whether
    the budget limits a transition; it is no evidence of where the transition lies. With ``phase`` above 0 it is that
    phase of the run, which a later one goes on from: no searcher asks for it, or hears of it.

    ``values`` are settings by dotted name that the run has in the place of its mix's own. With ``until`` the run is
    wanted up to its first evaluation at which the target has that accuracy, in (0, 1], and no further.
    """

    mix: str
    size: int
    seed: int
    steps_factor: int = 1
    phase: int = 0
    values: tuple[tuple[str, float], ...] = ()
    until: float | None = None

    @property
    def is_evidence(self) -> bool:
        """True if the outcome is evidence of the mix's transition: it is the whole run, with the steps that
        the mix's other runs have. (Of runs that ended, orchestrator/space/evidence.py says the same.)"""
        return self.steps_factor == 1 and not self.phase and self.until is None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Request:
        """A request from its fields as plain values, of which JSON has made lists. Raises ``TypeError`` for others."""
        values = tuple((name, value) for name, value in data.get("values", ()))
        return cls(**{**data, "values": values})


@dataclass(frozen=True)
class Observation:
    """A finished run's evidence about the target: its test accuracy, the floor of its test set (both in [0, 1]) and
    what the run cost in seconds on its device (0 where unknown)."""

    accuracy: float
    floor: float
    cost: float = 0.0


Results = Mapping[Request, Observation | None]
"""Results by run. None stands for a failed run: it is no evidence and is not asked for again."""


@dataclass(frozen=True)
class Problem:
    """The question searched: mixes by name, candidate sizes ascending, seeds in the order they are used."""

    mixes: tuple[str, ...]
    sizes: tuple[int, ...]
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class MixProgress:
    """The state of the search for one mix.

    ``low`` is the largest size that did not learn and ``high`` the smallest that did, None while unknown.
    ``runs_left`` is an upper bound on the runs still to come. ``note`` says in a few words what is going on.
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


class Searcher(ABC):
    """Chooses runs. Subclasses decide in :meth:`choose` and :meth:`progress`; all bookkeeping is here.

    ``Settings`` is a frozen dataclass of what can be set, refusing unknown fields; its values come as keywords.
    """

    Settings: ClassVar[type[SearchSettings]]
    settings: SearchSettings

    def __init__(self, problem: Problem, **settings: Any) -> None:
        self.problem = problem
        self.settings = self.Settings(**settings)
        self._results: dict[Request, Observation | None] = {}
        self._pending: dict[Request, None] = {}
        self._stopped: frozenset[str] = frozenset()

    @abstractmethod
    def choose(self, results: Results, pending: Sequence[Request], limit: int) -> list[Request]:
        """At most ``limit`` runs to start now, most wanted first; none of them known or pending, none of a mix in
        :attr:`stopped`. Pure but for that."""

    @abstractmethod
    def progress(self) -> list[MixProgress]:
        """The state of each mix, in the problem's order."""

    @property
    def stack(self) -> int:
        """The most seeds to ask for together at one size."""
        return 1 if self.settings.stack == AUTO else self.settings.stack

    @property
    def results(self) -> Results:
        return self._results

    @property
    def pending(self) -> tuple[Request, ...]:
        return tuple(self._pending)

    @property
    def stopped(self) -> frozenset[str]:
        """Mixes of which no more runs are wanted, whatever is known of them: somebody said so."""
        return self._stopped

    @property
    def done(self) -> bool:
        """True when nothing is pending and nothing more is wanted."""
        return not self._pending and not self.choose(self._results, (), 1)

    def ask(self, limit: int) -> list[Request]:
        """Up to ``limit`` runs to start now. An empty list means wait for results, or, with :attr:`done`, stop."""
        if limit < 1:
            return []
        wanted = self.choose(self._results, self.pending, limit)
        self._pending.update(dict.fromkeys(wanted))
        return wanted

    def tell(self, request: Request, observation: Observation | None) -> None:
        """Record how a run ended (None: it failed). The first result of a run counts; later ones change nothing.

        Runs that were never asked for are accepted: a resumed or extended sweep tells what its journal holds.
        """
        self._pending.pop(request, None)
        self._results.setdefault(request, observation)

    def stop(self, mix: str) -> None:
        """Want no more runs of a mix, and wait for none. What is known of it, or told later, stays known."""
        self._stopped |= {mix}
        for request in [request for request in self._pending if request.mix == mix]:
            del self._pending[request]

    def as_stopped(self, found: MixProgress) -> MixProgress:
        """The state of the search for a mix, a stop by hand counted in."""
        if found.mix not in self._stopped:
            return found
        return replace(found, runs_left=0, done=True, note=BY_HAND)

    def branch(self) -> Self:
        """A searcher that knows and waits for the same, and goes its own way from here: what either is told the other
        does not hear of. What it worked out is shared, so this costs next to nothing."""
        made = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict):
                setattr(made, name, dict(value))
        return made
