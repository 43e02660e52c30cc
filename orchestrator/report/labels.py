"""Labels beside points, placed so that none lies on another or on a point. Pure geometry, in any unit of length."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

ANGLES = (90, 45, 135, 0, 180, -45, -135, -90)
"""Directions in degrees in which a label may stand from its point, the best to read first."""
RADII = (1.0, 1.5, 2.2, 3.0, 4.0)
"""Distances at which it may stand, in those of a label right above its point: the nearest that is free."""


def placed(
    points: NDArray[np.float64], width: float, height: float, *, radius: float, above: float
) -> NDArray[np.float64]:
    """Centres [n, 2] of labels ``width`` x ``height`` for points [n, 2] drawn as discs of this ``radius``; ``above`` is
    how far over its point a label stands that has room there.

    The points in the greatest crowd choose first. Where no place is free, a label takes the one with the least under
    it. The same points give the same places.
    """
    distance = np.hypot(*(points[:, None] - points[None]).T) if len(points) else np.zeros((0, 0))
    crowd = (distance < 2 * above + width).sum(axis=1)
    centres = np.full_like(points, np.inf)
    ways = np.array([(np.cos(angle), np.sin(angle)) for angle in np.radians(ANGLES)])
    # Sideways a label has to go further to be as far from its point: by half its width more.
    reach = np.array([radius + width / 2, above])
    offsets = np.concatenate([factor * ways * reach for factor in RADII])
    for place in np.argsort(-crowd, kind="stable"):
        candidates = points[place] + offsets
        on_labels = _overlaps(candidates, centres, width, height)
        on_points = _overlaps(candidates, points, width / 2 + radius, height / 2 + radius)
        centres[place] = candidates[int((2 * on_labels + on_points).argmin())]
    return centres


def _overlaps(
    candidates: NDArray[np.float64], others: NDArray[np.float64], width: float, height: float
) -> NDArray[np.float64]:
    """For each candidate how much lies within ``width`` and ``height`` of it, in shares of a whole overlap; [c]."""
    apart = np.abs(candidates[:, None] - others[None])
    across = np.clip(1 - apart[..., 0] / width, 0, None)
    along = np.clip(1 - apart[..., 1] / height, 0, None)
    total: NDArray[np.float64] = (across * along).sum(axis=1)
    return total
