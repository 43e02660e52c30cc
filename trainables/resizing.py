"""An embedding for models of another width, by what it says of how alike its rows are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def resized(table_VC: Floats, width: int, rng: np.random.Generator) -> Floats:
    """A table [V, width] whose rows have the dot products of those of ``table_VC`` [V, C] as nearly as ``width``
    columns can: the largest principal directions (Eckart and Young 1936). Equal to them where ``width`` is at least the
    rank of the table.

    Dot products say nothing of the axes; a random rotation from ``rng`` spreads the directions over all columns, as a
    model that was trained at this width has them.
    """
    u_VK, s_K, _ = np.linalg.svd(table_VC.astype(np.float64), full_matrices=False)
    # The sign of a direction is nobody's choice: the entry that is largest is positive.
    signs = np.sign(u_VK[np.abs(u_VK).argmax(axis=0), np.arange(len(s_K))])
    kept = min(width, len(s_K))
    coordinates = np.zeros((len(table_VC), width))
    coordinates[:, :kept] = (u_VK * signs * s_K)[:, :kept]
    rotation, upper = np.linalg.qr(rng.normal(size=(width, width)))
    turned: Floats = (coordinates @ (rotation * np.sign(np.diag(upper)))).astype(np.float32)
    return turned
