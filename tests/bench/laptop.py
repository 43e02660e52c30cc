"""What a run of the laptop profile costs a core at each size, before and after: training, evaluation, start-up.

    git worktree add /tmp/before b0869ab
    python -m tests.bench.laptop --before /tmp/before    # ten minutes

Each side is measured by its own code in processes of its own, in turns, with one thread each, on today's recipe of the
profile. ``before`` trains stacks of three, as that commit's profile asks for; ``after`` in stacks as its rule
chooses. Core-seconds are computing time of the process, so that other programs count less; on a quiet
machine they are wall-clock seconds. Whole sweeps: laptop_sweeps.py.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from orchestrator.space.hardware import detect
from orchestrator.space.plain import flatten
from orchestrator.space.spaces import load_space
from orchestrator.stacks import StackSizes
from tests.bench.machine import describe, write_json

ROOT = Path(__file__).parents[2]
SIZES = (4, 8, 16, 24, 32, 48, 64)
TASK = ("modulus", "depth", "max_arguments", "nesting", "held_out_fraction", "train_examples")
TRAINING = ("steps", "batch", "learning_rate", "learning_rate_end", "schedule", "warmup_steps", "weight_decay", "beta1")
RECIPE = frozenset((*TASK, "block", *TRAINING, "beta2", "loss", "windows", "evaluate_every"))
"""Settings of the profile that say what is trained; older checkouts know them too."""
RUNS = 3
"""Of one size wanted at once."""
ROUNDS = 3
BEFORE_STACK = 3

SIDE = """
import json, sys, tempfile, time
from pathlib import Path
begun = time.process_time()
import torch
torch.set_num_threads(1)
from orchestrator.space.spaces import load_space
size, stack, steps, tasks = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
spec = load_space("add_vs_add_prod", "laptop", [
    *sys.argv[5:], f"settings.training.evaluate_every={steps}", "settings.training.stop_when_solved=false"])
family = spec.make_family()
mix = spec.mix_named[tasks]
runs = [family.config(mix, size, seed) for seed in range(stack)]
cache = Path(tempfile.mkdtemp())
family.learner(runs, device="cpu", cache=cache)  # makes the data, which a sweep does once a mix and seed
imported = time.process_time()
learner = family.learner(runs, device="cpu", cache=cache)
ready = time.process_time()
learner.advance()  # warms up
state = [time.process_time()]
learner.advance()
state.append(time.process_time())
learner._evaluate()
state.append(time.process_time())
evaluation = (state[2] - state[1]) / stack
training = (state[1] - state[0]) / stack - evaluation
print(json.dumps({"start_s": ready - imported, "evaluation_s": evaluation, "step_s": training / steps}))
"""
"""Measures one size in one process, by whatever code is on its path: seconds of one run's share."""


def side(tree: Path, size: int, stack: int, steps: int) -> dict[str, float]:
    """Start-up of a stack, evaluation and a step of each run's share, in core-seconds, by the code in ``tree``."""
    words = [sys.executable, "-c", SIDE, str(size), str(stack), str(steps), "add+prod", *recipe()]
    done = subprocess.run(words, cwd=tree, env=environment(tree), capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


@cache
def recipe() -> tuple[str, ...]:
    """Overrides that make the laptop profile of any checkout train what this one's does, at the same sizes."""
    spec = load_space("add_vs_add_prod", "laptop")
    settings = flatten(spec.to_dict()["settings"])
    said = {f"settings.{key}": value for key, value in settings.items() if key.partition(".")[2] in RECIPE}
    return tuple(f"{key}={json.dumps(value)}" for key, value in {**said, "sizes": list(spec.sizes)}.items())


def environment(tree: Path) -> dict[str, str]:
    """This environment with ``tree`` first on the path."""
    return os.environ | {"PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}


def costs(before: Path, sizes: Sequence[int], steps: int) -> list[dict[str, Any]]:
    """A row for each size: both sides' medians of :data:`ROUNDS` turns."""
    rows = []
    sizing = StackSizes(load_space("add_vs_add_prod", "laptop"), detect())
    for size in sizes:
        stacks = {"before": BEFORE_STACK, "after": min(RUNS, sizing.most(size))}
        trees = {"before": before, "after": ROOT}
        turns = [{name: side(tree, size, stacks[name], steps) for name, tree in trees.items()} for _ in range(ROUNDS)]
        row: dict[str, Any] = {"n_embed": size, "stack": stacks}
        for what in ("start_s", "evaluation_s", "step_s"):
            row[what] = {name: statistics.median(turn[name][what] for turn in turns) for name in trees}
        rows.append(row)
        print(f"n_embed {size} measured", file=sys.stderr, flush=True)
    return rows


def costs_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as Markdown, before / after."""
    lines = [
        "| n_embed | stack | core-ms a run and step | after / before | evaluation, ms a run | start of a stack, ms |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:

        def pair(what: str, form: str = ".1f", row: Mapping[str, Any] = row) -> str:
            return " / ".join(format(1e3 * row[what][name], form) for name in ("before", "after"))

        stack = f"{row['stack']['before']} / {row['stack']['after']}"
        ratio = row["step_s"]["after"] / row["step_s"]["before"]
        cells = (pair("step_s", ".2f"), f"{ratio:.2f}", pair("evaluation_s"), pair("start_s", ".0f"))
        lines.append(f"| {row['n_embed']} | {stack} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="a checkout to compare with")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--steps", type=int, default=50, help="between evaluations")
    parser.add_argument("--json", type=Path, default=Path("results/bench/laptop.json"))
    given = parser.parse_args(arguments)
    machine = describe("cpu")
    rows = costs(given.before.resolve(), given.sizes, given.steps)
    write_json(given.json, {"machine": machine, "costs": rows})
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    print(costs_table(rows))


if __name__ == "__main__":
    main()
