"""Cores, memory, shared memory and load of this machine, as far as this process may use them."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import psutil

from orchestrator.doctor.findings import Finding, ok, slow, wrong
from orchestrator.space.hardware import detect

GB = 1e9
DRIVER_GB, WORKER_GB = 1.5, 0.7
"""What a sweep's driver with Ray and MLflow holds, and what each worker holds beside its stack: a judgement, on the
generous side; neither was measured for this check."""
SHARED_GB = 1.0
"""Shared memory that Ray does well with: its objects here are small, but it asks for room when it starts."""
SHARED = Path("/dev/shm")
BUSY = 0.5
"""More than this share of the cores in use by others makes every measurement a guess."""


@dataclass(frozen=True)
class Limits:
    """What a container may use: cores' worth of time, and bytes of memory; None where it is not limited."""

    cores: float | None
    memory_bytes: int | None


def limits(root: Path = Path("/sys/fs/cgroup")) -> Limits:
    """This container's limits, by its control group (version 2, else 1)."""
    return Limits(_cores(root), _memory(root))


def cores() -> Finding:
    """The cores, and how many of them are free."""
    count, quota = detect().cpus, limits().cores
    busy = psutil.cpu_percent(interval=1.0) / 100
    name = detect().cpu_name
    said = f"{count} cores ({name}), {busy:.0%} of their time in use"
    figures = {"cores": count, "quota": quota, "busy_share": busy, "load_1_min": os.getloadavg()[0]}
    if quota is not None and quota < count - 0.01:
        return slow(
            f"{said}; this container may use {quota:g} cores' worth of time",
            f"with --set resources.cpu_per_stack={count / quota:.3g} a sweep starts as many stacks as it can feed",
            **figures,
        )
    if busy > BUSY:
        return slow(said, "others compute here: sweeps take longer, and what is measured now says little", **figures)
    return ok(said, **figures)


def memory() -> Finding:
    """Whether a worker for each core fits."""
    there, limit = psutil.virtual_memory(), limits().memory_bytes
    free = there.available if limit is None else min(there.available, limit)
    wanted = (DRIVER_GB + WORKER_GB * detect().cpus) * GB
    said = f"{free / GB:.1f} GB of memory free, of {there.total / GB:.0f} GB"
    if limit is not None and limit < there.total:
        said += f" (this container: {limit / GB:.1f} GB)"
    figures = {"free_gb": free / GB, "total_gb": there.total / GB, "wanted_gb": wanted / GB}
    if free < (DRIVER_GB + WORKER_GB) * GB:
        return wrong(
            said, f"a single worker with its driver takes {DRIVER_GB + WORKER_GB:.1f} GB: free some", **figures
        )
    if free < wanted:
        return slow(said, f"workers on all cores take {wanted / GB:.1f} GB: --set resources.cpu_per_stack=2", **figures)
    return ok(said, **figures)


def shared_memory() -> Finding:
    """The room in /dev/shm, where Ray keeps objects."""
    if not SHARED.is_dir():
        return ok("this system has no /dev/shm; Ray does without")
    usage = shutil.disk_usage(SHARED)
    said = f"{usage.free / GB:.2f} GB free in {SHARED}, of {usage.total / GB:.2f} GB"
    figures = {"free_gb": usage.free / GB, "total_gb": usage.total / GB}
    if usage.free < SHARED_GB * GB:
        return slow(said, "Ray then uses files, slower: start the container with --shm-size=1g or more", **figures)
    return ok(said, **figures)


def _cores(root: Path) -> float | None:
    new, quota, period = root / "cpu.max", root / "cpu/cpu.cfs_quota_us", root / "cpu/cpu.cfs_period_us"
    if new.is_file():
        most, each = new.read_text(encoding="ascii").split()
    elif quota.is_file() and period.is_file():
        most, each = (path.read_text(encoding="ascii").strip() for path in (quota, period))
    else:
        return None
    return None if most in ("max", "-1") else int(most) / int(each)


def _memory(root: Path) -> int | None:
    for path in (root / "memory.max", root / "memory/memory.limit_in_bytes"):
        if path.is_file():
            most = path.read_text(encoding="ascii").strip()
            # Version 1 writes a number beyond any memory where there is no limit.
            return None if most == "max" or int(most) >= 1 << 60 else int(most)
    return None
