"""The settings of persistent homology."""

from __future__ import annotations

from dataclasses import dataclass

from trainables.errors import SettingsError


@dataclass(frozen=True)
class DiagramSettings:
    """Points begin uniformly in a square, one to the unit of area in the mean. All their classes of H0 are to die at
    one scale, which is ``deaths`` times the mean at the start: 0.5 asks for half of the total persistence."""

    deaths: float = 0.5

    def __post_init__(self) -> None:
        if not self.deaths > 0:
            raise SettingsError(f"deaths is {self.deaths}; it must be above 0", key="diagram.deaths")
