"""Processor time of a decision as runs come in, by a search that adds its results up and by one that starts over.

    python -m tests.bench.decisions --mixes 8 --runs 1300

Both choose the same runs, which are not trained: their outcomes are drawn from logistic curves. Every ``--every``-th
decision is also made by a new searcher that is told all results, as a search without a ledger would have to.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence

import numpy as np

from orchestrator.search.base import Problem, Request
from orchestrator.search.pairs import Pairs
from orchestrator.transition.types import Point
from tests.bench.machine import describe

SIZES = (7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20, 24, 28, 32, 40, 48, 64)
SEEDS, SLOTS = 48, 8
WINDOW = 200
"""Decisions in one row of the table."""


def outcome(place: int, request: Request) -> Point:
    """Return the drawn outcome of a run of the mix at ``place``."""
    chance = 1 / (1 + math.exp(-4 * math.log(request.size / (14 + place / 3))))
    learned = np.random.default_rng([place, request.size, request.seed]).random() < chance
    return request.point(0.98 if learned else 0.2, 0.15, request.size * 0.1)


def twin_of(searcher: Pairs) -> Pairs:
    """Return a new searcher with the same results and blocks."""
    twin = Pairs(searcher.problem, aim="locate", max_runs=searcher.settings.max_runs)
    twin.restore(searcher.blocks)
    for request, point in searcher.results.items():
        twin.tell(request, point)
    return twin


def measure(mixes: int, runs: int, every: int) -> list[tuple[int, float, float | None]]:
    """Return the number of runs before each decision, its seconds and, for some, those of a new searcher."""
    names = tuple(f"mix{place}" for place in range(mixes))
    problem = Problem(names, SIZES, tuple(range(SEEDS)), tuple((mix, names[0]) for mix in names[1:]))
    searcher = Pairs(problem, aim="locate", max_runs=runs)
    pending: list[Request] = []
    measured: list[tuple[int, float, float | None]] = []
    while len(searcher.results) < runs:
        seconds_anew = None
        if len(measured) % every == 0:
            twin, begun = twin_of(searcher), time.process_time()
            expected = twin.choose(searcher.pending, SLOTS - len(pending))
            seconds_anew = time.process_time() - begun
            assert expected == searcher.choose(searcher.pending, SLOTS - len(pending))
        begun = time.process_time()
        pending += searcher.ask(SLOTS - len(pending))
        measured.append((len(searcher.results), time.process_time() - begun, seconds_anew))
        if not pending:
            break
        request = pending.pop(0)
        searcher.tell(request, outcome(names.index(request.mix), request))
    return measured


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mixes", type=int, default=8)
    parser.add_argument("--runs", type=int, default=1300)
    parser.add_argument("--every", type=int, default=20)
    options = parser.parse_args(arguments)
    measured = measure(options.mixes, options.runs, options.every)
    print(describe("cpu"))
    print("| runs before | ms per decision: mean, max | ms of a new searcher | ratio |\n|---|---|---|---|")
    for first in range(0, measured[-1][0] + 1, WINDOW):
        rows = [row for row in measured if first <= row[0] < first + WINDOW]
        kept_ms = [1000 * seconds for _, seconds, _ in rows]
        anew_ms = [1000 * seconds for _, _, seconds in rows if seconds is not None]
        mean = float(np.mean(kept_ms))
        other = f"{np.mean(anew_ms):.1f} | {np.mean(anew_ms) / mean:.0f}" if anew_ms else "- | -"
        print(f"| {first} to {first + WINDOW - 1} | {mean:.1f}, {max(kept_ms):.0f} | {other} |")


if __name__ == "__main__":
    main()
