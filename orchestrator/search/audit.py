"""Checks of larger sizes once a transition is found: is what was learned there lost again?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from orchestrator.search.costs import CostModel
from orchestrator.transition.types import Point

BEYOND = 1.4
"""Sizes larger than this times the transition should have learned, but for a lapse."""
TWICE = 2.0


def audits(
    points: Sequence[Point],
    learned: Mapping[int, bool],
    sizes: Sequence[int],
    transition: float,
    costs: CostModel,
    share: float,
) -> tuple[tuple[int, int], ...]:
    """Sizes to check and how many finished runs each needs: one near twice the transition, one at the largest size.

    Together they may cost ``share`` of what was spent near and below the transition; where the sizes wanted cost
    more, the largest affordable ones stand in. Runs that were made anyway count. A size that failed its check is
    run once more, since a single run may lapse.
    """
    spent = sum(costs.cost(point.size) for point in points if point.size <= BEYOND * transition)
    beyond = [size for size in sizes if size > BEYOND * transition]
    if share <= 0 or not beyond:
        return ()
    tested = {point.size for point in points if point.size > BEYOND * transition}
    wanted: list[tuple[int, int]] = []
    near = min(beyond, key=lambda size: abs(math.log(size / (TWICE * transition))))
    for target, reach in ((near, TWICE * BEYOND * transition), (sizes[-1], math.inf)):
        affordable = [size for size in beyond if size <= target and costs.cost(size) <= share / 2 * spent]
        if not affordable:
            continue
        size = affordable[-1]
        if not any(done >= size and done <= reach for done in tested):
            wanted.append((size, 1))
    failed = [size for size in sorted(tested) if not learned[size]]
    wanted += [(size, 2) for size in failed if costs.cost(size) <= share * spent]
    return tuple(dict(sorted(wanted)).items())
