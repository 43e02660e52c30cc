"""Description of the machine of a benchmark, its clock, and the peak speed of its matrix products."""

from __future__ import annotations

import ctypes
import math
import os
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import torch


def describe(device: str) -> dict[str, Any]:
    """Return the hardware, versions and load that a result needs for comparison."""
    packages = {}
    for name in ("torch", "triton", "numpy"):
        try:
            packages[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            packages[name] = "none"
    described: dict[str, Any] = {
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        **packages,
    }
    if device == "cuda":
        described |= {"gpu": torch.cuda.get_device_name(0), "cuda": torch.version.cuda}
    return described


def _processor() -> str:
    listed = Path("/proc/cpuinfo")
    names = (
        [line for line in listed.read_text().splitlines() if line.startswith("model name")] if listed.exists() else []
    )
    return names[0].partition(":")[2].strip() if names else platform.processor()


def clock(device: str) -> float:
    """Return seconds: on a CPU this process's computing time, which other processes affect less; on a GPU the wall time
    once the queued work is done."""
    if device == "cuda":
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


def steps_a_second(train: Callable[[int], None], device: str, seconds: float) -> float:
    """Return the steps per second of ``train(steps)``, measured for about ``seconds``. Warm up before the call."""
    steps, done, begun = 1, 0, clock(device)
    while True:
        train(steps)
        done += steps
        spent = clock(device) - begun
        if spent >= seconds:
            return done / spent
        # Aim at the end, but read the clock in between.
        steps = max(1, min(int(done / max(spent, 1e-6) * (seconds - spent)), 4 * done))


def matmul_ceiling(device: str, precision: str) -> float:
    """Return the FLOP/s of a large matrix product in this precision on this machine, the median of five
    measurements."""
    size = 1024
    if device == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        size = 8192
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    generator = torch.Generator(device).manual_seed(0)
    a, b = (torch.randn(size, size, generator=generator, device=device).to(dtype) for _ in range(2))
    out = torch.empty_like(a)

    def multiply(times: int) -> None:
        for _ in range(times):
            torch.mm(a, b, out=out)

    multiply(3)
    return 2 * size**3 * statistics.median(steps_a_second(multiply, device, 0.2) for _ in range(5))


def core_ceiling() -> float:
    """Return this core's FLOP/s in multiply-adds without memory (peak.cpp; needs a C++ compiler), the best of many
    bursts."""
    with tempfile.TemporaryDirectory() as place:
        library = Path(place) / "peak.so"
        source = Path(__file__).with_name("peak.cpp")
        subprocess.run([os.environ.get("CXX", "c++"), "-O3", "-shared", "-fPIC", "-o", library, source], check=True)
        multiply_adds = ctypes.CDLL(str(library)).multiply_adds
    rounds, best = ctypes.c_int64(200_000), math.inf
    for _ in range(50):
        begun = time.thread_time()
        multiply_adds(rounds)
        best = min(best, time.thread_time() - begun)
    return 2 * 8 * 12 * rounds.value / best


def peak_memory_gb(device: str) -> float:
    """Return this process's peak memory: on a GPU since the last reset, on a CPU since the process began."""
    if device == "cuda":
        return torch.cuda.max_memory_reserved() / 1e9
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
