"""How alike a model's embeddings of its items are and, of ordered ones (numbers): do they lie on a line or a ring?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from trainables.base import Family, RunConfig
from trainables.probes.base import Probe, Probed


class Similarity(Probe):
    """Cosine similarities of the rows of the array ``embedding`` [n, C], as the array ``similarity`` [n, n], float32.

    Where the rows stand in an order that means something, two numbers, each a difference of cosines in [-2, 2], for n
    of at least 4. The pairs that are no neighbours on the ring 0, 1, ..., n - 1, 0 are what both are measured against:

    * ``ring``: the mean cosine of neighbours on the ring, less that of all other pairs. 0 where order leaves no trace.
    * ``ends``: the cosine of the first and the last row, less the same. As large as ``ring`` where the rows close to a
      ring; at or below 0 where they lie along a line. It rests on one pair, so it is noisy for a single run.
    """

    name: ClassVar[str] = "similarity"
    needs_arrays: ClassVar[tuple[str, ...]] = ("embedding",)

    def run(self, family: Family, run: RunConfig, model: Any, arrays: Mapping[str, NDArray[Any]], data: Any) -> Probed:
        similarity = cosines(arrays["embedding"])
        numbers = ring_numbers(similarity) if family.items_in_order() else {}
        return Probed(numbers, {"similarity": similarity})


def cosines(embedding: NDArray[Any]) -> NDArray[Any]:
    """Cosine similarities [n, n] of the rows of [n, C]; a row of zeros is unlike every row."""
    unit = embedding / np.maximum(np.linalg.norm(embedding, axis=1, keepdims=True), 1e-12)
    similarity: NDArray[Any] = unit @ unit.T
    return similarity


def ring_numbers(similarity: NDArray[Any]) -> dict[str, float]:
    """``ring`` and ``ends`` of cosine similarities [n, n]; nothing for n below 4, where all pairs are neighbours."""
    count = len(similarity)
    if count < 4:
        return {}
    first, second = np.triu_indices(count, 1)
    pairs = np.asarray(similarity, np.float64)[first, second]
    apart = second - first
    neighbours = (apart == 1) | (apart == count - 1)
    others = float(pairs[~neighbours].mean())
    return {"ring": float(pairs[neighbours].mean()) - others, "ends": float(similarity[0, -1]) - others}
