"""What many slots are used for: runs begun until every comparison is decided, and until the search ends.

    python -m tests.bench.slots --sweeps 40
    python -m tests.bench.slots --sweeps 3 --most-runs 48

The searches are simulated (forecast/simulation.py) on logistic curves. The first mix is the baseline, and the
others need ``SAVING`` times fewer parameters. Times are in units of a run at the largest size.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.forecast.simulation import simulate
from orchestrator.search.base import Problem, Request
from orchestrator.search.pairs import Aim, Pairs
from orchestrator.search.results import learned_runs
from orchestrator.transition.comparison import compare
from orchestrator.transition.evidence import counted_pairs
from orchestrator.transition.types import Point
from trainables.base import Parameters

SIZES = (7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20, 24, 28, 32, 40, 48, 64)
SEEDS = 200
MIDDLE, SLOPE, SAVING = 18.0, 5.0, 2.5
CASES: tuple[tuple[int, int, Aim], ...] = (
    (2, 2, "decide"),
    (2, 64, "decide"),
    (2, 256, "decide"),
    (8, 8, "locate"),
    (8, 16, "decide"),
    (8, 64, "decide"),
    (8, 64, "locate"),
)
"""Mixes, slots and aim."""


@dataclass(frozen=True)
class Used:
    """One simulated search: runs begun and time when the last comparison was decided (None if none was), and at the
    end; and the comparisons decided."""

    decided_runs: int | None
    decided_at: float | None
    runs: int
    ended_at: float
    decided: int


def chance_of(place: int, size: int) -> float:
    """Return the probability that a run learns, given the place of its mix."""
    middle = MIDDLE / (math.sqrt(SAVING) if place else 1.0)
    return 0.97 / (1 + math.exp(-SLOPE * math.log(size / middle)))


def cost_of(rng: np.random.Generator, size: int) -> float:
    """Draw the time of a run."""
    return (size / SIZES[-1]) * (1 + 0.2 * rng.random())


def search(mixes: int, slots: int, aim: Aim, most_runs: int, key: int) -> Used:
    """Simulate one search with at most this many runs of a mix."""
    names = tuple(f"mix{place}" for place in range(mixes))
    parameters = tuple(float(size) ** 2 for size in SIZES)
    problem = Problem(names, SIZES, tuple(range(SEEDS)), tuple((mix, names[0]) for mix in names[1:]), parameters)
    searcher = Pairs(problem, aim=aim, max_runs=most_runs)

    def world(request: Request) -> Point:
        place = names.index(request.mix)
        rng = np.random.default_rng([key, place, request.size, request.seed])
        learned = rng.random() < chance_of(place, request.size)
        return request.point(0.98 if learned else 0.2, 0.15, cost_of(rng, request.size))

    decided: dict[str, tuple[int, float]] = {}

    def watch(now: float, begun: int) -> None:
        learned = learned_runs(searcher.results, searcher.settings.learned)
        for mix in names[1:]:
            pairs = counted_pairs([block for block in searcher.blocks if block.mix == mix], learned)
            if mix not in decided and compare(pairs, lambda size: Parameters(size, size)).decided is not None:
                decided[mix] = begun, now

    trace = simulate(searcher, world, slots, watch=watch)
    last_runs, last_time = (max(values) for values in zip(*decided.values(), strict=True)) if decided else (None, None)
    return Used(last_runs, last_time, len(trace.results), trace.wall, len(decided))


def row(mixes: int, slots: int, aim: Aim, most_runs: int, sweeps: int) -> str:
    """Return a row of the table: medians over some searches."""
    used = [search(mixes, slots, aim, most_runs, key) for key in range(sweeps)]

    def middle(values: Sequence[float | int | None]) -> str:
        known = [value for value in values if value is not None]
        return f"{np.median(known):.3g}" if known else "-"

    share = sum(one.decided for one in used) / (sweeps * (mixes - 1))
    cells = [
        f"{mixes} mixes, {slots} slots, {aim}",
        f"{share:.0%}",
        middle([one.decided_runs for one in used]),
        middle([one.decided_at for one in used]),
        middle([one.runs for one in used]),
        middle([one.ended_at for one in used]),
    ]
    return "| " + " | ".join(cells) + " |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweeps", type=int, default=40, help="simulated searches a row")
    parser.add_argument("--most-runs", type=int, default=SEEDS, help="runs of a mix at most")
    chosen = parser.parse_args(arguments)
    print("| search | decided | runs begun at the last decision | time of it | runs in all | time in all |")
    print("|---|---|---|---|---|---|")
    for mixes, slots, aim in CASES:
        print(row(mixes, slots, aim, chosen.most_runs, chosen.sweeps), flush=True)


if __name__ == "__main__":
    main()
