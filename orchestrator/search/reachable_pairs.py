"""How many more pairs of a comparison can count within its budget, and whether they can still decide it.

The bounds here are computed before every decision. Each function therefore returns early if a quick bound suffices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from orchestrator.search.base import Problem
from orchestrator.search.ledger import ComparedRuns, Ledger


@dataclass(frozen=True)
class Shortfall:
    """Why a comparison can no longer be decided.

    Even if all remaining pairs agreed, it would need ``needed`` more, but the budget allows only ``room``.
    ``from_start`` is True if the budget was too small from the beginning. The pairs are trained anyway in that case,
    because the user who chose the budget expects no decision.
    """

    needed: int
    room: int
    from_start: bool = False


@dataclass(frozen=True)
class Budget:
    """Limits of a mix: the number of ``runs``, and their ``cost`` in seconds of training. Infinite if not limited."""

    runs: float
    cost: float


@dataclass(frozen=True)
class Side:
    """One side of a comparison: its mix, its budget, and by size the seeds that the comparison's blocks have used."""

    mix: str
    budget: Budget
    used: dict[int, set[int]]


def most_pairs(problem: Problem, ledger: Ledger, runs: ComparedRuns, sides: tuple[Side, Side], enough: int) -> int:
    """Return how many more pairs of a comparison can count at most, or a smaller number that is at least ``enough``.

    These are its open blocks, and new blocks as far as both budgets and the free seeds allow. Runs in training lower
    the bound only when they end. The bound therefore does not depend on the order in which runs end.
    """
    waiting = len(runs.blocks) - runs.counted
    if waiting >= enough:
        return waiting
    budget = min(_in_budget(problem, ledger, runs, side, enough) for side in sides)
    return waiting + (min(budget, _free(problem, runs, enough)) if waiting + budget >= enough else budget)


def _in_budget(problem: Problem, ledger: Ledger, runs: ComparedRuns, side: Side, enough: int) -> int:
    """Return how many new blocks a side's budget allows at most, or a smaller number that is at least ``enough``.

    Each block needs one more run of this side, unless the run is known already.
    """
    left = side.budget.runs - ledger.ended[side.mix]
    seconds = side.budget.cost - ledger.spent[side.mix]
    if left <= 0 or seconds <= 0:
        return 0
    if ledger.least_cost and seconds < math.inf:
        cheapest = min(ledger.least_cost, *map(ledger.costs.cost, problem.sizes))
        left = min(left, 1 + seconds // cheapest)  # A run may start as long as any time is left.
    if left - len(runs.open_runs) >= enough:  # Even if all these runs are of the mix and unknown.
        return int(left) - len(runs.open_runs)
    unended = {run for both in runs.open_runs.values() for run in both if run.mix == side.mix}
    new = int(max(left - sum((run.mix, run.size, run.seed) not in ledger.learned for run in unended), 0))
    return new if new >= enough else new + _known(problem, ledger, side)


def _known(problem: Problem, ledger: Ledger, side: Side) -> int:
    """Return the number of a side's known runs that the comparison's blocks have not used."""
    runs = ledger.cells.get(side.mix)
    seeds = set(problem.seeds)
    cells = () if runs is None else runs.cells
    return sum(size in problem.sizes and seed in seeds and seed not in side.used.get(size, ()) for size, seed in cells)


def _free(problem: Problem, runs: ComparedRuns, enough: int) -> int:
    """Return the number of blocks of equal size that were not requested yet, counted up to ``enough``."""
    free = 0
    none = set[int]()
    for size in problem.sizes:
        used = runs.seeds_of_mix.get(size, none), runs.seeds_of_baseline.get(size, none)
        if len(problem.seeds) - sum(map(len, used)) >= enough - free:  # Even if all these seeds differ.
            return enough
        free += sum(seed not in used[0] and seed not in used[1] for seed in problem.seeds)
        if free >= enough:
            break
    return free
