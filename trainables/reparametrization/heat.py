"""Heat diffusion: the temperatures at which heat stands still on a graph some of whose nodes are held.

The Dirichlet energy ``1/2 sum_ij c_ij (x_i - x_j)^2`` over edges with conductances c is least where every free node has
the mean temperature of its neighbours, weighted by conductance. With F the free nodes, B the held ones and L the
Laplacian of the conductances it is ``1/2 x_F' L_FF x_F + x_F' L_FB t_B`` but for a constant: a linear system with a
positive definite matrix, which a sparse factorisation solves. Shapes as in stacked.py, N the free nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sparse
import scipy.sparse.linalg as linear
import torch
from torch import Tensor

from trainables.reparametrization.graphs import GraphSettings, adjacency, edges, laplacian, places
from trainables.reparametrization.problems import Curvature, Floats, Instance, Picture, Problem, inner, rng_of
from trainables.reparametrization.settings import HeatSettings
from trainables.reparametrization.stacked import SparseStack

FILLS = ("regular", "scale_free", "small_world", "blocks")
"""Graphs without small separators, whose factors fill up: from :data:`FACTORED` nodes on they are solved by conjugate
gradients, which converge fast on them for the same reason."""
FACTORED = 5000
RESIDUAL = 1e-12
"""Relative residual to which they are solved then: far below what a tolerance of the loss can tell."""


@dataclass(frozen=True)
class HeatInstance(Instance):
    """One run's problem: the energy is ``1/2 x' hessian x - source' x``, with ``source`` [N, 1]. ``free`` are the nodes
    of the whole graph, in order, that are not held; ``held`` the others with their temperatures ``held_at``."""

    source: Floats
    free: Any
    held: Any
    held_at: Floats


def heat_instance(graph: GraphSettings, heat: HeatSettings, nodes: int, seed: int) -> HeatInstance:
    """The problem of a graph with ``nodes`` nodes, held ones included."""
    bare = adjacency(graph, nodes, rng_of("graph", nodes, seed))
    rng = rng_of("heat", nodes, seed)
    ends = edges(bare)
    conductance = np.exp(heat.spread * rng.standard_normal(len(ends)))
    rows, columns = np.concatenate([ends, ends[:, ::-1]]).T
    whole = laplacian(sparse.coo_matrix((np.tile(conductance, 2), (rows, columns)), shape=bare.shape).tocsr())
    held = np.sort(rng.choice(nodes, heat.held, replace=False))
    held_at = rng.standard_normal(heat.held)
    free = np.setdiff1d(np.arange(nodes), held)
    # A part of the graph without a held node has no one solution: its first node leaks towards 0.
    parts, part = sparse.csgraph.connected_components(bare, directed=False)
    cut_off = np.setdiff1d(np.arange(parts), part[held])
    leak = np.zeros(nodes)
    leak[[int(np.argmax(part == one)) for one in cut_off]] = 1.0
    hessian = (whole + sparse.diags(leak)).tocsr()[free][:, free].tocsr()
    hessian.sort_indices()
    source = -(whole[free][:, held] @ held_at)
    solution = solve(hessian, source, graph.kind)
    return HeatInstance(
        places=places(graph, nodes),
        start=np.zeros((len(free), 1)),
        solution=solution[:, None],
        hessian=hessian,
        laplacian=laplacian(bare)[free][:, free].tocsr(),
        source=source[:, None],
        free=free,
        held=held,
        held_at=held_at,
    )


def solve(matrix: Any, source: Floats, kind: str) -> Floats:
    """The solution of ``matrix x = source``, independent of every method that races: by a sparse factorisation, or by
    conjugate gradients where that would fill up."""
    if kind in FILLS and len(source) > FACTORED:
        jacobi = sparse.diags(1 / matrix.diagonal())
        found, failed = linear.cg(matrix, source, rtol=RESIDUAL, atol=0.0, M=jacobi, maxiter=20 * len(source))
        if failed:
            raise RuntimeError(f"conjugate gradients did not reach a residual of {RESIDUAL} in {failed} steps")
    else:
        # Symmetric and positive definite: no pivots are needed, and an ordering of A + A' keeps the factors sparse.
        factors = linear.splu(
            matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
        )
        found = factors.solve(source)
        found = found + factors.solve(source - matrix @ found)
    solution: Floats = found
    return solution


class HeatProblem(Problem):
    """The energies of a stack."""

    instances: tuple[HeatInstance, ...]

    def __init__(self, instances: Sequence[HeatInstance], device: torch.device) -> None:
        super().__init__(instances, device)
        self._hessian = SparseStack([one.hessian for one in instances], device)
        self._solution_SND = self.stacked([one.solution for one in instances])

    @classmethod
    def drawn(cls, settings: Any, nodes: int, seed: int) -> HeatInstance:
        return heat_instance(settings.graph, settings.heat, nodes, seed)

    def evaluate(self, x_SND: Tensor) -> tuple[Tensor, Tensor]:
        """With e the error, the energy lies ``1/2 e' H e`` above the least one, and its gradient is ``H e``: so
        written, nothing cancels near the solution."""
        error_SND = x_SND - self._solution_SND
        gradient_SND = self._hessian(error_SND)
        return inner(error_SND, gradient_SND) / 2, gradient_SND

    def curvature(self, x_SND: Tensor) -> Curvature:
        """The same everywhere."""
        return self._hessian

    def picture(self, row: int, x_ND: Floats) -> Picture:
        """Temperatures, those that are held included; edges between free nodes."""
        one = self.instances[row]
        nodes = np.column_stack([one.places, np.zeros(len(one.places))])
        nodes[one.free, 2], nodes[one.held, 2] = x_ND[:, 0], one.held_at
        return Picture(nodes, one.free[edges(one.laplacian)])
