"""Synchronization as a family (the problem is in phases.py)."""

from __future__ import annotations

from dataclasses import dataclass, field

from trainables.reparametrization.cost import SINE
from trainables.reparametrization.family import GraphRaceFamily
from trainables.reparametrization.settings import GraphRaceSettings, OscillatorSettings


@dataclass(frozen=True)
class SynchronizationSettings(GraphRaceSettings):
    """Everything but mix, nodes and seed."""

    oscillators: OscillatorSettings = field(default_factory=OscillatorSettings)


class Synchronization(GraphRaceFamily):
    """Races to one common phase."""

    name = "synchronization"
    version = 1
    problem_at = "trainables.reparametrization.phases:PhaseProblem"
    Settings = SynchronizationSettings
    settings: SynchronizationSettings

    def evaluation_flops(self) -> float:
        """Half an edge a neighbour; an edge takes a difference, a sine and a cosine, the loss and its sum, and what it
        adds to both ends."""
        return self.neighbours() / 2 * (4 + 2 * SINE + 4 + 3 + 4)

    def hessian_flops(self) -> float:
        """A cosine and three additions or products an edge."""
        return self.neighbours() / 2 * (SINE + 3)

    def product_flops(self) -> float:
        """A difference across an edge, its product with the edge's entry, and what that adds to both ends."""
        return self.neighbours() / 2 * 4
