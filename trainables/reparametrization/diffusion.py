"""Heat diffusion as a family (the problem is in heat.py)."""

from __future__ import annotations

from dataclasses import dataclass, field

from trainables.reparametrization.family import GraphRaceFamily
from trainables.reparametrization.settings import GraphRaceSettings, HeatSettings


@dataclass(frozen=True)
class DiffusionSettings(GraphRaceSettings):
    """Everything but mix, nodes and seed."""

    heat: HeatSettings = field(default_factory=HeatSettings)


class HeatDiffusion(GraphRaceFamily):
    """Races to the temperatures at which heat stands still."""

    name = "heat_diffusion"
    version = 1
    problem_at = "trainables.reparametrization.heat:HeatProblem"
    Settings = DiffusionSettings
    settings: DiffusionSettings

    def evaluation_flops(self) -> float:
        """The error, its product with the Hessian, and an inner product."""
        return 2 * self.entries + 3

    def hessian_flops(self) -> float:
        """None: the Hessian of a quadratic loss is what its gradient is computed with."""
        return 0.0

    def product_flops(self) -> float:
        """A product and a sum for each entry."""
        return 2 * self.entries
