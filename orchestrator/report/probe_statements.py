"""Verdicts on statements about numbers of probes: a claim agrees, or is contradicted, if an exact or random permutation
of its runs is as extreme with probability .05 at most. Pure: numbers of runs in, words and verdicts out.

Only runs that learned the target count, unless a statement says otherwise: what a failed model looks like says nothing
of how the task is done.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from orchestrator.home.run_files import numbers_of
from orchestrator.home.sweeps import RunRecord
from orchestrator.report.answer import Answer
from orchestrator.space.expected import Expectation
from orchestrator.transition.types import QUANTILES

PREFIX = "probe/"
FEWEST = 4
"""Runs on each side below which no verdict is given: three cannot reach .05."""
SHUFFLES, ALL_SIGNS = 4999, 12
"""Random permutations behind a p; the gaps of up to so many runs have all their signs tried."""
ROUNDING = 1e-9
"""Differences that are equal but for this share of the largest count as equal."""


class Agreement(StrEnum):
    """A finding's relation to a statement (statements.py)."""

    AGREES = "agrees"
    LARGER = "larger than claimed"
    CONTRADICTED = "contradicted"
    UNDECIDED = "undecided at this scale"
    NOT_RUN = "not run"


Judged = tuple[str, str, Agreement]
"""A mix, the finding in words, and the verdict."""


@dataclass(frozen=True)
class Seen:
    """Numbers of probes in one run of a ``size``, as ``probe/PROBE/NUMBER``. ``learned``: the target."""

    size: int
    learned: bool
    numbers: Mapping[str, float]

    @classmethod
    def of(cls, run: RunRecord, answer: Answer) -> Seen:
        """Return those of a finished run."""
        learned = answer.has_learned(run.outcome.accuracy[answer.target], run.outcome.floor[answer.target])
        return cls(run.config.size, learned, numbers_of(run.directory))


@dataclass(frozen=True)
class Difference:
    """A difference of means with its interval. ``above`` and ``below`` are the probabilities that chance alone makes it
    as large, or as small: a permutation test, which few or equal runs cannot pass."""

    value: float
    low: float
    high: float
    above: float
    below: float


def compare(expected: Expectation, answer: Answer, seen: Mapping[str, Sequence[Seen]]) -> list[Judged]:
    """The verdict for each mix that a statement is about. ``seen`` has the finished runs of each mix."""
    judged = []
    for mix in answer.mixes:
        baseline = answer.baseline_of(mix)
        wanted = mix.mix != baseline if expected.mix == "*" else expected.mix in (mix.mix, mix.plain)
        if wanted and (expected.than or mix.mix != baseline):
            judged.append((mix.mix, *_compare(expected, answer, mix.mix, baseline, seen)))
    return judged


def _compare(
    expected: Expectation, answer: Answer, mix: str, baseline: str, seen: Mapping[str, Sequence[Seen]]
) -> tuple[str, Agreement]:
    """The finding in words, and the verdict."""
    number, than = f"{PREFIX}{expected.number}", f"{PREFIX}{expected.than}"

    def having(mix: str) -> list[Seen]:
        counted = [each for each in seen.get(mix, ()) if each.learned or expected.among == "all"]
        return [each for each in counted if number in each.numbers]

    own, which = having(mix), "runs" if expected.among == "all" else f"runs that learned {answer.target}"
    if expected.than:
        own = other = [each for each in own if than in each.numbers]
        where, named = f"{expected.than} in the same runs", than
    else:
        other = having(baseline)
        where, named = f"{len(other)} of {baseline}", number
    if min(len(own), len(other)) < FEWEST:
        counts = f"{len(own)} of {mix}" if expected.than else f"{len(own)} of {mix} and {len(other)} of {baseline}"
        return f"too few {which} have {expected.number}: {counts}", Agreement.UNDECIDED
    one, two = [each.numbers[number] for each in own], [each.numbers[named] for each in other]
    if expected.than:
        found, how = paired(one, two), "difference"
    else:
        sizes = [[each.size for each in runs] for runs in (own, other)]
        if len(set(sizes[0])) == len(set(sizes[1])) == 1 and sizes[0][0] != sizes[1][0]:
            text = f"{expected.number} is known at size {sizes[0][0]} alone, of {baseline} at {sizes[1][0]} alone"
            return text, Agreement.UNDECIDED
        found, how = at_equal_size(one, two, sizes[0], sizes[1]), "at equal size"
    text = (
        f"{expected.number} {np.mean(one):.2f} in {len(own)} {which}, against "
        f"{np.mean(two):.2f} in {where}; {how} {found.value:+.2f} [{found.low:+.2f}, {found.high:+.2f}]"
    )
    wanted, other_way = (found.above, found.below) if expected.finds == "higher" else (found.below, found.above)
    text += f", permutation p {wanted:.2g}"
    chance = QUANTILES[0] + 1e-9
    if wanted <= chance:
        return text, Agreement.AGREES
    return text, Agreement.CONTRADICTED if other_way <= chance else Agreement.UNDECIDED


def paired(own: Sequence[float], other: Sequence[float]) -> Difference:
    """The mean of own - other with Student's interval, and the probability that gaps of random signs make as much of
    it; both hold the same runs, at least two."""
    gaps = np.subtract(own, other)
    error = float(gaps.std(ddof=1)) / math.sqrt(len(gaps))
    if len(gaps) <= ALL_SIGNS:
        signs = np.array(list(itertools.product((1, -1), repeat=len(gaps))))
    else:
        drawn = np.random.default_rng(0).choice((1, -1), size=(SHUFFLES, len(gaps)))
        signs = np.concatenate([np.ones((1, len(gaps)), dtype=drawn.dtype), drawn])
    return _around(float(gaps.mean()), error, len(gaps) - 1, signs @ gaps / len(gaps))


def at_equal_size(
    own: Sequence[float],
    other: Sequence[float],
    own_sizes: Sequence[int],
    other_sizes: Sequence[int],
) -> Difference:
    """The difference of a number between two groups of runs at equal size, with its interval.

    It is the coefficient of the group in a least-squares regression on the group and ln size. A mix learned by smaller
    models would else be compared at another size than the baseline. Each group holds at least four runs.
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
    # Runs change places between the groups, size taken off both sides (Freedman and Lane 1983).
    without = np.delete(design, 1, axis=1)
    left_y, left_group = (each - without @ np.linalg.lstsq(without, each, rcond=None)[0] for each in (y, group))
    rng = np.random.default_rng(0)
    shuffled = np.array([left_y, *(rng.permutation(left_y) for _ in range(SHUFFLES))])
    null = shuffled @ left_group / max(float(left_group @ left_group), 1e-30)
    return _around(float(weights[1]), error, freedom, null)


def _around(value: float, error: float, freedom: int, null: NDArray[np.float64]) -> Difference:
    """The difference with Student's interval and its place among those of permuted runs, itself counted in."""
    from scipy import stats

    reach = float(stats.t.ppf(QUANTILES[-1], freedom)) * error
    slack = ROUNDING * float(np.abs(null).max())
    above, below = float((null >= value - slack).mean()), float((null <= value + slack).mean())
    return Difference(value, value - reach, value + reach, above, below)
