"""Decisions from measurements, each a pure function."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

ADDS_LITTLE = 0.25
"""A stack is cheap where each further run adds no more than this share of the first one's cost. Searchers reckon with
nearly as much when they ask for several seeds together (STACK_OVERHEAD in search/costs.py)."""
PAYS = 0.03
"""A larger stack is worth its longer wait for results when it saves at least this share of a run's time."""
NEAR = 1.5
"""Sizes within this factor of one another are taken to stack alike."""
MOST_STACKS_A_GPU, MOST_WITH_MPS = 2, 8
"""Processes on one GPU take turns unless NVIDIA's MPS runs: a second one computes while the first evaluates or writes,
a third gains nothing and holds memory. With MPS they compute together until the device is full."""
FULL = 0.9
"""The share of a device's memory that may be asked for; the rest is for what the libraries take."""

WORTH_FLOPS = {"cpu": 4e8, "cuda": 5e11}
"""Operations in a step from which on launching its kernels is no longer what takes the time. CPU: from
tests/bench/results/throughput.md (stacks pay at n_embed 16 of the laptop shape, 1e8 operations, little at 4e8).
GPU: 3 ms of an H200 at a fifth of its bf16 rate; not measured."""
LARGEST = {"cpu": 8, "cuda": 256}
"""Stacks are not chosen larger than that, whatever a step costs."""


def typical_stack(flops_a_step: float, device: str) -> int:
    """The stack to start with where nothing was measured: enough runs to fill a step, as a power of 2."""
    wanted = WORTH_FLOPS[device] / max(flops_a_step, 1.0)
    return int(min(2 ** math.floor(math.log2(max(wanted, 1.0))), LARGEST[device]))


def best_stack(seconds: Mapping[int, float]) -> int | None:
    """The smallest stack that is about as quick as the quickest; ``seconds`` of a run's step by stack size.

    None where fewer than two stack sizes were measured, which says nothing about stacking.
    """
    if len(seconds) < 2:
        return None
    quickest = min(seconds.values())
    return min(stack for stack, taken in seconds.items() if taken <= quickest / (1 - PAYS))


def cheap_stack(seconds: Mapping[int, float]) -> int:
    """The largest stack measured that costs little more than its first run: each further one adds :data:`ADDS_LITTLE`
    of it at most. ``seconds`` of a run's step by stack size, not empty.

    Where no stack of 1 was measured, as on a GPU, the smallest one stands for it.
    """
    least = min(seconds)
    first = least * seconds[least]
    return max(
        stack for stack, taken in seconds.items() if stack * taken <= first * (1 + ADDS_LITTLE * (stack - least))
    )


def nearest(size: int, known: Sequence[int]) -> int | None:
    """The known size nearest to ``size`` by ratio, if it is within a factor :data:`NEAR`."""
    closest = min(known, key=lambda other: abs(math.log(other / size)), default=None)
    return closest if closest is not None and abs(math.log(closest / size)) <= math.log(NEAR) else None


def interpolated(size: float, seconds: Mapping[int, float]) -> float | None:
    """Seconds at a size between measured ones, on a straight line in logarithms; None outside a factor :data:`NEAR`."""
    if not seconds:
        return None
    known = sorted(seconds)
    if not known[0] / NEAR <= size <= known[-1] * NEAR:
        return None
    if size <= known[0] or size >= known[-1]:
        return seconds[known[0] if size <= known[0] else known[-1]]
    above = next(other for other in known if other >= size)
    below = max(other for other in known if other <= size)
    if above == below:
        return seconds[above]
    share = math.log(size / below) / math.log(above / below)
    return math.exp((1 - share) * math.log(seconds[below]) + share * math.log(seconds[above]))


def probe_sizes(device: str, at_most: int, steps_a_probe: int, run_steps: float) -> tuple[int, ...]:
    """Stack sizes to try out before a training of ``run_steps`` (runs x steps), ascending; () where even two of them
    would cost more than a fiftieth of it."""
    ladder = (1, 2, 4, 8) if device == "cpu" else (2, 8, 32, 128)
    chosen: list[int] = []
    for size in ladder:
        if size > at_most or steps_a_probe * (sum(chosen) + size) > run_steps / 50:
            break
        chosen.append(size)
    return tuple(chosen) if len(chosen) > 1 else ()


def gpu_share(
    seconds: Mapping[int, float], runs_at_once: int, memory_share: float = 0.0, *, mps: bool = False
) -> float | None:
    """The share of a GPU one stack should ask for: 1 where a stack of the runs wanted at once fills it, 1/k where k
    such stacks do. None where fewer than two stack sizes were measured.

    A stack fills as much of the device as its step is quick for a run, compared with the quickest stack.
    ``memory_share`` is what a stack needs of the device's memory, at least; ``mps`` whether NVIDIA's MPS runs there.
    """
    if len(seconds) < 2:
        return None
    usual = max((stack for stack in seconds if stack <= max(runs_at_once, min(seconds))), default=min(seconds))
    filled = min(seconds.values()) / seconds[usual]
    together = min(max(math.floor(1 / filled), 1), MOST_WITH_MPS if mps else MOST_STACKS_A_GPU)
    if memory_share > 0:
        together = max(1, min(together, math.floor(1 / memory_share)))
    return math.floor(100 / together) / 100


def fits(runs: int, run_bytes: float, device_bytes: float) -> bool:
    """Whether so many runs fit into a share of a device. True where either is unknown (0)."""
    return not (run_bytes and device_bytes) or runs * run_bytes <= FULL * device_bytes
