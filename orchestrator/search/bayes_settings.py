"""What can be set for the statistical searcher."""

from __future__ import annotations

import math
from dataclasses import dataclass

from orchestrator.errors import UserError
from orchestrator.search.base import SearchSettings


@dataclass(frozen=True)
class BayesSettings(SearchSettings):
    """What can be set under ``search:`` with ``method: bayes``.

    ``precision``: a mix is done when the 90 % interval of its transition is narrower than this, in ln size.
    ``worth``: it is also done when the best next run promises fewer nats about the transition than this times its
    cost in runs at the middle size (less, the wider the interval still is). ``max_runs`` and ``max_cost`` (seconds) end
    a mix that gets no further; both count its finished runs. ``min_runs``: the least evidence to stop on.

    ``thrift``: information is divided by cost to this power. ``gate``: a run is only started
    beside many pending ones if it still promises this share of what the best one would without them (less of it
    beside few, and less for a run that is cheap where no other mix is open). ``audit``: the share that checks of
    larger sizes may add to a mix's cost (0: none). ``share``: choose a mix's runs as if its transition probably lay
    near those of the others; what is reported, and when a mix is done, never depend on it. ``budget_audit``: repeat
    one run just below each transition, or at the largest size where there is none, with twice the steps, which says
    whether the budget is what limits it.
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

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least, most in (
            ("precision", 0.05, 5.0),
            ("max_runs", 1, math.inf),
            ("max_cost", 0, math.inf),
            ("min_runs", 1, math.inf),
            ("thrift", 0.0, 2.0),
            ("gate", 0.0, 1.0),
            ("worth", 0.0, 10.0),
            ("audit", 0.0, 10.0),
        ):
            given = getattr(self, name)
            if given is not None and not least <= given <= most:
                raise UserError(f"search.{name} is {given!r}; it must lie between {least} and {most}.")
