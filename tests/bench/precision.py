"""What bf16 does to the outcome of small runs: the laptop profile's recipe in bf16 and in float32, run for run.

    python -m tests.bench.precision --sizes 8 14 20 --seeds 3

A stack of the seeds is trained at each size and precision, on a CPU, with bf16's rounding as on a GPU: products of bf16
numbers are summed in float32 and rounded (done in float32 here: a CPU's own took eight times float32's time at
n_embed 14), weights and moments are float32. Only attention's scores differ: a CPU rounds them to bf16 for rows as
short as these, a GPU's kernel keeps them in float32.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from orchestrator.space.spaces import load_space
from tests.bench.machine import describe, write_json
from trainables.base import Learner, Report
from trainables.training import SOLVED

PRECISIONS = ("float32", "bf16")


PRODUCTS = (torch.ops.aten.mm.default, torch.ops.aten.bmm.default, torch.ops.aten.baddbmm.default)


class WideProducts(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Computes products of bf16 matrices in float32, and rounds what comes out."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if func not in PRODUCTS or args[0].dtype != torch.bfloat16:
            return func(*args, **(kwargs or {}))
        return func(*(each.float() for each in args), **(kwargs or {})).to(torch.bfloat16)


@dataclass(frozen=True)
class Row:
    """What one run came to: its test accuracy on the target, the steps it took, its last training loss in nats."""

    mix: str
    size: int
    seed: int
    precision: str
    accuracy: float
    steps: int
    loss: float

    @property
    def learned(self) -> bool:
        """Whether the target was learned, as early stopping counts it."""
        return self.accuracy >= SOLVED


def train(precision: str, mix: str, size: int, seeds: int, steps: int | None, cache: Path) -> list[Row]:
    """The outcomes of one stack: a run for each seed."""
    wanted = [f"settings.training.precision={precision}", *([f"settings.training.steps={steps}"] if steps else [])]
    spec = load_space("add_vs_add_prod", "laptop", wanted)
    family = spec.make_family()
    runs = [family.config(spec.mix_named[mix], size, seed) for seed in range(seeds)]
    learner = family.learner(runs, device="cpu", cache=cache)
    rows = []
    while reports := _advance(learner):
        for report in reports:
            if report.outcome is not None:
                seed, curve = runs[report.index].seed, report.outcome.curve
                accuracy = report.outcome.accuracy[spec.target]
                rows.append(Row(mix, size, seed, precision, accuracy, report.outcome.steps, curve[-1].loss))
    return sorted(rows, key=lambda row: row.seed)


def _advance(learner: Learner) -> list[Report]:
    with WideProducts():  # type: ignore[no-untyped-call]
        return learner.advance()


def table(rows: Sequence[Row]) -> str:
    """The pairs of runs as Markdown, and how many of them agree on what was learned."""
    both: dict[tuple[str, int, int], dict[str, Row]] = {}
    for row in rows:
        both.setdefault((row.mix, row.size, row.seed), {})[row.precision] = row
    lines = ["| mix | n_embed | seed | float32: accuracy, steps, loss | bf16: accuracy, steps, loss | same |"]
    lines.append("|---" * 6 + "|")
    pairs = {cell: found for cell, found in both.items() if len(found) == len(PRECISIONS)}
    for (mix, size, seed), found in pairs.items():
        said = [f"{one.accuracy:.3f}, {one.steps}, {one.loss:.2g}" for one in (found[name] for name in PRECISIONS)]
        lines.append(f"| {mix} | {size} | {seed} | {said[0]} | {said[1]} | {'yes' if _agree(found) else '**no**'} |")
    agree = sum(map(_agree, pairs.values()))
    return "\n".join([*lines, f"\n{agree} of {len(pairs)} pairs of runs agree on whether the target is learned."])


def _agree(found: dict[str, Row]) -> bool:
    return len({row.learned for row in found.values()}) == 1


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Train, print the table after every size, and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[8, 14, 20])
    parser.add_argument("--mixes", nargs="+", default=["add"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, help="instead of the profile's")
    parser.add_argument("--json", type=Path, default=Path("results/bench/precision.json"))
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rows: list[Row] = []
    with TemporaryDirectory() as cache:
        for mix in given.mixes:
            for size in given.sizes:
                for precision in PRECISIONS:
                    begun = time.process_time()
                    rows += train(precision, mix, size, given.seeds, given.steps, Path(cache))
                    print(f"{mix} {size} {precision}: {time.process_time() - begun:.0f} core-seconds", flush=True)
                write_json(given.json, {"machine": describe("cpu"), "rows": [asdict(row) for row in rows]})
    print(table(rows))
    return rows


if __name__ == "__main__":
    main()
