"""What can be set for the statistical searcher."""

from __future__ import annotations

import math
from dataclasses import dataclass

from orchestrator.errors import SettingError
from orchestrator.search.base import SearchSettings

LEAST_PRECISION = 0.05
MOST_RUNS = 1_000_000
LEAST_COST_S = 1e-3
"""A mix that may cost nothing would be asked nothing."""


@dataclass(frozen=True)
class BayesSettings(SearchSettings):
    """What can be set under ``search:`` with ``method: bayes``.

    When to stop. ``precision``: a mix is done when the 90 % interval of its transition is narrower than this, in ln
    size. ``worth``: it is also done when the best next run promises fewer nats about the transition than this times
    the run's cost, where a run at the middle size costs 1; the wider the interval still is, the less is required.
    ``max_runs`` and ``max_cost`` end a mix in any case; both count its finished runs, cost in seconds of training (of
    one core, where that is what trains, whatever else the machine does). Beside runs that are expected to use up what
    is left, none is started. ``min_runs``: the fewest runs to stop on.

    Which run is next. ``thrift``: information is divided by cost to this power. ``gate``: while many runs are pending,
    another one is started only if it promises at least this share of what the best one would promise without them.
    While few are pending less is required, less of a cheap run where no other mix is open, and less where there are
    more than 16 slots. ``share``: choose a
    mix's runs as if its transition probably lay near those of the others. What is reported, and when a mix is done,
    never depend on it.

    What is checked. ``audit``: checks of larger sizes may add this share to a mix's cost (0: no checks).
    ``budget_audit``: repeat one run just below each transition, or at the largest size where there is none, with twice
    the steps, to see whether the budget is the limit.
    """

    precision: float = 0.33
    max_runs: int = 48
    max_cost: float | None = None
    min_runs: int = 6
    thrift: float = 0.75
    gate: float = 1.0
    worth: float = 0.028
    audit: float = 0.4
    share: bool = False
    budget_audit: bool = False

    @property
    def most_spent(self) -> float:
        """``max_cost``, infinite where there is none."""
        return math.inf if self.max_cost is None else self.max_cost

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least, most in (
            ("precision", LEAST_PRECISION, 5.0),
            ("max_runs", 1, MOST_RUNS),
            ("max_cost", LEAST_COST_S, math.inf),
            ("min_runs", 1, MOST_RUNS),
            ("thrift", 0.0, 2.0),
            ("gate", 0.0, 1.0),
            ("worth", 0.0, 10.0),
            ("audit", 0.0, 10.0),
        ):
            given = getattr(self, name)
            if given is not None and not least <= given <= most:
                rule = f"be at least {least:g}" if most == math.inf else f"lie between {least:g} and {most:g}"
                raise SettingError(f"search.{name} is {given!r}; it must {rule}.", name)
