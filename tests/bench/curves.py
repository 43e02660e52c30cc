"""What a sweep claims if learning curves cross, and if they do not.

    python -m tests.bench.curves --sweeps 200 --jobs 2             # searches that locate transitions
    python -m tests.bench.curves --sweeps 200 --aim decide         # searches that end with the decision

On made-up curves, runs of the two mixes learn independently, with a probability that depends on the size. "Needs fewer
parameters" is wrong where the curves cross, or reach 80% at the same size. It is right where one curve is the other,
moved to smaller sizes.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from orchestrator.forecast.simulation import simulate
from orchestrator.report.answer import answer
from orchestrator.report.conclusions import conclusion_of
from orchestrator.search.base import Request
from orchestrator.space.problem import searcher_of
from orchestrator.space.runs import Run
from orchestrator.space.spaces import load_space
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.evidence import Direction
from orchestrator.transition.types import Point
from tests.bench.machine import describe
from trainables.base import Outcome, Status

MIX = "add+prod"
FLOOR, LEARNED = 0.2, 0.97
"""Accuracies of runs that do not learn, and of runs that do."""
TOP = 0.95
"""Largest probability that a run learns."""
Curve = Callable[[float], float]


def rising(middle: float, slope: float) -> Curve:
    """Return a logistic curve in ln size."""
    return lambda size: TOP / (1 + math.exp(-slope * math.log(size / middle)))


def rising_to(eighty: float, slope: float) -> Curve:
    """Return a logistic curve that reaches 80% of its top at this size."""
    return rising(eighty * math.exp(-math.log(4) / slope), slope)


def through(points: dict[int, float], beyond: float) -> Curve:
    """Return a curve through recorded rates, by size."""
    return lambda size: points.get(round(size), beyond)


RECORDED_COST = np.polyfit(np.log([8, 10, 12, 14, 16, 32]), np.log([1.5, 2.07, 2.6, 3.4, 4.3, 13.2]), 1)
"""Seconds of a run of flat sums on one core, as a power law of its size."""


def power_law(size: float) -> float:
    return math.exp(1.5 * math.log(size / 12))


def recorded_cost(size: float) -> float:
    return float(np.exp(np.polyval(RECORDED_COST, math.log(size))))


@dataclass(frozen=True)
class Truth:
    """The probability that a run of the mix and of the baseline learns, and the cost of a run by size."""

    mix: Curve
    baseline: Curve
    cost: Callable[[float], float] = power_law
    max_cost: float | None = None
    max_runs: int = 48
    interaction: float = 0.0
    """Standard deviation of the shift of a mix's curve, in ln size, from the data of one seed to those of another."""


TRUTHS = {
    "slopes 3 and 12, the same middle": Truth(rising(16, 3), rising(16, 12)),
    "slopes 12 and 3, the same middle": Truth(rising(16, 12), rising(16, 3)),
    "slopes 3 and 12, the same 80% point": Truth(rising_to(16, 3), rising_to(16, 12)),
    "slopes 12 and 3, the same 80% point": Truth(rising_to(16, 12), rising_to(16, 3)),
    "0.3 at every size, and steep": Truth(lambda size: 0.3, rising(20, 12)),
    "recorded rates": Truth(  # Flat sums modulo 6 from N(0, .2): add+prod is behind at 7 and 8, and ahead from 9 on.
        through({7: 0.02, 8: 0.29, 9: 0.6, 10: 0.9, 11: 0.95, 12: 0.97, 13: 0.97}, 0.98),
        through(
            {7: 0.31, 8: 0.46, 9: 0.3, 10: 0.33, 11: 0.3, 12: 0.25, 13: 0.4, 14: 0.5, 16: 0.6, 18: 0.7, 20: 0.75}
            | {24: 0.8},
            0.85,
        ),
        recorded_cost,
        180,
    ),
    "equal, data that suit one mix better": Truth(rising(16, 6), rising(16, 6), interaction=0.3),
    "equal, steep, data that suit one mix better": Truth(rising(16, 12), rising(16, 12), interaction=0.3),
    **{
        f"{ratio:g} times smaller, from {middle * ratio:g}, slope {slope}": Truth(
            rising(middle, slope), rising(middle * ratio, slope)
        )
        for ratio in (1.5, 2, 3)
        for middle, slope in ((14, 6), (20, 4), (24, 10))
    },
}


