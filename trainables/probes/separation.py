"""Whether a model's embeddings tell apart what its tasks know of their items: parity, residues, cosets, order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from trainables.base import Family, RunConfig
from trainables.probes.base import Probe, Probed
from trainables.probes.similarity import cosines

Floats = NDArray[np.float64]

SHUFFLES = 999
"""Orders of the items that a score is measured against."""
FEWEST = 4
"""Items below which nothing is said: there are too few orders to tell chance from structure."""


class Separation(Probe):
    """Scores of the cosines of the embeddings [n, C], their mean over the items taken off, for n of at least 4.

    * ``GROUPING``, for every grouping of the items that the family knows (parity is ``mod2``; none for a prime modulus,
      rather than 0): the mean cosine of pairs within a group less that of pairs of two groups, in [-2, 2]. Pairs of an
      item with itself are left out, and groupings without a pair of either kind.
    * ``order``, where the items stand in an order that means something: Spearman's rank correlation, over pairs, of
      cosines with nearness -|i - j|, in [-1, 1]. 1 on a line, below it on a ring.

    Behind each, as ``GROUPING.p`` and ``order.p``, the share of 999 random orders of the items whose score is as large
    or larger, the one found counted in: a permutation test of no relation (Mantel 1967). With few items few orders
    differ, and the smallest possible p is large: .1 for parity modulo 6.
    """

    name: ClassVar[str] = "separation"
    needs_arrays: ClassVar[tuple[str, ...]] = ("embedding",)

    def run(self, family: Family, run: RunConfig, model: Any, arrays: Mapping[str, NDArray[Any]], data: Any) -> Probed:
        embedding = np.asarray(arrays["embedding"], np.float64)
        count = len(embedding)
        if count < FEWEST:
            return Probed()
        similarity = cosines(embedding - embedding.mean(axis=0))
        scores: dict[str, Callable[[Floats], float]] = {
            name: grouped(np.array(labels)) for name, labels in family.groupings().items() if _has_both(labels)
        }
        if family.items_in_order():
            scores["order"] = ordered(count)
        rng = np.random.default_rng(0)
        orders = [rng.permutation(count) for _ in range(SHUFFLES)]
        numbers: dict[str, float] = {}
        for name, score in scores.items():
            found = score(similarity)
            as_large = sum(score(similarity[np.ix_(order, order)]) >= found - 1e-12 for order in orders)
            numbers |= {name: found, f"{name}.p": (1 + as_large) / (1 + SHUFFLES)}
        return Probed(numbers)


def grouped(labels: NDArray[Any]) -> Callable[[Floats], float]:
    """The mean of a similarity matrix [n, n] within the groups of ``labels`` [n] less that between them."""
    first, second = np.triu_indices(len(labels), 1)
    same = labels[first] == labels[second]

    def score(similarity: Floats) -> float:
        pairs = similarity[first, second]
        return float(pairs[same].mean() - pairs[~same].mean())

    return score


def ordered(count: int) -> Callable[[Floats], float]:
    """Spearman's rank correlation of a similarity matrix [n, n], over pairs, with nearness in the order of its rows."""
    first, second = np.triu_indices(count, 1)
    near = _ranks(-(second - first).astype(np.float64))

    def score(similarity: Floats) -> float:
        ranks = _ranks(similarity[first, second])
        spread = float(ranks.std() * near.std())
        return float(((ranks - ranks.mean()) * (near - near.mean())).mean() / spread) if spread else 0.0

    return score


def _ranks(values: Floats) -> Floats:
    """Ranks from 0, equal values sharing their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts) - 1
    ranks: Floats = (last - (counts - 1) / 2)[inverse]
    return ranks


def _has_both(labels: tuple[int, ...]) -> bool:
    groups = set(labels)
    return 1 < len(groups) < len(labels)
