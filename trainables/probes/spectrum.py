"""How a model's embeddings of the numbers 0..n-1 turn on the ring: their Fourier spectrum over Z_n."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from trainables.base import Family, RunConfig
from trainables.probes.base import Probe, Probed

NOTHING = 1e-20
"""Power beside that of the mean that is rounding."""


class Spectrum(Probe):
    """Shares of the embeddings' variance [n, C] at the frequencies 1..n//2, as the array ``spectrum`` [n//2], float64.

    Frequency k turns k times on the way around the ring 0, 1, ..., n-1, 0; for even n, n/2 is parity. The shares sum to
    1. Numbers in random places have as much at every frequency, but half of it at n/2 (Nanda et al. 2023, section 4,
    look at modular addition so). ``largest`` is the largest share, ``frequency`` where it lies, ``effective`` how many
    frequencies would share as evenly: exp of the entropy, from 1 to n//2.

    Only where the items stand in an order that means something, for n of at least 3.
    """

    name: ClassVar[str] = "spectrum"
    needs_arrays: ClassVar[tuple[str, ...]] = ("embedding",)

    def run(self, family: Family, run: RunConfig, model: Any, arrays: Mapping[str, NDArray[Any]], data: Any) -> Probed:
        embedding = np.asarray(arrays["embedding"], np.float64)
        if not family.items_in_order() or len(embedding) < 3:
            return Probed()
        shares = spectrum(embedding)
        held = shares[shares > 0]
        if not held.size:
            return Probed()
        numbers = {
            "largest": float(shares.max()),
            "frequency": float(shares.argmax() + 1),
            "effective": float(np.exp(-(held * np.log(held)).sum())),
        }
        return Probed(numbers, {"spectrum": shares})


def spectrum(embedding: NDArray[Any]) -> NDArray[np.float64]:
    """Shares of variance at the frequencies 1..n//2 of [n, C]; zeros where all rows are equal."""
    power = (np.abs(np.fft.fft(embedding, axis=0)) ** 2).sum(axis=1)
    count = len(embedding)
    # A frequency and its mirror n - k are one; n/2 is its own mirror.
    folded = np.array([power[k] + (power[count - k] if k != count - k else 0.0) for k in range(1, count // 2 + 1)])
    total = folded.sum()
    shares: NDArray[np.float64] = folded / total if total > NOTHING * power[0] else np.zeros_like(folded)
    return shares