@dataclass(frozen=True)
class Played:
    """A sweep's decision and conclusion, the cost of its runs, and its number of pairs."""

    decided: Direction | None
    claims_parameters: bool
    cost: float
    pairs: int


@cache
def spec_of(aim: str, truth: str, seeds: int | None) -> SweepSpec:
    limits = TRUTHS[truth]
    search = [f"search.aim={aim}", f"search.max_runs={limits.max_runs}", f"search.max_cost={limits.max_cost or 'null'}"]
    search += [] if seeds is None else [f"seeds={seeds}"]
    return load_space("add_vs_add_prod", "quick", search)


def play(aim: str, slots: int, seeds: int | None, name: str, key: int) -> Played:
    """Return one sweep on the curves called ``name``."""
    spec, truth = spec_of(aim, name, seeds), TRUTHS[name]
    searcher = searcher_of(spec)

    def world(request: Request) -> Point:
        is_mix = request.mix == MIX
        drawn = np.random.default_rng([key, is_mix, request.size, request.seed])
        data = np.random.default_rng([key, is_mix, request.seed, 1])
        size = request.size * math.exp(truth.interaction * data.normal())
        learned = drawn.random() < (truth.mix if is_mix else truth.baseline)(size)
        cost = truth.cost(request.size) * (1 + 0.05 * drawn.random())
        return request.point(LEARNED if learned else FLOOR, FLOOR, cost)

    trace = simulate(searcher, world, slots)
    ended = []
    for request, seen in trace.results.items():
        assert seen is not None, "no run of these worlds fails"
        config = spec.config(request)
        tasks = config.mix.tasks
        accuracy, floor = dict.fromkeys(tasks, seen.accuracy), dict.fromkeys(tasks, seen.floor)
        ended.append(Run(request, config, Outcome(Status.FINISHED, 1, accuracy, floor)))
    result = answer(spec, ended, blocks=searcher.blocks)
    conclusion, comparison = conclusion_of(result, result.mix(MIX)), result.mix(MIX).comparison
    pairs = 0 if comparison is None else comparison.pairs
    direction = None if conclusion is None else conclusion.direction
    is_about_parameters = conclusion is not None and conclusion.is_about_parameters
    return Played(direction, is_about_parameters, trace.cost, pairs)


HEAD = (
    "| curves (mix and baseline) | learned more often | less often | needs fewer parameters | more | pairs | cost |\n"
)


def row(name: str, sweeps: Sequence[Played]) -> str:
    """Return the shares of sweeps that decide in each direction, and that claim something about parameters."""
    decided = [np.mean([sweep.decided is direction for sweep in sweeps]) for direction in Direction]
    claimed = [
        np.mean([sweep.claims_parameters and sweep.decided is direction for sweep in sweeps]) for direction in Direction
    ]
    pairs, cost = (np.mean([getattr(sweep, name) for sweep in sweeps]) for name in ("pairs", "cost"))
    return f"| {name} | {' | '.join(f'{share:.2f}' for share in (*decided, *claimed))} | {pairs:.1f} | {cost:.0f} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweeps", type=int, default=200, help="sweeps on each pair of curves (default 200)")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes (default 1)")
    parser.add_argument("--aim", default="locate", choices=("decide", "factor", "locate"), help="default locate")
    parser.add_argument("--slots", type=int, default=2, help="number of parallel runs (default 2)")
    parser.add_argument("--seeds", type=int, help="seeds of the sweep, used again if there are few")
    parser.add_argument("--only", default="", help="only curves whose name contains this text")
    options = parser.parse_args(arguments)
    print(", ".join(f"{key} {value}" for key, value in describe("cpu").items()))
    print(HEAD + "|---" * 7 + "|")
    with ProcessPoolExecutor(options.jobs) as workers:
        for name in TRUTHS:
            if options.only in name:
                sweeps = workers.map(
                    partial(play, options.aim, options.slots, options.seeds, name), range(options.sweeps)
                )
                print(row(name, list(sweeps)), flush=True)


if __name__ == "__main__":
    main()
