"""Synchronization as a family (the problems are in phases.py and hopf.py)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import numpy as np

from trainables.reparametrization.cost import SINE
from trainables.reparametrization.family import GraphRaceFamily
from trainables.reparametrization.graphs import GraphSettings, adjacency
from trainables.reparametrization.settings import GraphRaceSettings, OscillatorSettings

COUNTED = 1000
"""Nodes of the graph on which neighbours of neighbours are counted."""


@dataclass(frozen=True)
class SynchronizationSettings(GraphRaceSettings):
    """Everything but mix, nodes and seed."""

    oscillators: OscillatorSettings = field(default_factory=OscillatorSettings)


class Synchronization(GraphRaceFamily):
    """Races to one common phase."""

    name = "synchronization"
    version = 1
    Settings = SynchronizationSettings
    settings: SynchronizationSettings

    @property
    def problem_at(self) -> str:
        return f"trainables.reparametrization.{'hopf:HopfProblem' if self._hopf else 'phases:PhaseProblem'}"

    def graphs(self) -> str:
        return f"{super().graphs()}, Hopf-Kuramoto" if self._hopf else super().graphs()

    def neighbours(self) -> float:
        """The Hessian of Hopf-Kuramoto joins the neighbours of neighbours, too."""
        return within_two(self.settings.graph) if self._hopf else super().neighbours()

    def entries_of(self, method: str) -> float:
        return super().neighbours() + 1 if method == "laplacian" else super().entries_of(method)

    def evaluation_flops(self) -> float:
        """An edge takes a difference, a sine and a cosine, the loss and its sum, and what it adds to both ends. Of
        Hopf-Kuramoto also the pull's difference, its product with the edge's entry, and what that adds to both ends; a
        node then a square, a factor and two sums."""
        edge = 4 + 2 * SINE + 4 + 3 + 4
        return self._edges * (edge + 5) + 4 if self._hopf else self._edges * edge

    def hessian_flops(self) -> float:
        """A cosine and three additions or products an edge. Of Hopf-Kuramoto also the square of this matrix, a product
        and a sum for each two entries that meet, an edge's entry for how it turns, and a factor and a sum for all."""
        plain = self._edges * (SINE + 3)
        if not self._hopf:
            return plain
        return plain + 2 * (2 * self._edges + 1) ** 2 + self._edges * (3 + 3) + 2 * self.entries

    def product_flops(self) -> float:
        """A difference across an edge, its product with the edge's entry, and what that adds to both ends. Of
        Hopf-Kuramoto this twice, a product for how the edge turns with its sums, and a factor and two sums a node."""
        return self._edges * (4 + 4 + 3) + 3 if self._hopf else self._edges * 4

    @property
    def _edges(self) -> float:
        """Of the graph, for a node."""
        return self.settings.graph.neighbours / 2

    @property
    def _hopf(self) -> bool:
        return self.settings.oscillators.reactive > 0


@cache
def within_two(graph: GraphSettings) -> float:
    """Other nodes that are two edges away or nearer, in the mean over one graph of :data:`COUNTED` nodes."""
    near = adjacency(graph, COUNTED, np.random.default_rng(0))
    reached = near @ near + near
    return float(reached.nnz) / COUNTED - 1
