"""Persistent homology in dimension 0 of points in the plane.

The Vietoris-Rips filtration joins two points at the scale of their distance. Every class of H0 is born at scale 0, with
a point of its own, and dies where an edge joins its component to an older one: as Kruskal's algorithm takes edges,
these are the edges of the minimum spanning tree, and the diagram is the tree's lengths (Edelsbrunner and Harer 2010,
Computational Topology, chapter VII). So the pairing of births with deaths is the tree. It is a part of the Delaunay
triangulation (Shamos and Hoey 1975, FOCS, p. 151), whose edges are at most three times as many as the points: all is
sparse. Pure numpy and scipy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray
from scipy.spatial import Delaunay, QhullError

from trainables.reparametrization.graphs import Edges

Points = NDArray[np.float64]
"""[N, 2]."""


def spanning_tree(points: Points) -> Edges:
    """The minimum spanning tree of points in the plane, [N - 1, 2], the smaller end first, in order.

    Of lengths that are equal the edge with the smaller ends counts as the shorter. Raises ``ValueError`` for fewer than
    two points, other than two coordinates, or coordinates that are not finite.
    """
    if points.ndim != 2 or points.shape[1] != 2 or len(points) < 2:
        raise ValueError(f"a tree needs at least two points of the plane, [N, 2]; got an array {points.shape}")
    if not np.isfinite(points).all():
        raise ValueError("a tree needs points whose coordinates are finite")
    candidates = _candidates(points)
    far = points[candidates[:, 0]] - points[candidates[:, 1]]
    # Ranks in place of lengths: scipy takes an edge of length 0 for none.
    rank = np.empty(len(candidates))
    rank[np.argsort(np.hypot(far[:, 0], far[:, 1]), kind="stable")] = np.arange(1, len(candidates) + 1)
    begin = np.searchsorted(candidates[:, 0], np.arange(len(points) + 1))
    graph = sparse.csr_matrix((rank, candidates[:, 1], begin), shape=(len(points), len(points)))
    tree = sparse.csgraph.minimum_spanning_tree(graph).tocoo()
    return _once(np.stack([tree.row, tree.col], axis=1), len(points))


def deaths(points: Points) -> NDArray[np.float64]:
    """The scales at which the classes of H0 of a cloud die, ascending, [N - 1]; one class never does."""
    tree = spanning_tree(points)
    far = points[tree[:, 0]] - points[tree[:, 1]]
    return np.sort(np.hypot(far[:, 0], far[:, 1]))


def _candidates(points: Points) -> Edges:
    """Edges that hold the minimum spanning tree, each once, in order: those of the Delaunay triangulation."""
    try:
        # Qhull loses what is small beside the distance from the origin.
        made = Delaunay(points - points.mean(axis=0))
    except QhullError:
        # All on one line, as far as float64 can tell, or too few for a triangle: neighbours along the line.
        return _along_a_line(points)
    ends = made.simplices[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    # A point that lies on another, or on an edge, as far as float64 can tell, is left out of the triangulation.
    for left_out, triangle, nearest in made.coplanar:
        ends = np.concatenate(
            [ends, [(left_out, nearest), *((left_out, corner) for corner in made.simplices[triangle])]]
        )
    return _once(ends[ends[:, 0] != ends[:, 1]], len(points))


def _along_a_line(points: Points) -> Edges:
    centred = points - points.mean(axis=0)
    spread = np.abs(centred).max()
    direction = np.linalg.svd(centred / spread if spread > 0 else centred, full_matrices=False)[2][0]
    order = np.argsort(centred @ direction, kind="stable")
    return _once(np.stack([order[:-1], order[1:]], axis=1), len(points))


def _once(ends: NDArray[Any], nodes: int) -> Edges:
    """Every edge once, the smaller end first, in order."""
    numbers = np.unique(ends.min(axis=1).astype(np.int64) * nodes + ends.max(axis=1))
    return np.stack(np.divmod(numbers, nodes), axis=1)
