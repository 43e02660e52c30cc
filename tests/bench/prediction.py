"""Can the saving of a mix be predicted before training? Five numbers of the tasks, each against two that know nothing.

    python -m tests.bench.prediction        # a minute of one core

The savings are those of the answers beside these results, from N(0, .2): over a comparison's pairs, the share of runs
that learned ADD with the other tasks less that of ADD alone, pooled over sets of seeds. Each mix is predicted by a line
through the others (leave one mix out), and a predictor's worth is the rank correlation of predictions and savings. Its
interval resamples mixes.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr

from orchestrator.catalog.answer_file import read_answer
from orchestrator.catalog.verified_answer import spec_of
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.evidence import RunId, has_learned, pair_of
from orchestrator.transition.types import Floats
from tests.bench.machine import describe
from trainables.base import Arm, Outcome
from trainables.contract.tables import Integers
from trainables.tasks.operations import OPERATIONS

ANSWERS = Path(__file__).parent / "results" / "answers"
STD = 0.2
"""Standard deviation of the initial weights of every run whose saving is predicted."""
SIZE, STEPS, SEEDS = 12, 200, 8
"""Short runs whose scores are a predictor: n_embed, steps and number of seeds, from :data:`FIRST_SEED`."""
FIRST_SEED = 5000
"""No sweep uses these seeds."""
RESAMPLES = 2000


@dataclass(frozen=True, eq=False)
class Mix:
    """A mix whose tasks are trained at the same time. ``spec`` is the space of a sweep that asked about it."""

    name: str
    target: str
    others: tuple[str, ...]
    spec: SweepSpec

    @property
    def modulus(self) -> int:
        return int(self.spec.settings.task.modulus)

    def __str__(self) -> str:
        return f"{self.name} modulo {self.modulus}"


def read_savings() -> dict[Mix, float]:
    """Return the saving of each mix in the files of answers about flat sums, in [-1, 1]."""
    differences: dict[str, list[int]] = defaultdict(list)
    mixes: dict[str, Mix] = {}
    for path in sorted(ANSWERS.glob("*.json")):
        file = read_answer(path)
        spec = spec_of(file)
        if spec.settings.task.depth > 1 or spec.settings.model.init.std != STD:  # These have other recipes.
            continue
        learned: dict[RunId, bool | None] = {
            (run.mix, run.size, run.seed): has_learned(run.accuracy[spec.target], run.floor[spec.target])
            for run in file.runs
            if not run.has_failed
        }
        for block in file.blocks:
            pair = pair_of(block, learned)
            if pair is None or "then" in block.mix:  # Tasks in turn: no number below knows an order.
                continue
            others = tuple(task for task in block.mix.split("+") if task != spec.target)
            mix = Mix(block.mix, spec.target, others, spec)
            mixes.setdefault(str(mix), mix)
            differences[str(mix)].append(bool(pair.mix_learned) - bool(pair.baseline_learned))
    return {mixes[name]: float(np.mean(values)) for name, values in differences.items()}


def answers(task: str, modulus: int, arguments: int) -> Integers:
    """Return a task's answers to all tuples of numbers, flat."""
    table = np.indices((modulus,) * arguments).reshape(arguments, -1).T
    return OPERATIONS[task].build(modulus, np.random.default_rng(0))(table)


def entropy(*values: Integers) -> float:
    """Return the joint entropy of paired values, in nats."""
    _, counts = np.unique(np.stack(values), axis=1, return_counts=True)
    shares = counts / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def best_constant(mix: Mix) -> float:
    """How peaked the other tasks' answers are: the score of the best constant answer."""
    frequencies = [np.bincount(answers(task, mix.modulus, 3)) for task in mix.others]
    return float(np.mean([counts.max() / counts.sum() for counts in frequencies]))


def information(mix: Mix) -> float:
    """What another task's answer tells about the target's, as a share of its entropy."""
    target = answers(mix.target, mix.modulus, 2)
    shares = []
    for task in mix.others:
        other = answers(task, mix.modulus, 2)
        shares.append((entropy(target) + entropy(other) - entropy(target, other)) / entropy(target))
    return float(np.mean(shares))


