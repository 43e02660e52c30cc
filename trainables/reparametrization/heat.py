"""Heat diffusion: the temperatures at which heat stands still on a graph some of whose nodes are held.

The Dirichlet energy ``1/2 sum_ij c_ij (x_i - x_j)^2`` over edges with conductances c is least where every free node has
the mean temperature of its neighbours, weighted by conductance. With F the free nodes, B the held ones and L the
Laplacian of the conductances it is ``1/2 x_F' L_FF x_F + x_F' L_FB t_B`` but for a constant: a linear system with a
positive definite matrix, which a sparse factorisation solves. Shapes as in problems.py, N the free nodes.

Every free node begins at a temperature of its own, from N(0, 1). From one common temperature all gradients but those
next to held nodes are 0 at first; Adam makes full steps of rounding errors there, and the step counts are chaotic.
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

from trainables.reparametrization.problems import (
    Curvature,
    Floats,
    Instance,
    Problem,
    SparseStack,
    adjacency,
    edges,
    inner,
    laplacian,
    rng_of,
    weighted,
)
from trainables.reparametrization.settings import GraphSettings, HeatSettings


@dataclass(frozen=True)
class HeatInstance(Instance):
    """One run's problem: the energy is ``1/2 x' hessian x - source' x``, with ``source`` [N, 1]. ``held_at`` holds the
    temperatures of the held nodes."""

    source: Floats
    held_at: Floats


def heat_instance(graph: GraphSettings, heat: HeatSettings, nodes: int, seed: int) -> HeatInstance:
    """The problem of a graph with ``nodes`` nodes, held ones included."""
    bare = adjacency(graph, nodes, rng_of("graph", nodes, seed))
    rng = rng_of("heat", nodes, seed)
    ends = edges(bare)
    whole = laplacian(weighted(ends, np.exp(heat.spread * rng.standard_normal(len(ends))), nodes))
    held = np.sort(rng.choice(nodes, heat.held, replace=False))
    held_at = rng.standard_normal(heat.held)
    free = np.setdiff1d(np.arange(nodes), held)
    # A part of the graph without a held node has no one solution: its first node leaks towards 0.
    parts, part = sparse.csgraph.connected_components(bare, directed=False)
    leak = np.zeros(nodes)
    leak[[int(np.argmax(part == one)) for one in np.setdiff1d(np.arange(parts), part[held])]] = 1.0
    hessian = (whole + sparse.diags(leak)).tocsr()[free][:, free].tocsr()
    hessian.sort_indices()
    source = -(whole[free][:, held] @ held_at)
    return HeatInstance(
        start=rng.standard_normal((len(free), 1)),
        solution=solve(hessian, source)[:, None],
        hessian=hessian,
        laplacian=laplacian(bare)[free][:, free].tocsr(),
        source=source[:, None],
        held_at=held_at,
    )


def solve(matrix: Any, source: Floats) -> Floats:
    """The solution of ``matrix x = source`` by a sparse factorisation, independent of every method that races."""
    # Symmetric and positive definite: no pivots are needed, and an ordering of A + A' keeps the factors sparse.
    factors = linear.splu(
        matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
    )
    found = factors.solve(source)
    refined: Floats = found + factors.solve(source - matrix @ found)
    return refined


class HeatProblem(Problem):
    """The energies of a stack."""

    instances: tuple[HeatInstance, ...]

    def __init__(self, instances: Sequence[HeatInstance], device: torch.device) -> None:
        super().__init__(instances, device)
        self._hessian = SparseStack([one.hessian for one in instances], device)
        self._source_SND = self.stacked([one.source for one in instances])
        self._solution_SND = self.stacked([one.solution for one in instances])
        self._diagonal_SND = self.stacked([one.hessian.diagonal()[:, None] for one in instances])

    @classmethod
    def drawn(cls, settings: Any, nodes: int, seed: int) -> HeatInstance:
        return heat_instance(settings.graph, settings.heat, nodes, seed)

    def evaluate(self, x_SND: Tensor) -> tuple[Tensor, Tensor]:
        """The gradient is ``H x - source``, as one without the solution computes it: exactly 0 wherever both are. With
        e the error the energy is ``1/2 e' H e`` above the least one."""
        gradient_SND = self._hessian(x_SND) - self._source_SND
        return inner(x_SND - self._solution_SND, gradient_SND) / 2, gradient_SND

    def curvature(self, x_SND: Tensor) -> Curvature:
        """The same everywhere."""
        return self._hessian

    def diagonal(self, x_SND: Tensor) -> Tensor:
        return self._diagonal_SND
