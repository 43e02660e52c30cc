"""The problems of the races: heat diffusion, synchronization and persistent homology, and their graphs.

**Heat diffusion.** The Dirichlet energy ``1/2 sum_ij c_ij (x_i - x_j)^2`` over edges with conductances c is least if
every free node has the mean temperature of its neighbors, weighted by conductance. This is a linear system with a
positive definite matrix, which a sparse factorization solves.

**Synchronization.** In the frame that turns with Kuramoto's oscillators of one frequency, the flow ``dx_i/dt = sum_j
k_ij sin(x_j - x_i)`` descends ``sum_ij k_ij (1 - cos(x_i - x_j))`` over edges with couplings k (Kuramoto 1975; Acebron
et al. 2005, Rev. Mod. Phys. 77, 137). On a connected graph it is 0 only at a common phase.

**Persistent homology.** The target is that all classes of H0 of a cloud of points die at one scale t. The loss is ``1/2
sum_d (d - t)^2`` over the deaths d, the lengths of the minimum spanning tree's edges (graphs.py). Its gradient is the
force of springs of length t along the tree, which changes as points move (Gabrielsson et al. 2020, AISTATS, PMLR 108,
1553; Carriere et al. 2021, ICML, PMLR 139, 1294). It is 0 if all deaths are t, for example for points t apart on a
line. For a fixed tree nothing else is stationary: a leaf's only edge pulls at it unless it is t long. Loops (H1) have
no such solution. Shapes: N nodes of a graph, D numbers per node, E edges.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sparse
import scipy.sparse.linalg as linear

from trainables.reparametrization import graphs
from trainables.reparametrization.graphs import Edges, Floats, across, csr, gathered, laplacian, rng_of
from trainables.reparametrization.settings import PLANE, DiffusionSettings, HomologySettings, SynchronizationSettings

Curvature = Callable[[Floats], Floats]
"""The Hessian's product with a direction, [N, D] to [N, D]."""


@dataclass(eq=False)
class Problem(ABC):
    """A loss on a sparse graph, a function of (settings, nodes, seed) in float64.

    A gradient that is mathematically 0 must be exactly 0: Adam divides a gradient by its own size, so rounding would
    become a full step.

    Attributes:
        start: Unknowns at the start, [N, D].
        solution: Unknowns at the solution, [N, D].
        hessian: Hessian at the start, scipy CSR [N, N].
        laplacian: Laplacian of the graph without weights, scipy CSR [N, N].
    """

    numbers: ClassVar[int] = 1
    """Unknowns per node, D."""
    quadratic: ClassVar[bool] = False
    """True if the loss is quadratic, so that the gradient follows from products with the Hessian."""

    start: Floats
    solution: Floats
    hessian: Any
    laplacian: Any

    @classmethod
    @abstractmethod
    def drawn(cls, settings: Any, nodes: int, seed: int) -> Self:
        """Return the problem of a graph with this many nodes, including nodes with fixed values."""

    @abstractmethod
    def evaluate(self, x_ND: Floats) -> tuple[float, Floats]:
        """Return the loss minus the loss of the solution, and its gradient [N, D]."""

    @abstractmethod
    def curvature(self, x_ND: Floats) -> Curvature:
        """Return the product with the Hessian at ``x_ND``."""

    @abstractmethod
    def diagonal(self, x_ND: Floats) -> Floats:
        """Return the Hessian's diagonal at ``x_ND``, [N, 1], or a positive upper bound, for Jacobi's preconditioner."""

    def digest(self) -> str:
        """Return a hash of the problem. It is the same on processors for which NumPy rounds alike."""
        # A factorization's last bits depend on the processor, so the solution is omitted. The other fields define it.
        digest = hashlib.sha256()
        for value in (getattr(self, field.name) for field in fields(self) if field.name != "solution"):
            for part in (value.data, value.indices, value.indptr) if sparse.issparse(value) else (value,):
                digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()[:32]


