"""Savings and the merit of scores in words."""

from __future__ import annotations

import math

from scipy.stats import norm

from orchestrator.prediction.measured import Merit, Saving


def saving_words(saving: Saving, confidence: float) -> str:
    """``1.8x [1.4, 2.3]``: how many times smaller a model the mix needs, on the size axis."""
    reach = float(norm.ppf(0.5 + confidence / 2)) * saving.spread
    low, middle, high = (math.exp(saving.mean + each) for each in (-reach, 0.0, reach))
    return f"{middle:.2g}x [{low:.2g}, {high:.2g}]"


def merit_words(merit: Merit) -> str:
    """One line on a score."""
    better = "better" if merit.error < merit.mean_error else "no better"
    return (
        f"{merit.score}: rank correlation {merit.rank:+.2f} [{merit.low:+.2f}, {merit.high:+.2f}] over {merit.pairs} "
        f"mixes, as good by chance {merit.by_chance:.0%} of the time; a mix left out is predicted {better} than by the "
        f"others' mean (error in ln size {merit.error:.2f} against {merit.mean_error:.2f})"
    )
