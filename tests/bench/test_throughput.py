"""How fast models train and data are made on this machine: numbers to state, not limits to pass.

`make bench` prints them. A result is worth keeping only with the machine, the versions and what else was running.
"""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

import pytest
import torch

from orchestrator.cost.plan import make_plan
from orchestrator.space.hardware import detect
from orchestrator.space.spaces import load_space
from trainables.base import Arm

STEPS = 200


@pytest.fixture(scope="module", autouse=True)
def machine() -> None:
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    print(f"\n{platform.platform()}, {detect()}, torch {torch.__version__}, 1 thread, load average {load:.1f}")
    torch.set_num_threads(1)


@pytest.mark.bench
@pytest.mark.parametrize("size", [8, 16, 32, 64])
@pytest.mark.parametrize("stack", [1, 4])
def test_training_steps_a_second(size: int, stack: int, tmp_path: Path) -> None:
    spec = load_space(
        "add_vs_add_prod",
        "laptop",
        [
            f"settings.training.steps={STEPS}",
            f"settings.training.evaluate_every={STEPS // 2}",
            "settings.training.warmup_steps=0",
        ],
    )
    family = spec.make_family()
    learner = family.learner(
        [family.config(spec.mixes[-1], size, seed) for seed in range(stack)], device="cpu", cache=tmp_path
    )
    learner.advance()  # The first half warms caches and allocators up.
    began = time.perf_counter()
    learner.advance()
    seconds = time.perf_counter() - began
    foreseen = next(entry.seconds for entry in make_plan(spec, detect()).sizes if entry.size == size) / STEPS
    rate = STEPS / 2 * stack / seconds
    print(f"n_embed {size:3d}, stack of {stack}: {rate:7.1f} steps of one run a second (plan: {1 / foreseen:7.1f})")
    assert rate > 0


@pytest.mark.bench
def test_seconds_to_make_the_papers_data(tmp_path: Path) -> None:
    spec = load_space("add_vs_add_prod", "paper", ["settings.task.train_examples=50000"])
    family = spec.make_family()
    began = time.perf_counter()
    family.learner([family.config(Arm.parse("add+prod"), 8, 0)], device="cpu", cache=tmp_path)
    print(f"50 000 training expressions of depth 2 at n = 20, with test sets: {time.perf_counter() - began:.2f} s")