@dataclass(eq=False)
class HeatProblem(Problem):
    """The energy ``1/2 x' hessian x - source' x`` of N free nodes, with ``source`` [N, 1] and the temperatures
    ``held_at`` of the held nodes. Free nodes start from N(0, 1): from a common temperature most gradients would be 0,
    and Adam would turn their rounding errors into full steps."""

    quadratic = True

    source: Floats
    held_at: Floats

    @classmethod
    def drawn(cls, settings: DiffusionSettings, nodes: int, seed: int) -> HeatProblem:
        heat = settings.heat
        ends = graphs.edges(settings.graph, nodes, rng_of("graph", nodes, seed))
        rng = rng_of("heat", nodes, seed)
        bare = laplacian(ends, 1.0, nodes)
        whole = laplacian(ends, np.exp(heat.spread * rng.standard_normal(len(ends))), nodes)
        held = np.sort(rng.choice(nodes, heat.held, replace=False))
        held_at = rng.standard_normal(heat.held)
        free = np.setdiff1d(np.arange(nodes), held)
        # A part of the graph without a held node has no unique solution, so its first node leaks toward 0.
        parts, part = sparse.csgraph.connected_components(bare, directed=False)
        leak = np.zeros(nodes)
        leak[[int(np.argmax(part == free_part)) for free_part in np.setdiff1d(np.arange(parts), part[held])]] = 1.0
        hessian = csr((whole + sparse.diags(leak)).tocsr()[free][:, free])
        source = -(whole[free][:, held] @ held_at)
        start = rng.standard_normal((len(free), 1))
        solution = solve(hessian, source)[:, None]
        return cls(start, solution, hessian, bare[free][:, free].tocsr(), source[:, None], held_at)

    def evaluate(self, x_ND: Floats) -> tuple[float, Floats]:
        """Return the loss ``1/2 e' H e`` of the error e, and its gradient."""
        gradient_ND = self.hessian @ x_ND - self.source
        return float(np.vdot(x_ND - self.solution, gradient_ND)) / 2, gradient_ND

    def curvature(self, x_ND: Floats) -> Curvature:
        return lambda v_ND: self.hessian @ v_ND

    def diagonal(self, x_ND: Floats) -> Floats:
        return np.asarray(self.hessian.diagonal()[:, None])


def solve(matrix: Any, source: Floats) -> Floats:
    """Solve ``matrix x = source`` by a sparse factorization, independent of the methods of the races."""
    # A symmetric positive definite matrix needs no pivots, and an ordering of A + A' keeps the factors sparse.
    factors = linear.splu(
        matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
    )
    solution = factors.solve(source)
    return np.asarray(solution + factors.solve(source - matrix @ solution))


@dataclass(eq=False)
class PhaseProblem(Problem):
    """Phases on a graph, with the ``ends`` of its edges and their couplings. ``solution`` is a common phase."""

    ends: Edges
    coupling: Floats

    @classmethod
    def drawn(cls, settings: SynchronizationSettings, nodes: int, seed: int) -> PhaseProblem:
        oscillators = settings.oscillators
        rng = rng_of("phases", nodes, seed)
        ends = graphs.edges(settings.graph, nodes, rng_of("graph", nodes, seed))
        coupling = np.exp(oscillators.spread * rng.standard_normal(len(ends)))
        start = oscillators.arc * rng.random((nodes, 1))
        # An edge that spans more than a quarter circle bends the other way: the Hessian at the start has both signs.
        hessian = laplacian(ends, coupling * np.cos(across(ends, start)[:, 0]), nodes)
        return cls(start, np.full((nodes, 1), start.mean()), hessian, laplacian(ends, 1.0, nodes), ends, coupling)

    def evaluate(self, x_ND: Floats) -> tuple[float, Floats]:
        """Return loss and gradient. With ``1 - cos d = 2 sin(d/2)^2`` for a difference d, nothing cancels."""
        half_ED = across(self.ends, x_ND) / 2
        sine_ED = np.sin(half_ED)
        coupling_ED = self.coupling[:, None]
        loss = float((2 * coupling_ED * np.square(sine_ED)).sum())
        return loss, gathered(self.ends, 2 * coupling_ED * sine_ED * np.cos(half_ED), len(x_ND))

    def curvature(self, x_ND: Floats) -> Curvature:
        bent_ED = self.coupling[:, None] * np.cos(across(self.ends, x_ND))
        return lambda v_ND: gathered(self.ends, bent_ED * across(self.ends, v_ND), len(v_ND))

    def diagonal(self, x_ND: Floats) -> Floats:
        """Return the sum of each node's couplings, an upper bound that is exact at a common phase."""
        return np.bincount(self.ends.ravel(), np.repeat(self.coupling, 2), len(x_ND)).astype(np.float64)[:, None]


