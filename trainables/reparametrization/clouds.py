"""Persistent homology: points of the plane, moved until the diagram of their Vietoris-Rips filtration is as asked.

All classes of H0 are to die at one scale t: the loss is ``1/2 sum_d (d - t)^2`` over the deaths d. A death is the
length of an edge of the minimum spanning tree (trees.py), so the loss is differentiable through the pairing: its
gradient is that of springs of length t along the tree, which changes as points move (Gabrielsson et al. 2020, AISTATS,
PMLR 108, 1553; Carriere et al. 2021, ICML, PMLR 139, 1294). Where the tree changes two edges are equally long, and
the loss is continuous. It is 0 where all deaths are t, as for points t apart on a line, and nowhere less: the solution
is known. As long as a tree stays, nothing else is stationary: the one edge of a leaf pulls at it unless it is t long,
then that of a leaf of the rest does, and so on.

Loops (H1) have neither: what a few of them ask for depends on a few points at a time, and there is no solution to judge
by that a cloud is known to come to.

Shapes as in stacked.py, D = 2; E edges of a tree.
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
from torch import Tensor

from trainables.reparametrization.graphs import Edges, laplacian
from trainables.reparametrization.problems import Curvature, Floats, Instance, Picture, Problem, rng_of
from trainables.reparametrization.settings import DiagramSettings
from trainables.reparametrization.trees import Points, deaths, spanning_tree


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
        places=start,
        start=start,
        solution=np.stack([scale * np.arange(nodes), np.zeros(nodes)], axis=1),
        hessian=laplacian(_weighted(tree, (1 + springs.across) / 2, nodes)),
        laplacian=laplacian(_weighted(tree, np.ones(len(tree)), nodes)),
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

    def _gathered(self, edge_ED: Floats) -> Floats:
        """What each edge adds to its first end and takes off its second, in the order of edges."""
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

    def picture(self, row: int, x_ND: Floats) -> Picture:
        """Points with their tree; the value of a point is the mean length of its edges, in units of the scale."""
        tree = spanning_tree(x_ND)
        length_E = np.hypot(*(x_ND[tree[:, 0]] - x_ND[tree[:, 1]]).T)
        sums = np.bincount(tree.ravel(), np.repeat(length_E, 2), len(x_ND))
        means = sums / np.bincount(tree.ravel(), minlength=len(x_ND))
        return Picture(np.column_stack([x_ND, means / self.instances[row].scale]), tree)

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


def _weighted(tree: Edges, weights: Floats, nodes: int) -> Any:
    """The symmetric matrix of edge weights [N, N], scipy CSR."""
    rows, columns = np.concatenate([tree, tree[:, ::-1]]).T
    return sparse.csr_matrix((np.tile(weights, 2), (rows, columns)), shape=(nodes, nodes))
