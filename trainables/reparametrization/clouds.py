"""Persistent homology: points of the plane, moved until the diagram of their Vietoris-Rips filtration is as asked.

The filtration joins two points at the scale of their distance. Every class of H0 is born at scale 0, with a point of
its own, and dies where an edge joins its component to an older one: the deaths are the lengths of the minimum spanning
tree's edges (Edelsbrunner and Harer 2010, Computational Topology, chapter VII). The tree is a part of the Delaunay
triangulation (Shamos and Hoey 1975, FOCS, p. 151), which has at most three edges a point: all is sparse.

All classes are to die at one scale t: the loss is ``1/2 sum_d (d - t)^2`` over the deaths d. Its gradient is that of
springs of length t along the tree, which changes as points move (Gabrielsson et al. 2020, AISTATS, PMLR 108, 1553;
Carriere et al. 2021, ICML, PMLR 139, 1294). Where the tree changes two edges are equally long, and the loss is
continuous. It is 0 where all deaths are t, as for points t apart on a line, and nowhere less: the solution is known. As
long as a tree stays, nothing else is stationary: the one edge of a leaf pulls at it unless it is t long, then that of a
leaf of the rest does, and so on. Loops (H1) have no such solution, and a few of them depend on a few points at a time.

Shapes as in problems.py, D = 2; E edges of a tree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sparse
import torch
from numpy.typing import NDArray
from scipy.spatial import Delaunay, QhullError
from torch import Tensor

from trainables.reparametrization.problems import (
    Curvature,
    Edges,
    Floats,
    Instance,
    Problem,
    laplacian,
    rng_of,
    weighted,
)
from trainables.reparametrization.settings import PLANE, DiagramSettings

Points = NDArray[np.float64]
"""[N, 2]."""


@dataclass(frozen=True)
class CloudInstance(Instance):
    """One run's problem: the scale at which all classes are to die. ``solution`` is one of many: points on a line.

    ``hessian`` and ``laplacian`` are about the tree at the start. The Hessian's entry for two points is a 2 x 2 block;
    here it is half of the block's trace, its mean over all directions, as a network moves points in all directions
    alike.
    """

    scale: float


def cloud_instance(diagram: DiagramSettings, nodes: int, seed: int) -> CloudInstance:
    """The problem of a cloud of ``nodes`` points."""
    start = math.sqrt(nodes) * rng_of("cloud", nodes, seed).random((nodes, 2))
    scale = diagram.deaths * float(deaths(start).mean())
    tree = spanning_tree(start)
    springs = Springs(start, tree, scale)
    # Along an edge its block of the Hessian is 1, across it ``1 - t / length``.
    return CloudInstance(
        start=start,
        solution=np.stack([scale * np.arange(nodes), np.zeros(nodes)], axis=1),
        hessian=laplacian(weighted(tree, (1 + springs.across) / 2, nodes)),
        laplacian=laplacian(weighted(tree, np.ones(len(tree)), nodes)),
        scale=scale,
    )


class Springs:
    """The loss of one cloud, with its derivatives, where its tree is known. ``across`` [E] is each edge's curvature
    across itself."""

    def __init__(self, points: Points, tree: Edges, scale: float) -> None:
        self._ends = tree.T
        self._nodes = len(points)
        far_ED = points[tree[:, 0]] - points[tree[:, 1]]
        length_E = np.hypot(far_ED[:, 0], far_ED[:, 1])
        self._over_E = length_E - scale
        # Points that lie on each other have no direction, and are left where they are.
        inverse_E = np.divide(1.0, length_E, out=np.zeros_like(length_E), where=length_E > 0)
        self._along_ED = far_ED * inverse_E[:, None]
        self.across = np.where(length_E > 0, 1 - scale * inverse_E, 0.0)

    def loss(self) -> float:
        """Half of the sum of squares by which deaths miss the scale."""
        return float(np.square(self._over_E).sum() / 2)

    def gradient(self) -> Floats:
        """Of the loss, [N, 2]."""
        return self._gathered(self._over_E[:, None] * self._along_ED)

    def product(self, v_ND: Floats) -> Floats:
        """The Hessian's with a direction, [N, 2]."""
        first, second = self._ends
        apart_ED = v_ND[first] - v_ND[second]
        along_ED = (apart_ED * self._along_ED).sum(axis=1, keepdims=True) * self._along_ED
        return self._gathered(along_ED + self.across[:, None] * (apart_ED - along_ED))

    def degrees(self) -> Floats:
        """Edges of each point, [N]."""
        return np.bincount(self._ends.ravel(), minlength=self._nodes).astype(np.float64)

    def _gathered(self, edge_ED: Floats) -> Floats:
        """Sums over edges, in their order: added to the first end, taken off the second."""
        first, second = self._ends
        columns = [
            np.bincount(first, column, self._nodes) - np.bincount(second, column, self._nodes) for column in edge_ED.T
        ]
        return np.stack(columns, axis=1)


class CloudProblem(Problem):
    """The losses of a stack. Trees are found, and what they bear is summed, on the CPU, whatever the device."""

    instances: tuple[CloudInstance, ...]

    def __init__(self, instances: Sequence[CloudInstance], device: torch.device) -> None:
        super().__init__(instances, device)
        self._seen: list[tuple[Points, Springs] | None] = [None] * len(instances)

    @classmethod
    def drawn(cls, settings: Any, nodes: int, seed: int) -> CloudInstance:
        return cloud_instance(settings.diagram, nodes, seed)

    def evaluate(self, x_SND: Tensor) -> tuple[Tensor, Tensor]:
        """A cloud whose points are no longer finite has an infinite loss and no gradient."""
        losses, gradients = [], []
        # Far out, where a method diverges, squares overflow, and the loss is infinite.
        with np.errstate(over="ignore", invalid="ignore"):
            for row, points in enumerate(self._points(x_SND)):
                springs = self._springs(row, points) if np.isfinite(points).all() else None
                losses.append(math.inf if springs is None else springs.loss())
                gradients.append(np.zeros_like(points) if springs is None else springs.gradient())
        return torch.tensor(losses, dtype=torch.float64, device=self.device), self.stacked(gradients)

    def curvature(self, x_SND: Tensor) -> Curvature:
        found = [self._springs(row, points) for row, points in enumerate(self._points(x_SND))]

        def product(v_SND: Tensor) -> Tensor:
            pairs = zip(found, self._points(v_SND), strict=True)
            return self.stacked([springs.product(direction) for springs, direction in pairs])

        return product

    def diagonal(self, x_SND: Tensor) -> Tensor:
        """Numbers of a point's edges: along an edge its block of the Hessian is 1, across it never more."""
        found = [self._springs(row, points).degrees() for row, points in enumerate(self._points(x_SND))]
        return self.stacked([np.tile(degrees[:, None], (1, PLANE)) for degrees in found])

    def _points(self, x_SND: Tensor) -> NDArray[np.float64]:
        points: NDArray[np.float64] = x_SND.detach().cpu().numpy()
        return points

    def _springs(self, row: int, points: Points) -> Springs:
        """Those of a run where it is; what was found last is kept, for runs that stay where they are."""
        seen = self._seen[row]
        if seen is None or not np.array_equal(seen[0], points):
            found = Springs(points, spanning_tree(points), self.instances[row].scale)
            seen = self._seen[row] = (points.copy(), found)
        return seen[1]


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