def shared_quotient(mix: Mix) -> float:
    """How far another task's answer, up to multiples of the smallest divisor of n, follows from arguments up to the
    same: 1 for sums and products modulo a composite n, 0 modulo a prime."""
    divisors = [divisor for divisor in range(2, mix.modulus) if mix.modulus % divisor == 0]
    if not divisors:
        return 0.0
    left, right = np.indices((mix.modulus, mix.modulus)).reshape(2, -1) % divisors[0]
    shares = []
    for task in mix.others:
        other = answers(task, mix.modulus, 2) % divisors[0]
        shared = entropy(left, right) + entropy(other) - entropy(left, right, other)
        shares.append(shared / entropy(other))
    return float(np.mean(shares))


@cache
def short_runs(mix: Mix) -> list[Outcome]:
    """Return runs of the mix that end after :data:`STEPS` steps."""
    settings = mix.spec.settings
    training = replace(settings.training, steps=STEPS, evaluate_every=STEPS)
    family = mix.spec.family_class(replace(settings, training=training))
    ends: list[Outcome] = []
    with tempfile.TemporaryDirectory() as cache_dir:
        for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
            run = family.config(Arm.parse(mix.name), SIZE, seed)
            learner = family.learner([run], device="cpu", cache=Path(cache_dir))
            while (outcome := learner.advance()[0].outcome) is None:
                pass
            ends.append(outcome)
    return ends


def score(mix: Mix, tasks: Sequence[str]) -> float:
    """Return the mean score of short runs at some of their tasks, 0 for a constant answer and 1 for a perfect one."""
    ends = short_runs(mix)
    return float(
        np.mean([(end.accuracy[task] - end.floor[task]) / (1 - end.floor[task]) for end in ends for task in tasks])
    )


PREDICTORS: Mapping[str, Callable[[Mix], float]] = {
    "score of the other tasks' best constant answer": best_constant,
    "what the other tasks tell about the sum": information,
    "quotient shared with the sum": shared_quotient,
    "score at the other tasks after 200 steps": lambda mix: score(mix, mix.others),
    "score at the target after 200 steps": lambda mix: score(mix, [mix.target]),
    "number of other tasks (knows only the share of examples)": lambda mix: -len(mix.others),
    "length of the mix's name (knows nothing)": lambda mix: len(mix.name),
}


def predict_each(values: Floats, savings: Floats) -> Floats:
    """Return each mix's saving as predicted by the line through the others."""
    predicted = []
    for left_out in range(len(savings)):
        others = np.arange(len(savings)) != left_out
        slope, start = (
            np.polyfit(values[others], savings[others], 1) if np.ptp(values[others]) else (0.0, savings[others].mean())
        )
        predicted.append(slope * values[left_out] + start)
    return np.array(predicted)


def rank_correlation(one: Floats, other: Floats) -> float:
    """Return Spearman's correlation, 0 if one side is constant."""
    return float(spearmanr(one, other).statistic) if np.ptp(one) and np.ptp(other) else 0.0


def main(arguments: Sequence[str] | None = None) -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args(
        arguments
    )
    torch.set_num_threads(1)
    print(", ".join(f"{key} {value}" for key, value in describe("cpu").items()))
    savings_of = read_savings()
    mixes = sorted(savings_of, key=savings_of.__getitem__, reverse=True)
    savings = np.array([savings_of[mix] for mix in mixes])
    table = {name: np.array([float(predictor(mix)) for mix in mixes]) for name, predictor in PREDICTORS.items()}
    print("| mix | saving | " + " | ".join(table) + " |\n" + "|---" * (2 + len(table)) + "|")
    for place, mix in enumerate(mixes):
        print(
            f"| {mix} | {savings[place]:+.2f} | "
            + " | ".join(f"{values[place]:.2f}" for values in table.values())
            + " |"
        )
    print("\n| predictor | correlation of ranks | of left-out predictions, with 90% interval |\n|---|---|---|")
    rng = np.random.default_rng(0)
    for name, values in table.items():
        predicted = predict_each(values, savings)
        draws = [rng.integers(len(mixes), size=len(mixes)) for _ in range(RESAMPLES)]
        low, high = np.quantile([rank_correlation(predicted[draw], savings[draw]) for draw in draws], (0.05, 0.95))
        plain = rank_correlation(values, savings)
        print(f"| {name} | {plain:+.2f} | {rank_correlation(predicted, savings):+.2f} [{low:+.2f}, {high:+.2f}] |")


if __name__ == "__main__":
    main()
