"""Limits on memory and CPU time that a container, a batch system or the shell sets.

Linux keeps them in control groups (cgroups), version 1 or 2. A process is limited by its group and all parent groups.
See ``Documentation/admin-guide/cgroup-v1`` and ``cgroup-v2.rst`` of the kernel.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
"""Mount point of the control groups."""
OWN_GROUPS = Path("/proc/self/cgroup")
"""The groups of this process, one per line: ``hierarchy:controllers:path``."""


@dataclass(frozen=True)
class Limits:
    """Limits on memory in bytes and on CPU time in cores; infinite without a limit."""

    memory_bytes: float = math.inf
    cpus: float = math.inf


def limits(groups: Path = GROUPS, own: Path = OWN_GROUPS) -> Limits:
    """Return the limits of this process, from its control groups and the shell (``ulimit -v``)."""
    group_limits = [Limits(), *_group_limits(groups, own)]
    memory = min(limit.memory_bytes for limit in group_limits)
    return Limits(min(memory, _address_space()), min(limit.cpus for limit in group_limits))


def _group_limits(groups: Path, own: Path) -> Iterator[Limits]:
    """Yield the limits of each group of this process and of its parents."""
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:  # Not Linux, or /proc is hidden.
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        names = controllers.split(",") if controllers else [""]  # Version 2 does not name controllers.
        for base in {groups / name for name in (controllers, *names)}:
            for group in _with_parents(base, path):
                if not controllers:
                    yield Limits(min(_number(group, "memory.max"), _number(group, "memory.high")), _quota_v2(group))
                elif "memory" in names:
                    yield Limits(memory_bytes=_number(group, "memory.limit_in_bytes"))
                elif "cpu" in names:
                    yield Limits(cpus=_quota_v1(group))


def _with_parents(base: Path, path: str) -> Iterator[Path]:
    """Yield a group's directory and its parents. For a path outside the container, yield only the mount point."""
    parts = [part for part in path.split("/") if part]
    for length in range(0 if ".." in parts else len(parts), -1, -1):
        yield base.joinpath(*parts[:length])


def _number(group: Path, name: str) -> float:
    """Return the number in a group's file, infinite if the file is missing or contains ``max``."""
    with suppress(OSError, ValueError):
        return float((group / name).read_text(encoding="ascii"))
    return math.inf


def _quota_v1(group: Path) -> float:
    quota = _number(group, "cpu.cfs_quota_us")  # -1 without a limit.
    return quota / _number(group, "cpu.cfs_period_us") if 0 < quota < math.inf else math.inf


def _quota_v2(group: Path) -> float:
    with suppress(OSError, ValueError):
        quota, period = (group / "cpu.max").read_text(encoding="ascii").split()  # "max 100000" without a limit.
        return float(quota) / float(period)
    return math.inf


def _address_space() -> float:
    """Return the shell's limit on a process's memory in bytes."""
    if sys.platform == "win32":
        return math.inf
    import resource  # Not available on Windows.

    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return math.inf if soft == resource.RLIM_INFINITY else float(soft)
