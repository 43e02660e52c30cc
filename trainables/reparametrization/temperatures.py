"""The settings of heat diffusion."""

from __future__ import annotations

from dataclasses import dataclass

from trainables.errors import SettingsError
from trainables.reparametrization.graphs import FEWEST


@dataclass(frozen=True)
class HeatSettings:
    """``held`` nodes, drawn at random, have temperatures from N(0, 1); all others begin at 0. ``spread`` is the
    standard deviation of ln conductance: 0 makes all conductances 1, and the Hessian the Laplacian of the bare graph.
    """

    held: int = 4
    spread: float = 1.0

    def __post_init__(self) -> None:
        if not 1 <= self.held < FEWEST:
            raise SettingsError(f"held is {self.held}; it must be from 1 to {FEWEST - 1}", key="heat.held")
        if self.spread < 0:
            raise SettingsError(f"spread is {self.spread}; it must be 0 or more", key="heat.spread")
