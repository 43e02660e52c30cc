"""The e-BH procedure for several e-values (Wang and Ramdas 2022, JRSS B 84, 822)."""

from __future__ import annotations

from collections.abc import Sequence


def e_bh(evidence: Sequence[float], share: float) -> tuple[int, ...]:
    """Return the indices of the e-values that e-BH rejects, largest e-value first.

    At most ``share`` of the rejected hypotheses are expected to be true, however they depend on each other. Of K
    e-values, e-BH rejects the k largest, for the largest k such that all of them are at least K / (share k).
    """
    order = sorted(range(len(evidence)), key=lambda index: -evidence[index])
    counts = [k for k, index in enumerate(order, start=1) if evidence[index] * share * k >= len(evidence)]
    return tuple(order[: max(counts, default=0)])
