"""Synchronization: Kuramoto's oscillators of one frequency on a graph, brought to one phase.

In the frame that turns with them, ``dx_i/dt = sum_j k_ij sin(x_j - x_i)`` is the gradient flow of ``sum_ij k_ij (1 -
cos(x_i - x_j))`` over edges with couplings k (Kuramoto 1975; Acebron et al. 2005, Rev. Mod. Phys. 77, 137). It is 0
where a connected graph has one phase, and nowhere less: the solution is known. Shapes as in stacked.py; E edges of
all graphs of the stack.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sparse
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.reparametrization.graphs import Edges, GraphSettings, adjacency, edges, laplacian, places
from trainables.reparametrization.problems import Curvature, Floats, Instance, Picture, Problem, rng_of
from trainables.reparametrization.settings import OscillatorSettings
from trainables.reparametrization.stacked import joined


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
    bent = coupling * np.cos(start[ends[:, 0]] - start[ends[:, 1]])
    rows, columns = np.concatenate([ends, ends[:, ::-1]]).T
    # An edge that spans more than a quarter of a circle bends the other way: the Hessian at the start has both signs.
    hessian = laplacian(sparse.coo_matrix((np.tile(bent, 2), (rows, columns)), shape=bare.shape).tocsr())
    solution = np.full((nodes, 1), start.mean())
    return PhaseInstance(places(graph, nodes), start[:, None], solution, hessian, laplacian(bare), ends, coupling)


def order(phases: NDArray[np.float64]) -> float:
    """The order parameter of phases: 1 where all are alike, near 0 where they are all over the circle."""
    return float(np.abs(np.exp(1j * phases).mean()))


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

    def _apart(self, x_SND: Tensor) -> Tensor:
        """Differences across edges, [E]."""
        return torch.mv(self._across, x_SND.reshape(-1))

    def _gathered(self, edge_E: Tensor, like_SND: Tensor) -> Tensor:
        """What each edge adds to its first end and takes off its second."""
        return torch.mv(self._back, edge_E).view_as(like_SND)

    def picture(self, row: int, x_ND: Floats) -> Picture:
        """Phases, as how far they lie from the mean one, in (-pi, pi]."""
        turned = np.exp(1j * x_ND[:, 0])
        return Picture(
            np.column_stack([self.instances[row].places, np.angle(turned / turned.mean())]), self.instances[row].ends
        )


def incidence(instance: PhaseInstance) -> Any:
    """The matrix [edges, nodes] that takes phases to their differences across edges."""
    count = len(instance.ends)
    entries = np.tile((1.0, -1.0), count)
    return sparse.csr_matrix(
        (entries, instance.ends.ravel(), np.arange(0, 2 * count + 1, 2)), shape=(count, len(instance.start))
    )
