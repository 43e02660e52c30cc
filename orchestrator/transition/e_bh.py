"""Decisions over a table of e-values: e-BH of Wang and Ramdas (2022), JRSS B 84, 822."""

from __future__ import annotations

from collections.abc import Sequence


def e_bh(evidence: Sequence[float], share: float) -> tuple[int, ...]:
    """Return the places of the e-values that e-BH keeps, the largest first.

    Among the hypotheses that it calls refuted, at most ``share`` are expected to be true, however they depend on each
    other. It keeps the k largest of K e-values for the largest k of which all are at least K / (share k).
    """
    places = sorted(range(len(evidence)), key=lambda place: -evidence[place])
    kept = [k for k, place in enumerate(places, start=1) if evidence[place] * share * k >= len(evidence)]
    return tuple(places[: kept[-1]]) if kept else ()
