"""Graphs as edges and sparse matrices, sums over edges, and minimum spanning trees of points in the plane.

The classes of H0 of a Vietoris-Rips filtration die at the lengths of the minimum spanning tree's edges (Edelsbrunner
and Harer 2010, Computational Topology, chapter VII). The tree is a part of the Delaunay triangulation (Shamos and Hoey
1975, FOCS, p. 151), which has at most three edges per point. Shapes: N nodes, D numbers per node, E edges.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import scipy.sparse as sparse
from numpy.typing import NDArray
from scipy.spatial import Delaunay, QhullError

from trainables.reparametrization.settings import GraphSettings

Floats = NDArray[np.float64]
"""Array of numbers."""
Edges = NDArray[np.int64]
"""Both ends of every edge, [E, 2], the smaller end first, in ascending order."""


def rng_of(purpose: str, nodes: int, seed: int) -> np.random.Generator:
    """Return the generator for one purpose on a graph of this size and seed, the same for all mixes and methods."""
    digest = hashlib.sha256(f"{purpose}|{nodes}|{seed}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


def edges(settings: GraphSettings, nodes: int, rng: np.random.Generator) -> Edges:
    """Return the edges of a graph without loops. Every node has an edge."""
    node = np.arange(nodes)
    if settings.kind == "grid":  # Nearly square; the last row may be short.
        width = math.isqrt(nodes - 1) + 1
        right = node[(node % width != width - 1) & (node + 1 < nodes)]
        down = node[node + width < nodes]
        return _once(np.concatenate([np.stack([right, right + 1], 1), np.stack([down, down + width], 1)]), nodes)
    ends = np.concatenate([np.stack([node, (node + far) % nodes], 1) for far in range(1, settings.degree // 2 + 1)])
    moved = rng.random(len(ends)) < settings.rewired
    ends[moved, 1] = rng.integers(nodes, size=int(moved.sum()))
    ends = ends[ends[:, 0] != ends[:, 1]]
    lone = np.setdiff1d(node, ends)  # A node that lost all of its edges is joined to the next node.
    return _once(np.concatenate([ends, np.stack([lone, (lone + 1) % nodes], 1)]), nodes)


def csr(matrix: Any) -> Any:
    """Return a matrix as scipy CSR with sorted indices."""
    compressed = matrix.tocsr()
    compressed.sort_indices()
    return compressed


def laplacian(ends: Edges, weights: Floats | float, nodes: int) -> Any:
    """Return ``D - W`` [nodes, nodes] of the matrix W of edges with weights: scipy CSR, sorted indices."""
    rows, columns = np.concatenate([ends, ends[:, ::-1]]).T
    both = np.tile(np.broadcast_to(weights, len(ends)), 2)
    matrix = csr(sparse.coo_matrix((both, (rows, columns)), shape=(nodes, nodes)))
    return csr(sparse.diags(np.asarray(matrix.sum(axis=1)).ravel()) - matrix)


def across(ends: Edges, x_ND: Floats) -> Floats:
    """Return differences across edges, [E, D]."""
    return x_ND[ends[:, 0]] - x_ND[ends[:, 1]]


def gathered(ends: Edges, edge_ED: Floats, nodes: int) -> Floats:
    """Return sums over edges [N, D], in order: added to the first end, subtracted from the second."""
    first, second = ends.T
    columns = [np.bincount(first, column, nodes) - np.bincount(second, column, nodes) for column in edge_ED.T]
    return np.stack(columns, axis=1)


def spanning_tree(points: Floats) -> Edges:
    """Return the minimum spanning tree of at least two finite points in the plane, [N - 1, 2].

    Among equal lengths, the edge with the smaller ends counts as shorter.
    """
    candidates = _candidates(points)
    # Use ranks instead of lengths, because scipy ignores an edge of length 0.
    rank = np.empty(len(candidates))
    rank[np.argsort(np.hypot(*across(candidates, points).T), kind="stable")] = np.arange(1, len(candidates) + 1)
    begin = np.searchsorted(candidates[:, 0], np.arange(len(points) + 1))
    graph = sparse.csr_matrix((rank, candidates[:, 1], begin), shape=(len(points), len(points)))
    tree = sparse.csgraph.minimum_spanning_tree(graph).tocoo()
    return _once(np.stack([tree.row, tree.col], axis=1), len(points))


def deaths(points: Floats) -> Floats:
    """Return the scales at which the classes of H0 of a cloud die, ascending, [N - 1]. The last class never dies."""
    return np.sort(np.hypot(*across(spanning_tree(points), points).T))


def _candidates(points: Floats) -> Edges:
    """Return edges that include those of the minimum spanning tree: the edges of the Delaunay triangulation."""
    centered = points - points.mean(axis=0)  # Far from the origin, Qhull rounds small differences away.
    try:
        made = Delaunay(centered)
    except QhullError:  # The points are on one line, to float64's precision, or too few for a triangle.
        direction = np.linalg.svd(centered / (np.abs(centered).max() or 1.0), full_matrices=False)[2][0]
        order = np.argsort(centered @ direction, kind="stable")
        return _once(np.stack([order[:-1], order[1:]], axis=1), len(points))
    ends = made.simplices[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    # The triangulation omits a point on another point or on an edge, to float64's precision.
    for omitted, triangle, nearest in made.coplanar:
        ends = np.concatenate([ends, [(omitted, corner) for corner in (nearest, *made.simplices[triangle])]])
    return _once(ends[ends[:, 0] != ends[:, 1]], len(points))


def _once(ends: NDArray[Any], nodes: int) -> Edges:
    """Return each edge once, in ascending order."""
    numbers = np.unique(ends.min(axis=1).astype(np.int64) * nodes + ends.max(axis=1))
    return np.stack(np.divmod(numbers, nodes), axis=1)
