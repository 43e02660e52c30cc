"""Principal components of how alike a model's embeddings are: where the items lie in the plane that shows most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from trainables.base import Family, RunConfig
from trainables.probes.base import Probe, Probed
from trainables.probes.similarity import cosines

KEPT = 3
NOTHING = 1e-9
"""A variance an item, in cosines, that is rounding."""


class Components(Probe):
    """Classical scaling of the cosine similarities of the embeddings [n, C] (Torgerson 1952): principal components that
    can be compared across widths, since they come from [n, n]. For n of at least 3.

    The array ``components`` [n, 3], float64, holds the items' coordinates, largest component first; each one's sign is
    such that its largest coordinate is positive. ``first``, ``second``, ``third`` are the components' shares of the
    variance, ``effective`` is how many would share it as evenly, (sum of variances)^2 / sum of squares.
    """

    name: ClassVar[str] = "components"
    needs_arrays: ClassVar[tuple[str, ...]] = ("embedding",)

    def run(self, family: Family, run: RunConfig, model: Any, arrays: Mapping[str, NDArray[Any]], data: Any) -> Probed:
        embedding = np.asarray(arrays["embedding"], np.float64)
        if len(embedding) < KEPT:
            return Probed()
        variances, coordinates = principal(cosines(embedding))
        total = float(variances.sum())
        if total <= NOTHING * len(embedding):
            return Probed()
        numbers = {name: float(variances[place]) / total for place, name in enumerate(("first", "second", "third"))}
        numbers["effective"] = total**2 / float((variances**2).sum())
        return Probed(numbers, {"components": coordinates})


def principal(similarity: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Variances [n], descending, and coordinates [n, 3] of a similarity matrix [n, n]."""
    count = len(similarity)
    centring = np.eye(count) - 1 / count
    values, vectors = np.linalg.eigh(centring @ similarity @ centring)
    variances = np.maximum(values[::-1], 0)
    coordinates = vectors[:, ::-1][:, :KEPT] * np.sqrt(variances[:KEPT])
    largest = np.abs(coordinates).argmax(axis=0)
    signs = np.where(coordinates[largest, np.arange(KEPT)] < 0, -1.0, 1.0)
    return variances, coordinates * signs
