"""Who is ahead: from how the methods of one race stand, the score of each. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from trainables.reparametrization.settings import RaceSettings


@dataclass
class Standing:
    """How one method stands in one race: what it has ``spent``, in units of the race, its ``steps``, its last ``gap``
    (the loss above the solution's, as a share of what that was at the start) and whether that is small enough.
    ``broken`` says that its loss was no longer finite. ``seconds`` are its share of the time its stack took."""

    spent: float = 0.0
    steps: int = 0
    gap: float = 1.0
    arrived: bool = False
    broken: bool = False
    seconds: float = 0.0

    def arrives_within(self, budget: float) -> bool:
        """Whether it has arrived for no more than ``budget``: a line search, or one of Newton's directions, may end
        beyond one."""
        return self.arrived and self.spent <= budget


def ahead(standings: Mapping[str, Standing], race: RaceSettings) -> dict[str, float]:
    """1 for the method that is ahead (:class:`RaceSettings` says what that is), 0 for the others.

    A method that broke down never arrives. One without rivals is ahead if it arrived.
    """
    return {
        name: float(
            mine.arrives_within(race.steps)
            and all(
                theirs.broken or theirs.spent > race.factor * mine.spent
                for other, theirs in standings.items()
                if other != name
            )
        )
        for name, mine in standings.items()
    }


def limit(standings: Mapping[str, Standing], race: RaceSettings) -> float:
    """What every method of a race may spend, as far as is known: the budget, or ``patience`` times what the first one
    to arrive needed."""
    first = min((one.spent for one in standings.values() if one.arrives_within(race.steps)), default=math.inf)
    return min(float(race.steps), race.patience * first)


def is_over(standings: Mapping[str, Standing], spent: float, race: RaceSettings) -> bool:
    """Whether nothing can change any more once every method may have ``spent`` so much."""
    return spent >= limit(standings, race) or all(one.arrived or one.broken for one in standings.values())
