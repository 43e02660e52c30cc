"""Chooses the learning rate of every method of a family of races, and the network of those that have one.

    python -m tests.bench.reparametrization_rates heat_diffusion --counted work

Each method runs alone, on seeds that no sweep uses, at a few sizes. A setting's score is the geometric mean, over sizes
and seeds, of what the method spent, in units of the race; where the budget ended first, twice the budget. The table
names the least, and how far its neighbours lie above it.
"""

from __future__ import annotations

import argparse
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import yaml

from trainables.base import Arm, Mix
from trainables.named import load_family

SEEDS = (100, 101, 102)
SIZES = (100, 400, 1600)
GRIDS: dict[str, Sequence[float]] = {
    "adam": (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0),
    "momentum": (0.003, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2),
    "hessian": (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0),
}
SEARCHING = ("cg", "lbfgs", "newton")
NETWORKS: Mapping[str, Sequence[Any]] = {
    "train_weights": (True, False),
    "residual": ("series", "halves"),
    "depth": (1, 2, 4, 8, 16),
}


def spent(kind: Any, settings: Sequence[Any], method: str, nodes: int) -> list[list[float | None]]:
    """For each of some settings, which differ in rates alone, what the method spent on each seed; None where the budget
    ended first. One stack."""
    arm = Arm.of(Mix.of({method: 1.0}))
    runs = [kind(each).config(arm, nodes, seed) for each in settings for seed in SEEDS]
    learner = kind(settings[0]).learner(runs, device="cpu", cache=Path())
    ended: dict[int, Mapping[str, float]] = {}
    while reports := learner.advance():
        ended |= {report.index: report.outcome.measures for report in reports if report.outcome is not None}
    found = [ended[i][f"spent_{method}"] if ended[i][f"arrived_{method}"] else None for i in range(len(runs))]
    return [found[place : place + len(SEEDS)] for place in range(0, len(found), len(SEEDS))]


def scores(kind: Any, settings: Sequence[Any], method: str, sizes: Sequence[int]) -> list[tuple[float, int]]:
    """For each of some settings the geometric mean of what was spent, and how many runs arrived."""
    late = 2.0 * settings[0].race.steps
    by_size = [spent(kind, settings, method, nodes) for nodes in sizes]
    all_spent = [[one for found in by_size for one in found[place]] for place in range(len(settings))]
    return [
        (
            math.exp(sum(math.log(late if one is None else one) for one in each) / len(each)),
            len(each) - each.count(None),
        )
        for each in all_spent
    ]


def main() -> None:
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family")
    parser.add_argument("--counted", default="work")
    parser.add_argument("--graph", default="grid")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--methods", nargs="+", default=(*GRIDS, "laplacian", "random", *SEARCHING))
    parser.add_argument("--rates", type=float, nargs="+", help="in place of those tried otherwise")
    parser.add_argument("--network", action="append", default=[], help="depth=2, in place of all depths tried")
    parser.add_argument("--set", action="append", default=[], help="oscillators.arc=1.5, in place of the default")
    asked = parser.parse_args()
    kind = load_family(asked.family)
    base = kind.Settings()
    base = replace(base, race=replace(base.race, counted=asked.counted, steps=asked.steps))
    if hasattr(base, "graph"):
        base = replace(base, graph=replace(base.graph, kind=asked.graph))
    for part, name, value in (re.split("[.=]", one, maxsplit=2) for one in asked.set):
        base = replace(base, **{part: replace(getattr(base, part), **{name: yaml.safe_load(value)})})
    fixed = dict(pair.split("=") for pair in asked.network)
    grids = {
        name: [type(NETWORKS[name][0])(yaml.safe_load(fixed[name]))] if name in fixed else NETWORKS[name]
        for name in NETWORKS
    }
    runs = len(SEEDS) * len(asked.sizes)
    for method in asked.methods:
        networks = list(itertools.product(*grids.values())) if method in ("hessian", "laplacian", "random") else [()]
        for network in networks:
            said = dict(zip(grids, network, strict=False))
            rates = [0.0] if method in SEARCHING else asked.rates or GRIDS.get(method, GRIDS["hessian"])
            tried = [
                replace(
                    base,
                    rates=replace(base.rates, **({method: rate} if rate else {})),
                    network=replace(base.network, **said),
                )
                for rate in rates
            ]
            found = zip(rates, scores(kind, tried, method, asked.sizes), strict=True)
            cells = "  ".join(f"{rate:g}: {mean:.0f} ({arrived}/{runs})" for rate, (mean, arrived) in found)
            print(method, " ".join(f"{key}={value}" for key, value in said.items()), "|", cells, flush=True)


if __name__ == "__main__":
    main()
