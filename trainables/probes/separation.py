"""Whether a model's embeddings tell apart what its tasks know of their items: parity, residues, cosets, order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from trainables.base import Family, RunConfig
from trainables.probes.base import Probe, Probed
from trainables.probes.similarity import cosines

Floats = NDArray[np.float64]
Pairs = tuple[NDArray[np.intp], NDArray[np.intp]]

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
        pairs = np.triu_indices(count, 1)
        scores: dict[str, tuple[Floats, Floats]] = {
            name: (similarity, _same_or_not(np.array(labels), pairs))
            for name, labels in family.groupings().items()
            if _has_both(labels)
        }
        if family.items_in_order():
            scores["order"] = _ranked(similarity, pairs), _nearness(pairs)
        rng = np.random.default_rng(0)
        orders = np.array([np.arange(count), *(rng.permutation(count) for _ in range(SHUFFLES))])
        numbers: dict[str, float] = {}
        for name, (values, weights) in scores.items():
            found, *by_chance = values[orders[:, pairs[0]], orders[:, pairs[1]]] @ weights
            as_large = int((np.array(by_chance) >= found - 1e-12).sum())
            numbers |= {name: float(found), f"{name}.p": (1 + as_large) / (1 + SHUFFLES)}
        return Probed(numbers)


# Both scores are weighted sums over pairs of items, and another order of the items moves values between the weights.


def _same_or_not(labels: NDArray[Any], pairs: Pairs) -> Floats:
    """Weights with which a sum over pairs is the mean within the groups of ``labels`` [n] less that between them."""
    same = labels[pairs[0]] == labels[pairs[1]]
    weights: Floats = np.where(same, 1 / same.sum(), -1 / (~same).sum())
    return weights


def _nearness(pairs: Pairs) -> Floats:
    """Weights with which a sum over standard ranks of pairs is their correlation with the ranks of -|i - j|."""
    return _standard(_ranks(-(pairs[1] - pairs[0]).astype(np.float64))) / len(pairs[0])


def _ranked(similarity: Floats, pairs: Pairs) -> Floats:
    """The standard rank of every pair's similarity, as a symmetric matrix [n, n]."""
    ranks = np.zeros_like(similarity)
    ranks[pairs] = _standard(_ranks(similarity[pairs]))
    return ranks + ranks.T


def _standard(values: Floats) -> Floats:
    """These less their mean, over their standard deviation; 0 where there is none."""
    spread = values.std()
    return (values - values.mean()) / spread if spread else np.zeros_like(values)


def _ranks(values: Floats) -> Floats:
    """Ranks from 0, equal values sharing their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts) - 1
    ranks: Floats = (last - (counts - 1) / 2)[inverse]
    return ranks


def _has_both(labels: tuple[int, ...]) -> bool:
    groups = set(labels)
    return 1 < len(groups) < len(labels)
