"""Verdicts on statements about numbers of probes. The functions are pure: they map numbers of runs to verdicts.

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

NUMBER_PREFIX = "probe/"
"""Start of the name of every number of a probe."""
FEWEST_RUNS = 4
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
    own = _measured(expected, answer, runs.get(mix.mix, ()), numbers)
    if expected.than:
        return _judge_in_same_runs(expected, answer, mix.mix, own, numbers)
    baseline = answer.baseline_of(mix).mix
    other = _measured(expected, answer, runs.get(baseline, ()), numbers)
    return _judge_at_equal_size(expected, answer, (mix.mix, own), (baseline, other), numbers)


def _measured(
    expected: Expectation, answer: Answer, runs: Sequence[Run], numbers: Mapping[str, Mapping[str, float]]
) -> list[Run]:
    """Return the runs that a statement is about and that have its number."""
    eligible = [run for run in runs if expected.among == "all" or _has_learned(run, answer)]
    return [run for run in eligible if f"{NUMBER_PREFIX}{expected.number}" in numbers[run.key]]


def _judge_in_same_runs(
    expected: Expectation,
    answer: Answer,
    mix: str,
    measured: Sequence[Run],
    numbers: Mapping[str, Mapping[str, float]],
) -> Judgment:
    """Compare two numbers of the same runs. Each run is a pair of numbers, so the order of runs does not matter."""
    than = f"{NUMBER_PREFIX}{expected.than}"
    runs = [run for run in measured if than in numbers[run.key]]
    if len(runs) < FEWEST_RUNS:
        return _too_few(expected, answer, f"{len(runs)} of {mix}")
    own = [numbers[run.key][f"{NUMBER_PREFIX}{expected.number}"] for run in runs]
    other = [numbers[run.key][than] for run in runs]
    where = f"{expected.than} in the same runs"
    return _judgment(expected, answer, (own, other), where, "difference", paired(own, other))


def _judge_at_equal_size(
    expected: Expectation,
    answer: Answer,
    mix: tuple[str, Sequence[Run]],
    baseline: tuple[str, Sequence[Run]],
    numbers: Mapping[str, Mapping[str, float]],
) -> Judgment:
    """Compare a number in runs of a mix and of its baseline (names and runs), at equal size."""
    (mix_name, mix_runs), (baseline_name, baseline_runs) = mix, baseline
    where = f"{len(baseline_runs)} of {baseline_name}"
    if min(len(mix_runs), len(baseline_runs)) < FEWEST_RUNS:
        return _too_few(expected, answer, f"{len(mix_runs)} of {mix_name} and {where}")
    mix_sizes = [run.config.size for run in mix_runs]
    baseline_sizes = [run.config.size for run in baseline_runs]
    # The effects of the mix and of the size cannot be told apart if each side has one size.
    if len(set(mix_sizes)) == len(set(baseline_sizes)) == 1 and mix_sizes[0] != baseline_sizes[0]:
        text = f"{expected.number} is known only at size {mix_sizes[0]} for {mix_name}"
        return f"{text}, and {baseline_sizes[0]} for {baseline_name}", Agreement.UNDECIDED
    number = f"{NUMBER_PREFIX}{expected.number}"
    own = [numbers[run.key][number] for run in mix_runs]
    other = [numbers[run.key][number] for run in baseline_runs]
    difference = at_equal_size(own, other, mix_sizes, baseline_sizes)
    return _judgment(expected, answer, (own, other), where, "at equal size", difference)


def _too_few(expected: Expectation, answer: Answer, counts: str) -> Judgment:
    """Return that too few runs have the statement's number."""
    return f"too few {_runs_text(expected, answer)} have {expected.number}: {counts}", Agreement.UNDECIDED


def _judgment(
    expected: Expectation,
    answer: Answer,
    values: tuple[Sequence[float], Sequence[float]],
    where: str,
    how: str,
    difference: Difference,
) -> Judgment:
    """Return the verdict on a difference of two groups of values. ``where`` describes the second group, and ``how`` the
    comparison."""
    own, other = values
    claimed, opposite = difference.above, difference.below
    if expected.finds == "lower":
        claimed, opposite = opposite, claimed
    text = (
        f"{expected.number} {np.mean(own):.2f} in {len(own)} {_runs_text(expected, answer)}, against "
        f"{np.mean(other):.2f} in {where}; {how} {difference.value:+.2f} "
        f"[{difference.low:+.2f}, {difference.high:+.2f}], permutation p {claimed:.2g}"
    )
    chance = QUANTILES[0] + 1e-9
    return text, Agreement.of(claimed <= chance, opposite <= chance)


def _runs_text(expected: Expectation, answer: Answer) -> str:
    """Return which runs a statement is about."""
    return "runs" if expected.among == "all" else f"runs that learned {answer.target}"


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
