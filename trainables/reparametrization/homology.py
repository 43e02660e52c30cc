"""Persistent homology as a family (the problem is in clouds.py)."""

from __future__ import annotations

from dataclasses import dataclass, field

from trainables.base import Mix, SettingsError
from trainables.reparametrization.family import RaceFamily
from trainables.reparametrization.settings import (
    REPARAMETRIZED,
    DiagramSettings,
    NetworkSettings,
    ReparametrizationSettings,
)

PLANE = 2
"""Coordinates of a point."""
TRIANGULATION_EDGES = 3
"""Of a Delaunay triangulation, for a point: by Euler's formula never more."""
LENGTH, IN_CIRCLE = 5, 29
"""Operations of a squared distance, with a comparison; and of the determinant that says whether a point lies in the
circle through three others (six differences, three sums of squares, a 3 x 3 determinant)."""
TRIANGULATION_BYTES = 1000
"""For a point, while its tree is found: 10^5 points were seen to take 65 MB."""


@dataclass(frozen=True)
class HomologySettings(ReparametrizationSettings):
    """Everything but mix, nodes and seed. The network has a feature for each coordinate at least."""

    network: NetworkSettings = field(default_factory=lambda: NetworkSettings(width=PLANE))
    diagram: DiagramSettings = field(default_factory=DiagramSettings)


class PersistentHomology(RaceFamily):
    """Races to a cloud of points with the persistence diagram that is asked for."""

    name = "persistent_homology"
    version = 1
    numbers = PLANE
    problem_at = "trainables.reparametrization.clouds:CloudProblem"
    Settings = HomologySettings
    settings: HomologySettings

    def check(self, mix: Mix, size: int) -> None:
        super().check(mix, size)
        if self.settings.network.width < PLANE and set(mix.tasks) & set(REPARAMETRIZED):
            raise SettingsError(
                f"width is {self.settings.network.width}; with fewer than {PLANE} features a point the network's "
                "output lies on a line",
                key="settings.network.width",
            )

    def graphs(self) -> str:
        return "clouds of points"

    def neighbours(self) -> float:
        """A tree has an edge less than it has nodes."""
        return 2.0

    def evaluation_flops(self) -> float:
        """The least that it takes to know the tree: for every edge of the triangulation its length and that it is one,
        an in-circle test (sorting and joining are not counted). Then, for an edge of the tree, a difference, its
        length, how far that is from what is asked, the loss, and what it adds to both ends."""
        return TRIANGULATION_EDGES * (LENGTH + IN_CIRCLE) + 2 + 4 + 1 + 2 + 3 + 4

    def hessian_flops(self) -> float:
        """An edge's entry from its length, and what it adds to both ends."""
        return 3 + 2

    def product_flops(self) -> float:
        """For an edge of the tree a difference, its part along the edge, the rest with its factor, both ends."""
        return 2 + 5 + 2 + 2 + 2 + 4

    def memory(self, size: int) -> float:
        return super().memory(size) + TRIANGULATION_BYTES * size
