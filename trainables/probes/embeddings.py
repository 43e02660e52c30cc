"""Probes of a run's embeddings: similarity of items, principal components, separation of groups."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainables.base import Family, RunConfig
from trainables.probes.base import Probe, Probed
from trainables.probes.nulls import p_value

Floats = NDArray[np.float64]

KEPT_COMPONENTS = 3
"""Number of principal components to keep."""
NOTHING = 1e-9
"""Largest variance per item, in cosines, that rounding can explain."""
SHUFFLES = 999
"""Number of random orders of the items in a permutation test."""
FEWEST_ITEMS = 4
"""Minimum number of items to score. Fewer items have too few orders to separate structure from chance."""


class EmbeddingProbe(Probe):
    """A probe that reads only the items' embeddings."""

    needs_arrays = ("embedding",)

    def run(self, family: Family, run: RunConfig, model: Any, arrays: Mapping[str, NDArray[Any]], data: Any) -> Probed:
        return self.measure(family, arrays["embedding"])

    @abstractmethod
    def measure(self, family: Family, embedding: NDArray[Any]) -> Probed:
        """Probe the embeddings [n, C]; see :meth:`Probe.run`."""


class Similarity(EmbeddingProbe):
    """Cosine similarities of the rows of the array ``embedding`` [n, C], as the array ``similarity`` [n, n], float32.

    If the rows have a meaningful order and n is at least 4, there is one number: ``ring``, in [-2, 2]. It is the mean
    cosine of neighbors on the ring 0, 1, ..., n - 1, 0 minus the mean cosine of all other pairs. It is 0 if the order
    leaves no trace.
    """

    name = "similarity"

    def measure(self, family: Family, embedding: NDArray[Any]) -> Probed:
        similarity = cosines(embedding)
        scored = family.items_in_order and len(similarity) >= FEWEST_ITEMS  # Of three rows, all are neighbors.
        return Probed({"ring": ring(similarity)} if scored else {}, {"similarity": similarity})


def cosines(embedding: NDArray[Any]) -> NDArray[Any]:
    """Return the cosine similarities [n, n] of the rows of [n, C]. A row of zeros has similarity 0 to every row."""
    unit = embedding / np.maximum(np.linalg.norm(embedding, axis=1, keepdims=True), 1e-12)
    similarity: NDArray[Any] = unit @ unit.T
    return similarity


def ring(similarity: NDArray[Any]) -> float:
    """Return the mean cosine of neighbors on the ring minus the mean cosine of other pairs, for similarities [n, n],
    n >= 4."""
    first, second = np.triu_indices(len(similarity), 1)
    pairs = np.asarray(similarity, np.float64)[first, second]
    neighbors = np.isin(second - first, (1, len(similarity) - 1))
    return float(pairs[neighbors].mean()) - float(pairs[~neighbors].mean())


class Components(EmbeddingProbe):
    """Classical scaling of the cosine similarities of the embeddings [n, C] (Torgerson 1952), for n of at least 3.

    These are principal components of a matrix [n, n], so they can be compared across widths. The array ``components``
    [n, 3], float64, has the items' coordinates, the largest component first; the sign of a component makes its largest
    coordinate positive. ``first``, ``second`` and ``third`` are the components' shares of the variance.
    """

    name = "components"

    def measure(self, family: Family, embedding: NDArray[Any]) -> Probed:
        variances, coordinates = principal(cosines(embedding.astype(np.float64)))
        total = float(variances.sum())
        if len(embedding) < KEPT_COMPONENTS or total <= NOTHING * len(embedding):
            return Probed()
        numbers = {name: float(variances[index]) / total for index, name in enumerate(("first", "second", "third"))}
        return Probed(numbers, {"components": coordinates})


def principal(similarity: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return variances [n], descending, and coordinates [n, 3] of similarities [n, n] by classical scaling (Gower 1966,
    Biometrika 53:325). The largest coordinate of an axis is made positive."""
    count = len(similarity)
    centering = np.eye(count) - 1 / count
    values, vectors = np.linalg.eigh(centering @ similarity @ centering)
    variances = np.maximum(values[::-1], 0)
    coordinates = np.zeros((count, KEPT_COMPONENTS))
    coordinates[:, :count] = (vectors[:, ::-1] * np.sqrt(variances))[:, :KEPT_COMPONENTS]
    largest = np.abs(coordinates).argmax(axis=0)
    signs = np.where(coordinates[largest, np.arange(KEPT_COMPONENTS)] < 0, -1.0, 1.0)
    return variances, coordinates * signs


class Separation(EmbeddingProbe):
    """Scores of the cosines of the centered embeddings [n, C] (their mean over items subtracted), for n of at least 4.

    * ``GROUPING``, for every grouping of the items that the family knows (parity is ``mod2``; a prime modulus has
      none): the mean cosine of pairs within a group minus the mean cosine of pairs across groups, in [-2, 2]. Pairs of
      an item with itself are omitted, and so are groupings that lack either kind of pair.
    * ``order``, if the items have a meaningful order: Spearman's rank correlation, over pairs, between their cosine and
      their nearness -|i - j|, in [-1, 1]. It is 1 on a line and lower on a ring.

    ``GROUPING.p`` and ``order.p`` are p-values of a permutation test with the null hypothesis of no relation (Mantel
    1967): the share of 1,000 orders of the items, 999 random orders and the actual order, whose score is at least as
    large. With few items, few orders differ and the smallest possible p is large: .1 for parity modulo 6.
    """

    name = "separation"

    def measure(self, family: Family, embedding: NDArray[Any]) -> Probed:
        embedding = embedding.astype(np.float64)
        count = len(embedding)
        if count < FEWEST_ITEMS:
            return Probed()
        similarity = cosines(embedding - embedding.mean(axis=0))
        first, second = np.triu_indices(count, 1)
        # Both scores are weighted sums over pairs. Reordering the items permutes the values under fixed weights.
        scores: dict[str, tuple[Floats, Floats]] = {}
        for name, labels in family.groupings().items():
            same = np.array(labels)[first] == np.array(labels)[second]
            if same.any() and not same.all():
                scores[name] = similarity, np.where(same, 1 / same.sum(), -1 / (~same).sum())
        if family.items_in_order:
            ranks = np.zeros_like(similarity)
            ranks[first, second] = _standard_ranks(similarity[first, second])
            scores["order"] = ranks + ranks.T, _standard_ranks(first - second) / len(first)
        rng = np.random.default_rng(0)
        orders = np.array([np.arange(count), *(rng.permutation(count) for _ in range(SHUFFLES))])
        numbers: dict[str, float] = {}
        for name, (values, weights) in scores.items():
            score, *null = values[orders[:, first], orders[:, second]] @ weights
            numbers |= {name: float(score), f"{name}.p": p_value(score, null)}
        return Probed(numbers)


def _standard_ranks(values: NDArray[Any]) -> Floats:
    """Return the values' ranks minus their mean, divided by their standard deviation. Return zeros if all are equal."""
    from scipy.stats import rankdata  # Takes half a second to import, and most commands do not probe.

    ranks: Floats = rankdata(values)
    standard: Floats = (ranks - ranks.mean()) / (ranks.std() or 1.0)
    return standard
