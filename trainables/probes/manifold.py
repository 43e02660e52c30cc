"""Structure of the embeddings that a plane misses: Isomap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from trainables.base import Family, RunConfig
from trainables.probes.base import Probe, Probed
from trainables.probes.components import principal
from trainables.probes.similarity import cosines

FEWEST = 6
NEIGHBOURS = 3
"""Of each item, at first; more where that leaves the items in several parts."""


class Manifold(Probe):
    """Isomap (Tenenbaum, de Silva and Langford 2000, by scikit-learn) on the embeddings [n, C] at unit length, n of at
    least 6: distances along the graph of each item's nearest 3 (or as many as connect it), then classical scaling.

    ``one`` and ``two`` are the residual variances in one and two dimensions, 1 - r^2 between distances along the graph
    and distances in the map, in [0, 1]; ``plane`` is the same for the plane of the first two principal components. A
    curved sheet has ``two`` well below ``plane``; where they are alike, there is nothing that the plane misses. The
    array ``manifold`` [n, 2], float64, holds the items' coordinates.
    """

    name: ClassVar[str] = "manifold"
    needs_arrays: ClassVar[tuple[str, ...]] = ("embedding",)

    def run(self, family: Family, run: RunConfig, model: Any, arrays: Mapping[str, NDArray[Any]], data: Any) -> Probed:
        from scipy.sparse.csgraph import connected_components
        from sklearn.manifold import Isomap
        from sklearn.neighbors import kneighbors_graph

        embedding = np.asarray(arrays["embedding"], np.float64)
        count = len(embedding)
        if count < FEWEST:
            return Probed()
        similarity = cosines(embedding)
        distances = np.sqrt(np.maximum(2 - 2 * similarity, 0))
        np.fill_diagonal(distances, 0)
        if np.ptp(distances[np.triu_indices(count, 1)]) < 1e-9:
            return Probed()  # All equally far apart: there is no shape.
        neighbours = NEIGHBOURS
        while neighbours < count - 1:
            graph = kneighbors_graph(distances, neighbours, metric="precomputed")
            if connected_components(graph, directed=False)[0] == 1:
                break
            neighbours += 1
        fitted = Isomap(n_neighbors=neighbours, n_components=2, metric="precomputed", eigen_solver="dense").fit(
            distances
        )
        along, map_n2 = fitted.dist_matrix_, np.asarray(fitted.embedding_, np.float64)
        numbers = {
            "one": residual(along, map_n2[:, :1]),
            "two": residual(along, map_n2),
            "plane": residual(along, principal(similarity)[1][:, :2]),
        }
        return Probed(numbers, {"manifold": map_n2})


def residual(distances: NDArray[Any], coordinates: NDArray[Any]) -> float:
    """1 - r^2 between distances [n, n] and those between coordinates [n, d]; 1 where either does not vary."""
    pairs = np.triu_indices(len(distances), 1)
    apart = np.linalg.norm(coordinates[pairs[0]] - coordinates[pairs[1]], axis=1)
    given = distances[pairs]
    if np.ptp(apart) < 1e-12 or np.ptp(given) < 1e-12:
        return 1.0
    return float(1 - np.corrcoef(given, apart)[0, 1] ** 2)
