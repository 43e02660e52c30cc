"""Checks after a transition is found: do larger sizes fail again, and is it the budget that limits the transition?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from orchestrator.search.base import Problem, Request, Results
from orchestrator.search.belief import LIKELY_ABOVE
from orchestrator.search.results import CostModel, requests
from orchestrator.transition.plateau import beside
from orchestrator.transition.types import PLATEAU, SCATTER, Point

BEYOND = 1.4
"""Sizes larger than this times the transition should have learned, but for a lapse."""
TWICE = 2.0
"""The first check of larger sizes is made near this times the transition."""
AS_GOOD = 1.25
"""A run at a size smaller than the wanted one by at most this factor counts as well."""
STRETCH = 3.0
"""Before a mix is said to learn nowhere, neighbouring tested sizes must differ by no more than this factor."""
CONFIRMATIONS = 2
"""Finished runs that are needed at the largest (smallest) size to call a transition above (below) it, or a plateau."""
LONGER = 2
"""A run just below the transition is repeated with so many times the steps: if it learns, the budget is the limit."""


def audits(
    points: Sequence[Point],
    learned: Mapping[int, bool],
    sizes: Sequence[int],
    transition: float,
    costs: CostModel,
    share: float,
) -> tuple[tuple[int, int], ...]:
    """Sizes to check and how many finished runs each needs: one near twice the transition, one at the largest size.

    Together they may cost ``share`` of what was spent near and below the transition. Where the wanted sizes cost more,
    the largest affordable ones are checked instead. Runs that were already made at nearly those sizes count. A size
    that failed its check is run once more, since a single run may fail by chance.
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
        if not any(size / AS_GOOD <= done <= reach for done in tested):
            wanted.append((size, 1))
    failed = [size for size in sorted(tested) if not learned[size]]
    wanted += [(size, 2) for size in failed if costs.cost(size) <= share * spent]
    return tuple(dict(sorted(wanted)).items())


def climb(points: Sequence[Point], sizes: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """A larger size to check, and how many finished runs it needs, where most runs at the largest size tried are too
    low to be called learned. Only larger sizes can say whether accuracy levels off there.

    The climb goes in steps of :data:`STRETCH`, since the largest size costs most and one good run ends the climb. The
    largest size, where a plateau would be declared, needs two runs, and a third where these disagree; and two the next
    one that shows whether accuracy still rises there.
    """
    top = max(point.size for point in points)
    low = [point.accuracy < PLATEAU - SCATTER for point in points if point.size == top]
    if 2 * sum(low) < len(low):
        return ()
    if top >= sizes[-1]:
        under, largest = beside(top, sizes), (top, CONFIRMATIONS + (2 * sum(low) == len(low)))
        return (largest,) if under is None else ((under, CONFIRMATIONS), largest)
    further = [size for size in sizes if size > top]
    within_reach = [size for size in further if size <= STRETCH * top] or further[:1]
    return ((within_reach[-1], 1),)


def unseen(points: Sequence[Point], sizes: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """A size inside the widest gap between tested sizes, and one run; nothing where all gaps are narrower than
    :data:`STRETCH`. It is the cheapest size that leaves no wider gap above it.

    A failure at one size says nothing about smaller sizes where larger models can be worse, such as by memorising.
    """
    tried = sorted({point.size for point in points})
    wide = [(high / low, low, high) for low, high in pairwise(tried) if high / low > STRETCH]
    for _, low, high in sorted(wide, reverse=True):
        if inside := [size for size in sizes if low < size < high]:
            return ((next((size for size in inside if high / size <= STRETCH), inside[-1]), 1),)
    return ()


def next_step(sizes: Sequence[int], tried: Sequence[int], above: float) -> int | None:
    """The size to test before the largest one, once no small size learns (``above`` is the probability that no size
    does): the cheapest within :data:`STRETCH` of the largest. None where the largest may be tested at once.

    A run at the largest size costs most of all, and :func:`unseen` would ask for a size in between in any case.
    """
    if not tried or above < LIKELY_ABOVE or sizes[-1] <= STRETCH * max(tried):
        return None
    return next(size for size in sizes if sizes[-1] <= STRETCH * size)


def longer_run(problem: Problem, results: Results, mix: str, below: int | None, level: float) -> Request | None:
    """The run that tests whether the budget limits a transition: one that did not learn at ``below``, the largest size
    that failed, repeated with :data:`LONGER` times the steps.

    None where no size failed, where every run there reached ``level``, and where such a run has ended already.
    """
    if below is None:
        return None
    short = [(run, results.get(run)) for run in requests(problem, mix, below)]
    again = [replace(run, steps_factor=LONGER) for run, seen in short if seen is not None and seen.accuracy < level]
    return again[0] if again and not any(run in results for run in again) else None
