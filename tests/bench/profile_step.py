"""Where the time of one stacked step goes: the operators that take most of it.

    python -m tests.bench.profile_step --device cpu --width 32 --stack 4
    python -m tests.bench.profile_step --device cuda --width 64 --stack 64

Times are each operator's own, without those it calls. On a GPU the captured step is profiled: the table lists kernels,
and beside it stand the two floors, arithmetic and memory traffic, that no version can beat.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import torch
from torch.profiler import ProfilerActivity, profile

from tests.bench.cases import SHAPES, Case
from tests.bench.machine import clock, describe, matmul_ceiling
from trainables.captured import WARM_UP_CALLS

STEPS = 10


def copy_bandwidth(device: str) -> float:
    """Bytes a second of a large copy on the device, read and written."""
    source = torch.randn(2**28 if device == "cuda" else 2**24, device=device)
    target = torch.empty_like(source)
    target.copy_(source)
    begun = clock(device)
    for _ in range(STEPS):
        target.copy_(source)
    return 2 * STEPS * source.numel() * source.element_size() / (clock(device) - begun)


def bytes_a_step(case: Case) -> float:
    """What one run's step moves at least when every operator reads and writes memory (no fused block).

    Per token and block, forward: two norms and the two residual sums 3C each, qkv 3C written and read, attention's
    result C twice, hidden 4C written, read, and once more around the activation. Backward moves about twice as much.
    """
    item = 2 if case.precision == "bf16" else 4
    forward = (4 * 3 + 6 + 2 + 4 * 4) * case.width * case.model.n_recurrence + 3 * case.shape.vocabulary
    return 3.0 * forward * item * case.shape.tokens_a_step


def main(arguments: Sequence[str] | None = None) -> str:
    """Profile and print; the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--shape", choices=SHAPES)
    parser.add_argument("--precision", choices=("float32", "tf32", "bf16"))
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--stack", type=int, default=4)
    parser.add_argument("--rows", type=int, default=25)
    parser.add_argument("--eager", action="store_true", help="uncompiled, on a GPU too")
    given = parser.parse_args(arguments)
    gpu = given.device == "cuda"
    torch.set_num_threads(1)
    shape = SHAPES[given.shape or ("paper" if gpu else "laptop")]
    case = Case(shape, given.width, given.precision or ("bf16" if gpu else "float32"), given.device)
    torch.backends.cuda.matmul.allow_tf32 = case.precision == "tf32"
    trainer = case.stack(given.stack, False if given.eager else None)
    trainer.run(0, WARM_UP_CALLS + 2)
    begun = clock(given.device)
    trainer.run(0, STEPS)
    seconds = (clock(given.device) - begun) / STEPS
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if gpu else [])]
    with profile(activities=activities) as watched:
        trainer.run(0, STEPS)
        clock(given.device)
    order = "self_device_time_total" if gpu else "self_cpu_time_total"
    table: str = watched.key_averages().table(sort_by=order, row_limit=given.rows, max_name_column_width=60)
    arithmetic = case.flops_a_step / matmul_ceiling(given.device, case.precision)
    traffic = bytes_a_step(case) / copy_bandwidth(given.device)
    print(", ".join(f"{key} {value}" for key, value in describe(given.device).items()))
    print(f"n_embed {given.width}, stack of {given.stack}, {case.precision}, {STEPS} steps below")
    print(f"{1e6 * seconds / given.stack:.0f} us per run and step, unprofiled; floors: {1e6 * arithmetic:.0f} us of")
    print(f"arithmetic, {1e6 * traffic:.0f} us of memory traffic where no two operators are fused")
    print(table)
    return table


if __name__ == "__main__":
    main()
