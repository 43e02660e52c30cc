"""Synchronization of Hopf oscillators: Kuramoto's phases, on which amplitudes act back.

An oscillator past its Hopf bifurcation is ``dz_i/dt = (g/2) (1 - |z_i|^2) z_i + ...``, with a fast amplitude. Coupled
dissipatively with strengths k_ij its phases are Kuramoto's (phases.py). Coupled reactively, ``i c sum_j k_ij z_j``, its
amplitude follows the phases, ``|z_i| = 1 - (c/g) s_i`` with ``s_i = sum_j k_ij sin(x_j - x_i)``, and phases then drift
in second order with ``-(c^2/g) d/dx_i 1/2 sum_j s_j^2``: the gradient flow of

    sum_ij k_ij (1 - cos(x_i - x_j)) + (reactive / 2) sum_i s_i^2,    reactive = c^2 / g

(the Hopf-Kuramoto model, Lauter et al. 2015, Phys. Rev. E 91, 012902). The first order of a reactive coupling,
``c sum_j k_ij cos(x_j - x_i)``, is no gradient, and is left out. The loss is 0 where a connected graph has one phase,
and nowhere less. ``s`` is the gradient of Kuramoto's loss but for its sign; with H the Hessian of that, the gradient
here is ``-(1 + reactive H) s``: nothing else is stationary where no edge spans a quarter of a circle, for H then has
no negative eigenvalue. Shapes as in phases.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sparse
import torch
from torch import Tensor

from trainables.reparametrization.graphs import GraphSettings
from trainables.reparametrization.phases import PhaseInstance, PhaseProblem, incidence, phase_instance
from trainables.reparametrization.problems import Curvature, inner
from trainables.reparametrization.settings import OscillatorSettings


@dataclass(frozen=True)
class HopfInstance(PhaseInstance):
    """One run's problem. ``hessian`` reaches the neighbours of neighbours; ``laplacian`` is that of the bare graph."""

    reactive: float


def hopf_instance(graph: GraphSettings, oscillators: OscillatorSettings, nodes: int, seed: int) -> HopfInstance:
    """The problem of a graph with ``nodes`` nodes: graph, couplings and start are those of Kuramoto's."""
    plain = phase_instance(graph, oscillators, nodes, seed)
    across = incidence(plain)
    sine = plain.coupling * np.sin(across @ plain.start[:, 0])
    turned = -sine * (across @ (across.T @ sine))
    squared = plain.hessian @ plain.hessian + across.T @ sparse.diags(turned) @ across
    hessian = (plain.hessian + oscillators.reactive * squared).tocsr()
    hessian.sort_indices()
    return HopfInstance(**vars(plain) | {"hessian": hessian, "reactive": oscillators.reactive})


class HopfProblem(PhaseProblem):
    """The losses of a stack."""

    instances: tuple[HopfInstance, ...]

    def __init__(self, instances: Sequence[HopfInstance], device: torch.device) -> None:
        super().__init__(instances, device)
        self._reactive_S = torch.tensor([one.reactive for one in self.instances], dtype=torch.float64, device=device)

    @classmethod
    def drawn(cls, settings: Any, nodes: int, seed: int) -> HopfInstance:
        return hopf_instance(settings.graph, settings.oscillators, nodes, seed)

    def evaluate(self, x_SND: Tensor) -> tuple[Tensor, Tensor]:
        """From Kuramoto's gradient and its Hessian's product with that: nothing cancels here either."""
        loss_S, pull_SND = super().evaluate(x_SND)
        bent_SND = super().curvature(x_SND)(pull_SND)
        return loss_S + self._reactive_S * inner(pull_SND, pull_SND) / 2, pull_SND + self._scaled(bent_SND)

    def curvature(self, x_SND: Tensor) -> Curvature:
        bend = super().curvature(x_SND)
        pull_SND = super().evaluate(x_SND)[1]
        turned_E = -self._coupling_E * self._apart(x_SND).sin() * self._apart(pull_SND)

        def product(v_SND: Tensor) -> Tensor:
            bent_SND = bend(v_SND)
            turned_SND = self._gathered(turned_E * self._apart(v_SND), v_SND)
            return bent_SND + self._scaled(bend(bent_SND) + turned_SND)

        return product

    def _scaled(self, x_SND: Tensor) -> Tensor:
        return self._reactive_S[:, None, None] * x_SND
