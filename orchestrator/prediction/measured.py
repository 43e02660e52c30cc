"""How well scores did: each beside the savings that sweeps measured.

Shape legend: P pairs of a target and its partners, D draws.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from orchestrator.prediction.scores import SCORES
from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.transition.types import Density, Verdict

Floats = NDArray[np.float64]

DRAWS = 4000
FEWEST = 4
"""Pairs below which no correlation is stated: of three, one order in six is perfect by chance."""
KNOWN = (Verdict.FOUND, Verdict.ABOVE, Verdict.BELOW, Verdict.UNDECIDED)
"""Verdicts with a posterior of the size; a plateau has no transition to compare."""


@dataclass(frozen=True)
class Saving:
    """ln(size of the baseline / size of the mix) at the transition: posterior mean and standard deviation."""

    mean: float
    spread: float


@dataclass(frozen=True)
class Pair:
    """A target with its partners, on one task: what was predicted and what was measured. ``sweeps`` are the ids whose
    savings it is the mean of; ``before`` says that all of them wrote the prediction down before their first run."""

    about: str
    scores: Mapping[str, float]
    saving: Saving
    sweeps: tuple[str, ...]
    before: bool


@dataclass(frozen=True)
class Merit:
    """How well a score ranks savings.

    ``rank`` is Spearman's correlation over ``pairs``, ``low`` and ``high`` its interval; ``by_chance`` the probability
    that savings in random order rank as well or better. ``error`` is the root mean square error of ln savings
    predicted for each pair by a line through the others (leave-one-out), ``mean_error`` that of the others' mean.
    """

    score: str
    pairs: int
    rank: float
    low: float
    high: float
    by_chance: float
    error: float
    mean_error: float


def saving_of(answer: Answer, mix: MixAnswer) -> Saving | None:
    """What a mix saves in its sweep; None for the baseline, and where either has no posterior of its transition. What
    lies beyond the sizes is counted at the largest, which makes savings smaller, never larger."""
    baseline = answer.mix(answer.baseline_of(mix))
    if mix is baseline:
        return None
    largest = float(answer.counts[-1].size)
    moments = []
    for each in (baseline, mix):
        found = each.target.transition
        if found.verdict not in KNOWN or found.density is None:
            return None
        moments.append(_moments(found.density, largest))
    (own, own_variance), (other, other_variance) = moments
    return Saving(own - other, math.sqrt(own_variance + other_variance))


def mean_saving(savings: Sequence[Saving]) -> Saving:
    """The mean over sweeps and recipes, with the standard error that their own spreads and their scatter give."""
    means = np.array([each.mean for each in savings])
    variance = sum(each.spread**2 for each in savings) / len(savings)
    scatter = float(means.var(ddof=1)) if len(savings) > 1 else 0.0
    return Saving(float(means.mean()), math.sqrt(max(variance, scatter) / len(savings)))


def merits(pairs: Sequence[Pair], confidence: float, rng: np.random.Generator) -> list[Merit]:
    """How well each score did, of those that all pairs have; none for fewer than :data:`FEWEST` pairs.

    Intervals are of a bootstrap over pairs in which every saving is drawn from its posterior, too.
    """
    if len(pairs) < FEWEST:
        return []
    measured = np.array([pair.saving.mean for pair in pairs])
    spread = np.array([pair.saving.spread for pair in pairs])
    found = []
    for score in SCORES:
        if not all(score.name in pair.scores for pair in pairs):
            continue
        predicted = np.array([pair.scores[score.name] for pair in pairs])
        chosen_DP = rng.integers(len(pairs), size=(DRAWS, len(pairs)))
        drawn_DP = measured[chosen_DP] + rng.normal(size=chosen_DP.shape) * spread[chosen_DP]
        tail = (1 - confidence) / 2
        low, high = np.quantile(_spearman(predicted[chosen_DP], drawn_DP), (tail, 1 - tail))
        rank = float(_spearman(predicted[None], measured[None])[0])
        shuffled_DP = rng.permuted(np.tile(measured, (DRAWS, 1)), axis=1)
        by_chance = float((_spearman(np.tile(predicted, (DRAWS, 1)), shuffled_DP) >= rank - 1e-9).mean())
        error, mean_error = _left_out(predicted, measured)
        found.append(Merit(score.name, len(pairs), rank, float(low), float(high), by_chance, error, mean_error))
    return found


def _moments(density: Density, largest: float) -> tuple[float, float]:
    """Mean and variance of ln size."""
    sizes = np.minimum(np.log([*density.sizes, largest]), math.log(largest))
    weights = np.array([*density.weights, density.above])
    weights /= weights.sum()
    mean = float(weights @ sizes)
    return mean, float(weights @ (sizes - mean) ** 2)


def _spearman(one_DP: Floats, other_DP: Floats) -> Floats:
    """Rank correlation row by row; 0 where one of them does not vary, which ranks nothing."""
    ranks = [rankdata(each, axis=1) for each in (one_DP, other_DP)]
    x, y = (each - each.mean(axis=1, keepdims=True) for each in ranks)
    norm = np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1))
    correlation: Floats = np.where(norm > 0, (x * y).sum(axis=1) / np.where(norm > 0, norm, 1.0), 0.0)
    return correlation


def _left_out(predicted: Floats, measured: Floats) -> tuple[float, float]:
    """Root mean square errors of each saving from the others: by a line in the score, and by their mean."""
    lines, means = [], []
    for place in range(len(measured)):
        x, y = np.delete(predicted, place), np.delete(measured, place)
        varies = float(x.var())
        slope = float(((x - x.mean()) * (y - y.mean())).mean()) / varies if varies > 0 else 0.0
        lines.append(measured[place] - (y.mean() + slope * (predicted[place] - x.mean())))
        means.append(measured[place] - y.mean())
    return _root_mean_square(lines), _root_mean_square(means)


def _root_mean_square(values: Sequence[float]) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
