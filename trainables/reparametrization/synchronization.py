"""Synchronization as a family (the problem is in phases.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trainables.reparametrization.cost import SINE
from trainables.reparametrization.family import RaceFamily
from trainables.reparametrization.oscillators import OscillatorSettings
from trainables.reparametrization.settings import ReparametrizationSettings

if TYPE_CHECKING:
    from trainables.reparametrization.phases import PhaseInstance, PhaseProblem


@dataclass(frozen=True)
class SynchronizationSettings(ReparametrizationSettings):
    """Everything but mix, nodes and seed."""

    oscillators: OscillatorSettings = field(default_factory=OscillatorSettings)


class Synchronization(RaceFamily):
    """Races to one common phase."""

    name = "synchronization"
    version = 1
    Settings = SynchronizationSettings
    settings: SynchronizationSettings

    def evaluation_flops(self) -> float:
        """Half an edge a neighbour; an edge takes a difference, a sine and a cosine, the loss and its sum, and what it
        adds to both ends."""
        return self.settings.graph.neighbours / 2 * (4 + 2 * SINE + 4 + 3 + 4)

    def hessian_flops(self) -> float:
        """A cosine and three additions or products an edge."""
        return self.settings.graph.neighbours / 2 * (SINE + 3)

    def instance(self, nodes: int, seed: int) -> PhaseInstance:
        from trainables.reparametrization.phases import phase_instance

        return phase_instance(self.settings.graph, self.settings.oscillators, nodes, seed)

    def problem(self, instances: Sequence[Any], device: str) -> PhaseProblem:
        import torch

        from trainables.reparametrization.phases import PhaseProblem

        return PhaseProblem(instances, torch.device(device))
