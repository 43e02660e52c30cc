"""Synchronization: Kuramoto's oscillators of one frequency on a graph, brought to one phase.

In the frame that turns with them, ``dx_i/dt = sum_j k_ij sin(x_j - x_i)`` is the gradient flow of ``sum_ij k_ij (1 -
cos(x_i - x_j))`` over edges with couplings k (Kuramoto 1975; Acebron et al. 2005, Rev. Mod. Phys. 77, 137). It is 0
where a connected graph has one phase, and nowhere less: the solution is known. Shapes as in problems.py; E edges of
all graphs of the stack.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sparse
import torch
from torch import Tensor

from trainables.reparametrization.problems import (
    Curvature,
    Edges,
    Floats,
    Instance,
    Problem,
    adjacency,
    edges,
    joined,
    laplacian,
    rng_of,
    weighted,
)
from trainables.reparametrization.settings import GraphSettings, OscillatorSettings


@dataclass(frozen=True)
class PhaseInstance(Instance):
    """One run's problem: the ends of its edges, and their couplings. ``solution`` is one of all that are alike."""

    ends: Edges
    coupling: Floats


def phase_instance(graph: GraphSettings, oscillators: OscillatorSettings, nodes: int, seed: int) -> PhaseInstance:
    """The problem of a graph with ``nodes`` nodes."""
    bare = adjacency(graph, nodes, rng_of("graph", nodes, seed))
    rng = rng_of("phases", nodes, seed)
    ends = edges(bare)
    coupling = np.exp(oscillators.spread * rng.standard_normal(len(ends)))
    start = oscillators.arc * rng.random(nodes)
    # An edge that spans more than a quarter of a circle bends the other way: the Hessian at the start has both signs.
    bent = coupling * np.cos(start[ends[:, 0]] - start[ends[:, 1]])
    solution = np.full((nodes, 1), start.mean())
    hessian = laplacian(weighted(ends, bent, nodes))
    return PhaseInstance(start[:, None], solution, hessian, laplacian(bare), ends, coupling)


class PhaseProblem(Problem):
    """The losses of a stack."""

    instances: tuple[PhaseInstance, ...]

    def __init__(self, instances: Sequence[PhaseInstance], device: torch.device) -> None:
        super().__init__(instances, device)
        incidences = [incidence(one) for one in instances]
        # Sparse products in place of sums by index: these add in one order, whatever the device.
        self._across = joined(incidences, device)
        self._back = joined([one.T.tocsr() for one in incidences], device)
        self._by_run = joined([sparse.csr_matrix(np.ones((1, len(one.coupling)))) for one in instances], device)
        self._coupling_E = torch.from_numpy(np.concatenate([one.coupling for one in instances])).to(device)
        sums = [abs(across).T @ one.coupling for across, one in zip(incidences, instances, strict=True)]
        self._diagonal_SND = self.stacked([one[:, None] for one in sums])

    @classmethod
    def drawn(cls, settings: Any, nodes: int, seed: int) -> PhaseInstance:
        return phase_instance(settings.graph, settings.oscillators, nodes, seed)

    def evaluate(self, x_SND: Tensor) -> tuple[Tensor, Tensor]:
        """With d the difference across an edge, ``1 - cos d`` is ``2 sin(d/2)^2``, in which nothing cancels."""
        half_E = self._apart(x_SND) / 2
        sine_E, cosine_E = half_E.sin(), half_E.cos()
        loss_S = torch.mv(self._by_run, 2 * self._coupling_E * sine_E.square())
        return loss_S, self._gathered(2 * self._coupling_E * sine_E * cosine_E, x_SND)

    def curvature(self, x_SND: Tensor) -> Curvature:
        bent_E = self._coupling_E * self._apart(x_SND).cos()

        def product(v_SND: Tensor) -> Tensor:
            return self._gathered(bent_E * self._apart(v_SND), v_SND)

        return product

    def diagonal(self, x_SND: Tensor) -> Tensor:
        """Sums of a node's couplings: the diagonal where all phases are alike, and nowhere more."""
        return self._diagonal_SND

    def _apart(self, x_SND: Tensor) -> Tensor:
        """Differences across edges, [E]."""
        return torch.mv(self._across, x_SND.reshape(-1))

    def _gathered(self, edge_E: Tensor, like_SND: Tensor) -> Tensor:
        """Sums over edges: added to the first end, taken off the second."""
        return torch.mv(self._back, edge_E).view_as(like_SND)


def incidence(instance: PhaseInstance) -> Any:
    """The matrix [edges, nodes] that takes phases to their differences across edges."""
    count = len(instance.ends)
    entries = np.tile((1.0, -1.0), count)
    return sparse.csr_matrix(
        (entries, instance.ends.ravel(), np.arange(0, 2 * count + 1, 2)), shape=(count, len(instance.start))
    )
