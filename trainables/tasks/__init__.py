"""Tasks as text: operations modulo n, permutations, and the nested expressions of both."""

from __future__ import annotations

import hashlib

import numpy as np


def stream(seed: int, *labels: str) -> np.random.Generator:
    """Return the random generator for a seed (>= 0) and a purpose. ``labels`` are the name of the purpose.

    Different labels give independent streams. A stream does not depend on other streams, so the test set of an
    operation is the same in every mix.
    """
    digest = hashlib.sha256("\0".join(labels).encode()).digest()
    words = tuple(int(word) for word in np.frombuffer(digest, dtype="<u4"))
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=words))
