"""Verdicts on statements about numbers of probes. Pure: numbers of runs in, words and verdicts out.

A claim agrees, or is contradicted, if at most 5% of permutations of its runs are as extreme in that direction. Only
runs that learned the target count, unless a statement includes the others: a model that failed the task does not show
how the task is done.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.verdicts.agreement import Agreement, Judgment
from orchestrator.space.expectations import Expectation
from orchestrator.space.runs import Run
from orchestrator.transition.types import QUANTILES

PREFIX = "probe/"
FEWEST = 4
"""Minimum number of runs on each side for a verdict: three cannot reach .05."""
SHUFFLES = 4999
"""Number of random permutations."""
ALL_SIGNS = 12
"""Maximum number of gaps for which all combinations of signs are tried instead."""
ROUNDING = 1e-9
"""Relative tolerance for equal differences."""


class Difference(NamedTuple):
    """A difference of means, its interval, and permutation p-values ``above`` (at least as large) and ``below``."""

    value: float
    low: float
    high: float
    above: float
    below: float


def judge_number(
    expected: Expectation,
    answer: Answer,
    mix: MixAnswer,
    runs: Mapping[str, Sequence[Run]],
    numbers: Mapping[str, Mapping[str, float]],
) -> Judgment:
    """Return the verdict for one mix.

    Args:
        runs: The finished runs of each mix.
        numbers: Numbers of their probes, as ``probe/PROBE/NUMBER``, by the run's key.
    """
    baseline = answer.baseline_of(mix).mix
    number = f"{PREFIX}{expected.number}"
    than = f"{PREFIX}{expected.than}"

    def with_number(mix: str) -> list[Run]:
        eligible = [run for run in runs.get(mix, ()) if expected.among == "all" or _has_learned(run, answer)]
        return [run for run in eligible if number in numbers[run.key]]

    own = with_number(mix.mix)
    which = "runs" if expected.among == "all" else f"runs that learned {answer.target}"
    if expected.than:
        own = other = [run for run in own if than in numbers[run.key]]
        where = f"{expected.than} in the same runs"
        counts = f"{len(own)} of {mix.mix}"
    else:
        other = with_number(baseline)
        where = f"{len(other)} of {baseline}"
        counts = f"{len(own)} of {mix.mix} and {where}"
    if min(len(own), len(other)) < FEWEST:
        return f"too few {which} have {expected.number}: {counts}", Agreement.UNDECIDED
    one = [numbers[run.key][number] for run in own]
    two = [numbers[run.key][than if expected.than else number] for run in other]
    if expected.than:
        difference, how = paired(one, two), "difference"
    else:
        sizes = [run.config.size for run in own]
        other_sizes = [run.config.size for run in other]
        if len(set(sizes)) == len(set(other_sizes)) == 1 and sizes[0] != other_sizes[0]:
            text = f"{expected.number} is known only at size {sizes[0]} for {mix.mix}"
            return f"{text}, and {other_sizes[0]} for {baseline}", Agreement.UNDECIDED
        difference = at_equal_size(one, two, sizes, other_sizes)
        how = "at equal size"
    claimed, opposite = difference.above, difference.below
    if expected.finds == "lower":
        claimed, opposite = opposite, claimed
    text = (
        f"{expected.number} {np.mean(one):.2f} in {len(own)} {which}, against {np.mean(two):.2f} in {where}; {how} "
        f"{difference.value:+.2f} [{difference.low:+.2f}, {difference.high:+.2f}], permutation p {claimed:.2g}"
    )
    chance = QUANTILES[0] + 1e-9
    return text, Agreement.of(claimed <= chance, opposite <= chance)


def _has_learned(run: Run, answer: Answer) -> bool:
    """Return True if a run learned the target."""
    point = run.point(answer.target)
    return point is not None and answer.has_learned(point)


def paired(own: Sequence[float], other: Sequence[float]) -> Difference:
    """Return the mean of own - other over two or more runs, with Student's interval. Permutations flip the signs."""
    gaps = np.subtract(own, other)
    error = float(gaps.std(ddof=1)) / math.sqrt(len(gaps))
    if len(gaps) <= ALL_SIGNS:
        signs = np.array(list(itertools.product((1, -1), repeat=len(gaps))))
    else:
        random = np.random.default_rng(0).choice((1, -1), size=(SHUFFLES, len(gaps)))
        signs = np.concatenate([np.ones((1, len(gaps)), dtype=random.dtype), random])
    return _difference(float(gaps.mean()), error, len(gaps) - 1, signs @ gaps / len(gaps))


def at_equal_size(
    own: Sequence[float], other: Sequence[float], own_sizes: Sequence[int], other_sizes: Sequence[int]
) -> Difference:
    """Return the difference of a number between two groups of at least four runs, at equal size.

    It is the coefficient of the group in a least-squares regression on group and ln size. Without ln size, a mix that
    learns at smaller sizes would be compared with larger models of the baseline.
    """
    y = np.array([*own, *other])
    group = np.array([1.0] * len(own) + [0.0] * len(other))
    size = np.log([*own_sizes, *other_sizes])
    columns = [np.ones_like(y), group, *([size - size.mean()] if np.ptp(size) > 0 else [])]
    design = np.stack(columns, axis=1)
    inverse = np.linalg.pinv(design.T @ design)
    weights = inverse @ design.T @ y
    freedom = len(y) - design.shape[1]
    rest = y - design @ weights
    error = math.sqrt(float(rest @ rest) / freedom * float(inverse[1, 1]))
    # Runs change places between the groups, after removing the effect of size on both sides (Freedman and Lane 1983).
    others = np.delete(design, 1, axis=1)
    y_rest, group_rest = (vector - others @ np.linalg.lstsq(others, vector, rcond=None)[0] for vector in (y, group))
    rng = np.random.default_rng(0)
    shuffled = np.array([y_rest, *(rng.permutation(y_rest) for _ in range(SHUFFLES))])
    null = shuffled @ group_rest / max(float(group_rest @ group_rest), 1e-30)
    return _difference(float(weights[1]), error, freedom, null)


def _difference(value: float, error: float, freedom: int, null: NDArray[np.float64]) -> Difference:
    """Return the difference with Student's interval and its place among permuted differences, itself included."""
    from scipy.special import stdtrit

    reach = float(stdtrit(freedom, QUANTILES[-1])) * error
    slack = ROUNDING * float(np.abs(null).max())
    above, below = float((null >= value - slack).mean()), float((null <= value + slack).mean())
    return Difference(value, value - reach, value + reach, above, below)
