"""Whole runs with the native step and with torch's: do they reach the same verdicts, and how long does each take?

    python -m tests.bench.whole_runs                      # 20 runs on flat sums, some ten minutes of one core
    python -m tests.bench.whole_runs --profile laptop --sizes 16 24 --seeds 2

The two steps round differently, so a run's numbers drift apart, as they do on two devices. Its verdict, learned or not,
should stay the same, except near the transition, where it depends on chance. Seconds are computing time, including
evaluations.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import torch

from orchestrator.space.spaces import load_space
from orchestrator.transition.evidence import bar
from tests.bench.machine import describe
from trainables.base import Arm, Family, Outcome
from trainables.transformer import learner
from trainables.transformer.native import library

SPACE, TARGET = "add_vs_add_prod", "add"


def train(family: Family, mix: str, size: int, seed: int, cache: Path, *, native: bool) -> Outcome:
    run = family.config(Arm.parse(mix), size, seed)
    with patch.object(learner, "can_train", return_value=native):
        training = family.learner([run], device="cpu", cache=cache)
    while True:
        [report] = training.advance()
        if report.outcome is not None:
            return report.outcome


def learned(outcome: Outcome) -> bool:
    return outcome.accuracy[TARGET] >= bar(outcome.floor[TARGET])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", default="quick")
    parser.add_argument("--sizes", type=int, nargs="+", default=(6, 10, 14, 20, 28))
    parser.add_argument("--mixes", nargs="+", default=("add", "add+prod"))
    parser.add_argument("--seeds", type=int, default=2)
    given = parser.parse_args(arguments)
    if library() is None:
        parser.error("the native step is not built: install a C++ compiler, then pip install -e .")
    torch.set_num_threads(1)
    family = load_space(SPACE, given.profile).make_family()
    print(", ".join(f"{key} {value}" for key, value in describe("cpu").items()))
    print(
        "| mix | n_embed | seed | native: accuracy, steps, s | torch: accuracy, steps, s | same verdict |\n"
        + "|---" * 6
        + "|"
    )
    runs = [(mix, size, seed) for size in given.sizes for mix in given.mixes for seed in range(given.seeds)]
    agreeing, seconds = 0, [0.0, 0.0]
    with tempfile.TemporaryDirectory() as cache:
        for mix, size, seed in runs:
            ends = [train(family, mix, size, seed, Path(cache), native=native) for native in (True, False)]
            same = learned(ends[0]) == learned(ends[1])
            agreeing += same
            seconds = [sum_s + end.measures["seconds"] for sum_s, end in zip(seconds, ends, strict=True)]
            cells = [f"{end.accuracy[TARGET]:.3f}, {end.steps}, {end.measures['seconds']:.1f}" for end in ends]
            print(f"| {mix} | {size} | {seed} | {' | '.join(cells)} | {'yes' if same else 'no'} |", flush=True)
    print(f"{agreeing} of {len(runs)} verdicts agree; {seconds[0]:.0f} s native, {seconds[1]:.0f} s torch")


if __name__ == "__main__":
    main()
