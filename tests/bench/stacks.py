"""How soon pairs decide on one GPU, by the number of runs that train together.

    python -m tests.bench.stacks --profile paper --sweeps 100

The searches are simulated on logistic curves, the seconds of a stack are those of the model of costs
(space/stack_sizes.py), and a free GPU asks for runs as the engine does (engine/job_queue.py).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.search.base import Problem, Request
from orchestrator.search.pairs import Pairs
from orchestrator.space.problem import problem_of
from orchestrator.space.spaces import load_space
from orchestrator.space.stack_sizes import GPU_SPEED, GPU_STEP_S, soonest_stack
from orchestrator.system.hardware import Hardware

MACHINE = Hardware(16, 128, 1, "H100", gpu_memory_gb=80)
SLOPE, SPREAD = 5.0, 0.6
"""Slope of the curves in ln size, and half the range of ln of the baseline's middle, around the middle size."""
FIXED = (2, 4, 8, 16, 48)
Sizing = Callable[[int], int]
"""Returns the largest stack at a size."""


@dataclass(frozen=True)
class Sweep:
    """A simulated search: runs and seconds until the decision (None if there was none), and seconds to the end."""

    runs: int | None
    decided_s: float | None
    ended_s: float


@dataclass(frozen=True)
class Costs:
    """Steps of a run, and the seconds that each run of a stack adds to a step, by size."""

    steps: int
    step_s: Mapping[int, float]

    def seconds(self, size: int, runs: int) -> float:
        """Return the seconds of a stack."""
        return self.steps * (GPU_STEP_S + runs * self.step_s[size])


def read(profile: str) -> tuple[Problem, Costs, int]:
    """Return the problem of a profile of the first space, its costs, and the maximum number of runs of a mix."""
    spec = load_space("add_vs_add_prod", profile, (), MACHINE)
    family = spec.make_family()
    configs = {size: spec.config(Request(spec.baseline.name, size, spec.seed)) for size in spec.sizes}
    steps = {family.steps(config) for config in configs.values()}
    step_s = {
        size: GPU_SPEED.seconds(family.flops(config) / family.steps(config), family.parameters(size).total)
        for size, config in configs.items()
    }
    return problem_of(spec, spec.baseline.recipe), Costs(steps.pop(), step_s), spec.search.settings["max_runs"]


def play(problem: Problem, costs: Costs, most_runs: int, most: Sizing, saving: float, key: int) -> Sweep:
    """Simulate a search whose mix needs ``saving`` times fewer parameters than its baseline."""
    middle_size = problem.sizes[len(problem.sizes) // 2]
    searcher = Pairs(problem, aim="decide", max_runs=most_runs, stack=most(middle_size))
    [pair] = problem.comparisons
    middle = middle_size * math.exp(np.random.default_rng([7, key]).uniform(-SPREAD, SPREAD))

    def learns(run: Request) -> bool:
        own_middle = middle / (math.sqrt(saving) if run.mix == pair[0] else 1.0)
        chance = 0.97 / (1 + math.exp(-SLOPE * math.log(run.size / own_middle)))
        return bool(np.random.default_rng([key, run.mix == pair[0], run.size, run.seed]).random() < chance)

    now, waiting = 0.0, list[Request]()
    while waiting or (waiting := searcher.ask(1)):
        size = waiting[0].size
        waiting += searcher.ask(most(size) - len(waiting))
        stack = [run for run in waiting if run.size == size][: most(size)]
        now += costs.seconds(size, len(stack))
        for run in stack:
            searcher.tell(run, run.point(0.97 if learns(run) else 0.1, 0.1, costs.step_s[size]))
        released = searcher.release()
        waiting = [run for run in waiting if run not in stack and run not in released]
        if searcher.design(pair).decided is not None:
            return Sweep(len(searcher.results), now, now)
    return Sweep(None, None, now)


def sizings(costs: Costs) -> dict[str, Sizing]:
    """Return the rule of the product, and stacks of fixed sizes, by their names."""
    fixed = {f"{runs} runs": lambda size, runs=runs: runs for runs in FIXED}
    return {"rule": lambda size: soonest_stack(costs.step_s[size]), **fixed}


def row(name: str, sweeps: Sequence[Sweep]) -> str:
    decided = [sweep for sweep in sweeps if sweep.runs is not None]
    middle = (f"{np.median([getattr(one, what) for one in decided]):.0f}" for what in ("decided_s", "runs"))
    ended = np.mean([sweep.ended_s for sweep in sweeps])
    return " | ".join((f"| {name}", f"{len(decided)} of {len(sweeps)}", *middle, f"{ended:.0f} |"))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", default="paper")
    parser.add_argument("--sweeps", type=int, default=100)
    parser.add_argument("--savings", type=float, nargs="+", default=[1.5, 2.0, 3.6])
    chosen = parser.parse_args(arguments)
    problem, costs, most_runs = read(chosen.profile)
    for saving in chosen.savings:
        print(f"\n{chosen.profile}, {saving:g} times fewer parameters\n")
        print("| stack | decided | seconds to it | runs to it | mean seconds to the end |\n|---|---|---|---|---|")
        for name, most in sizings(costs).items():
            sweeps = [play(problem, costs, most_runs, most, saving, key) for key in range(chosen.sweeps)]
            print(row(name, sweeps), flush=True)


if __name__ == "__main__":
    main()
