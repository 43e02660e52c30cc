"""How fast the GPU copies and multiplies at best: what everything else is held against."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

from orchestrator.doctor.findings import Finding, ok, slow

COPIED_BYTES = 1 << 30
WIDTH = 8192
"""Of the square matrices: 1.1 TFLOP a product, long against a launch."""
ROUNDS = 5
LEAST_SHARE = 0.6
"""Of the bandwidth that memory clock and bus make: a judgement, since no card was at hand."""


def copying() -> Finding:
    """Bytes a second, read and written, of a large copy."""
    source = torch.empty(COPIED_BYTES, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    seconds = _seconds(lambda: target.copy_(source))
    rate = 2 * COPIED_BYTES / seconds
    there = _bandwidth()
    said = f"memory moves {rate / 1e12:.2f} TB/s in a copy"
    figures = {"bytes_a_second": rate, "bandwidth": there}
    if there and rate < LEAST_SHARE * there:
        return slow(
            f"{said}, of {there / 1e12:.2f} TB/s", "is another process at work, or the clock held down?", **figures
        )
    return ok(said, **figures)


def multiplying() -> Finding:
    """Operations a second of a large product in bf16, TF32 and float32."""
    rates = {name: _product_rate(name) for name in ("bf16", "tf32", "float32")}
    said = "products: " + ", ".join(f"{rate / 1e12:.0f} TFLOP/s in {name}" for name, rate in rates.items())
    if rates["bf16"] < 2 * rates["float32"]:
        return slow(said, "bf16 gains little here: leave training.precision at float32", **rates)
    return ok(said, **rates)


def _product_rate(precision: str) -> float:
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    generator = torch.Generator("cuda").manual_seed(0)
    a, b = (torch.randn(WIDTH, WIDTH, generator=generator, device="cuda").to(dtype) for _ in range(2))
    out = torch.empty_like(a)
    return 2 * WIDTH**3 / _seconds(lambda: torch.mm(a, b, out=out))


def _seconds(work: Callable[[], object]) -> float:
    """Seconds that some work takes on the GPU, the median of a few times."""
    work()
    taken = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        work()
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


def _bandwidth() -> float:
    """Bytes a second by the memory's clock (kHz, two transfers a cycle) and its bus (bits); 0 where not known."""
    properties = torch.cuda.get_device_properties(0)
    clock, bus = getattr(properties, "memory_clock_rate", 0), getattr(properties, "memory_bus_width", 0)
    return 2.0 * 1e3 * clock * bus / 8
