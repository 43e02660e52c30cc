"""Heat diffusion as a family (the problem is in heat.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trainables.reparametrization.family import RaceFamily
from trainables.reparametrization.settings import ReparametrizationSettings
from trainables.reparametrization.temperatures import HeatSettings

if TYPE_CHECKING:
    from trainables.reparametrization.heat import HeatInstance, HeatProblem


@dataclass(frozen=True)
class DiffusionSettings(ReparametrizationSettings):
    """Everything but mix, nodes and seed."""

    heat: HeatSettings = field(default_factory=HeatSettings)


class HeatDiffusion(RaceFamily):
    """Races to the temperatures at which heat stands still."""

    name = "heat_diffusion"
    version = 1
    Settings = DiffusionSettings
    settings: DiffusionSettings

    def evaluation_flops(self) -> float:
        """The error, its product with the Hessian, and an inner product."""
        return 2 * self._entries + 3

    def hessian_flops(self) -> float:
        """None: the Hessian of a quadratic loss is what its gradient is computed with."""
        return 0.0

    def instance(self, nodes: int, seed: int) -> HeatInstance:
        from trainables.reparametrization.heat import heat_instance

        return heat_instance(self.settings.graph, self.settings.heat, nodes, seed)

    def problem(self, instances: Sequence[Any], device: str) -> HeatProblem:
        import torch

        from trainables.reparametrization.heat import HeatProblem

        return HeatProblem(instances, torch.device(device))