Springs = tuple[Edges, Floats, Floats, Floats]
"""A cloud's tree as springs: the edges, and each edge's excess length [E], unit vector [E, D] and curvature across the
edge [E]."""


def springs_of(points: Floats, scale: float) -> Springs:
    """Return the springs of the minimum spanning tree, each of length ``scale``."""
    tree = graphs.spanning_tree(points)
    far_ED = across(tree, points)
    length_E = np.hypot(*far_ED.T)
    # Points in the same place have no direction and do not move.
    inverse_E = np.divide(1.0, length_E, out=np.zeros_like(length_E), where=length_E > 0)
    across_E = np.where(length_E > 0, 1 - scale * inverse_E, 0.0)
    return tree, length_E - scale, far_ED * inverse_E[:, None], across_E


@dataclass(eq=False)
class CloudProblem(Problem):
    """A cloud of points whose classes of H0 should all die at ``scale``.

    ``solution`` is one of many: points on a line. ``hessian`` and ``laplacian`` belong to the tree at the start. The
    Hessian's entry for two points is half of the trace of their 2 x 2 block: its mean over all directions, because a
    network moves points in all of them.
    """

    numbers = PLANE

    scale: float

    def __post_init__(self) -> None:
        self._seen: tuple[Floats, Springs] | None = None

    @classmethod
    def drawn(cls, settings: HomologySettings, nodes: int, seed: int) -> CloudProblem:
        start = math.sqrt(nodes) * rng_of("cloud", nodes, seed).random((nodes, PLANE))
        scale = settings.diagram.deaths * float(graphs.deaths(start).mean())
        tree, _, _, across_E = springs_of(start, scale)
        # An edge's block of the Hessian is 1 along the edge and ``1 - t / length`` across it.
        hessian = laplacian(tree, (1 + across_E) / 2, nodes)
        solution = np.stack([scale * np.arange(nodes), np.zeros(nodes)], axis=1)
        return cls(start, solution, hessian, laplacian(tree, 1.0, nodes), scale)

    def evaluate(self, x_ND: Floats) -> tuple[float, Floats]:
        if not np.isfinite(x_ND).all():
            return math.inf, np.zeros_like(x_ND)
        tree, over_E, along_ED, _ = self._springs(x_ND)
        return float(np.square(over_E).sum() / 2), gathered(tree, over_E[:, None] * along_ED, len(x_ND))

    def curvature(self, x_ND: Floats) -> Curvature:
        tree, _, along_ED, across_E = self._springs(x_ND)

        def product(v_ND: Floats) -> Floats:
            apart_ED = across(tree, v_ND)
            parallel_ED = (apart_ED * along_ED).sum(axis=1, keepdims=True) * along_ED
            return gathered(tree, parallel_ED + across_E[:, None] * (apart_ED - parallel_ED), len(v_ND))

        return product

    def diagonal(self, x_ND: Floats) -> Floats:
        """Return each point's number of edges: an edge's block of the Hessian is 1 along it and at most 1 across it."""
        return np.bincount(self._springs(x_ND)[0].ravel(), minlength=len(x_ND)).astype(np.float64)[:, None]

    def _springs(self, points: Floats) -> Springs:
        """Return the springs at these points. The last result is cached, for a method that does not move."""
        if self._seen is None or not np.array_equal(self._seen[0], points):
            self._seen = (points.copy(), springs_of(points, self.scale))
        return self._seen[1]
