"""The settings of synchronization."""

from __future__ import annotations

import math
from dataclasses import dataclass

from trainables.errors import SettingsError


@dataclass(frozen=True)
class OscillatorSettings:
    """Phases begin uniformly in an ``arc`` (radians, up to a full circle). From one shorter than half a circle the
    gradient flow of any connected graph comes to one common phase; from a longer one it may be caught elsewhere, and a
    method that is caught does not arrive. ``spread`` is the standard deviation of ln coupling."""

    arc: float = 2.8
    spread: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.arc <= 2 * math.pi:
            raise SettingsError(f"arc is {self.arc}; it must be in (0, {2 * math.pi:.4f}]", key="oscillators.arc")
        if self.spread < 0:
            raise SettingsError(f"spread is {self.spread}; it must be 0 or more", key="oscillators.spread")
