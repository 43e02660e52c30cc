"""Whole runs with the native step and with torch's: do they reach the same verdicts, and how long does each take?

    python -m tests.bench.whole_runs                      # 20 runs on flat sums, some ten minutes of one core
    python -m tests.bench.whole_runs --profile laptop --sizes 24 --seeds 10 --control

The two steps round differently, so a run's numbers drift apart, as they do on two devices. Its verdict, learned or not,
should stay the same, except near the transition, where it depends on chance. ``--control`` shows how much is chance: it
trains each run by torch once more, from initial weights of which one is moved by its last bit. Seconds are computing
time, including evaluations.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import torch

from orchestrator.space.spaces import load_space
from orchestrator.transition.evidence import least_accuracy
from tests.bench.machine import describe
from trainables.base import Arm, Family, Outcome
from trainables.transformer import learner
from trainables.transformer.architecture import Layout, ModelSettings
from trainables.transformer.model import initialize
from trainables.transformer.native import library

SPACE, TARGET = "add_vs_add_prod", "add"
NATIVE, TORCH, MOVED = "native", "torch", "torch, one bit moved"


def train(family: Family, mix: str, size: int, seed: int, cache: Path, step: str) -> Outcome:
    run = family.config(Arm.parse(mix), size, seed)
    start = one_bit_moved if step == MOVED else initialize
    with patch.object(learner, "can_train", return_value=step == NATIVE), patch.object(learner, "initialize", start):
        training = family.learner([run], device="cpu", cache=cache)
    while True:
        [report] = training.advance()
        if report.outcome is not None:
            return report.outcome


def one_bit_moved(model: ModelSettings, layout: Layout, generator: torch.Generator) -> torch.Tensor:
    parameters = initialize(model, layout, generator)
    parameters[0] = torch.nextafter(parameters[0], torch.tensor(torch.inf))
    return parameters


def learned(outcome: Outcome) -> bool:
    return outcome.accuracy[TARGET] >= least_accuracy(outcome.floor[TARGET])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", default="quick")
    parser.add_argument("--sizes", type=int, nargs="+", default=(6, 10, 14, 20, 28))
    parser.add_argument("--mixes", nargs="+", default=("add", "add+prod"))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--control", action="store_true", help="also train by torch with one bit moved")
    given = parser.parse_args(arguments)
    if library() is None:
        parser.error("the native step is not built: install a C++ compiler, then pip install -e .")
    torch.set_num_threads(1)
    family = load_space(SPACE, given.profile).make_family()
    print(", ".join(f"{key} {value}" for key, value in describe("cpu").items()))
    steps = (TORCH, NATIVE, MOVED) if given.control else (TORCH, NATIVE)
    print(f"| mix | n_embed | seed | {' | '.join(f'{step}: accuracy, steps, s' for step in steps)} |")
    print("|---" * (3 + len(steps)) + "|")
    runs = [(mix, size, seed) for size in given.sizes for mix in given.mixes for seed in range(given.seeds)]
    ended: dict[str, list[Outcome]] = {step: [] for step in steps}
    with tempfile.TemporaryDirectory() as cache:
        for mix, size, seed in runs:
            for step in steps:
                ended[step].append(train(family, mix, size, seed, Path(cache), step))
            ends = [ended[step][-1] for step in steps]
            cells = [f"{end.accuracy[TARGET]:.3f}, {end.steps}, {end.measures['seconds']:.1f}" for end in ends]
            print(f"| {mix} | {size} | {seed} | {' | '.join(cells)} |", flush=True)
    for step in steps:
        agreeing = sum(learned(one) == learned(other) for one, other in zip(ended[step], ended[TORCH], strict=True))
        seconds = sum(end.measures["seconds"] for end in ended[step])
        print(f"{step}: {agreeing} of {len(runs)} verdicts as torch's, {seconds:.0f} s")


if __name__ == "__main__":
    main()
