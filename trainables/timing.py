"""The clock that training is measured by, and what a step takes by it."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

WARM_UP = {"cpu": 2, "cuda": 5}
"""Steps that are not counted: memory is taken, kernels are compiled and, on a GPU, the step is captured in them."""
TURNS, STEPS_A_TURN = 3, {"cpu": 1, "cuda": 6}
"""The quickest of so many turns counts: what disturbs a step only makes it longer."""


def computing_s(device: torch.device) -> float:
    """Seconds, to be subtracted from one another: where one thread of a CPU computes, those that the calling thread
    computed, so that other programs on the machine do not count; else by the clock on the wall, with a GPU's work
    waited for."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        return time.perf_counter()
    return time.thread_time() if torch.get_num_threads() == 1 else time.perf_counter()


def time_steps(run: Callable[[int, int], None], device: torch.device) -> tuple[float, float]:
    """Seconds a step takes and the bytes held at its peak (0 on a CPU); ``run(first, last)`` takes the steps from
    ``first`` to ``last - 1``."""
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(device)
    count = WARM_UP[device.type]
    run(0, count)
    turns = []
    for _ in range(TURNS):
        begun, last = computing_s(device), count + STEPS_A_TURN[device.type]
        run(count, last)
        turns.append((computing_s(device) - begun) / STEPS_A_TURN[device.type])
        count = last
    return min(turns), float(torch.cuda.max_memory_allocated(device)) if on_gpu else 0.0
