"""The order in which alike rows of a similarity matrix stand together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform


def clustered_order(similarity: NDArray[Any]) -> NDArray[np.intp]:
    """The rows of cosine similarities [n, n] as leaves of average-linkage clustering of 1 - cosine, turned so that
    neighbours are as alike as the tree allows (Bar-Joseph, Gifford and Jaakkola 2001, Bioinformatics 17 Suppl 1)."""
    gram = np.asarray(similarity, dtype=np.float64)
    if len(gram) < 3:
        return np.arange(len(gram))
    apart = np.clip(1 - (gram + gram.T) / 2, 0.0, None)
    np.fill_diagonal(apart, 0.0)
    return np.asarray(leaves_list(linkage(squareform(apart), "average", optimal_ordering=True)), dtype=np.intp)
