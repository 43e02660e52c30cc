"""The hardware of this machine. torch is slow, so import it only for a GPU.

A container or a batch system may limit memory and CPU time. Linux keeps such limits in control groups (cgroups) of
version 2, or 1 as on RHEL 8: see ``Documentation/admin-guide/cgroup-v2.rst`` and ``cgroup-v1/`` of the kernel.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

GPU_DRIVERS = ("/dev/nvidiactl", "/dev/nvidia0", "/proc/driver/nvidia/version", "/dev/dxg", "/dev/kfd")
"""On Linux a GPU driver implies one of these: NVIDIA (bare, in a container, under WSL) or AMD."""
CGROUPS = Path("/sys/fs/cgroup")
"""Mount point of the control groups."""
OWN_CGROUPS = Path("/proc/self/cgroup")
"""File with the groups of this process, one per line: ``hierarchy:controllers:path``."""
MPS_DIRECTORY = "/tmp/nvidia-mps"
"""Directory in which the control daemon of NVIDIA's MPS has its sockets, unless ``CUDA_MPS_PIPE_DIRECTORY`` is set
(https://docs.nvidia.com/deploy/mps)."""
LONGEST_PID = 32
"""Maximum number of bytes that are read from a file with a process id."""


@dataclass(frozen=True)
class Machine:
    """A node of a cluster: the cores and GPUs it offers, which may be fractions."""

    cpus: float
    gpus: float = 0.0


def cores(count: float) -> str:
    """Return ``1 CPU core`` or ``2 CPU cores``."""
    return f"{count:g} CPU core{'' if count == 1 else 's'}"


@dataclass(frozen=True)
class Hardware:
    """The hardware that this process may use.

    Attributes:
        cpus: Number of cores.
        memory_gb: Memory, or 0 if it is unknown.
        gpus: Number of GPUs that torch can use.
        gpu_name: Name of the first GPU.
        gpu_memory_gb: Memory of the first GPU, or 0 if it is unknown.
        has_mps: True if several processes can share a GPU at the same time. Otherwise they take turns.
        machines: Nodes of a cluster.
        grows: True if the cluster may add nodes of any kind.
    """

    cpus: int
    memory_gb: float
    gpus: int = 0
    gpu_name: str = ""
    gpu_memory_gb: float = 0.0
    has_mps: bool = False
    machines: tuple[Machine, ...] = ()
    grows: bool = False

    def __str__(self) -> str:
        gpus = f"{self.gpus} x {self.gpu_name}" if self.gpus else "no GPU"
        grows = ", and more from its autoscaler" if self.grows else ""
        return f"{cores(self.cpus)}, {self.memory_gb:.0f} GB of memory, {gpus}{grows}"


def detect() -> Hardware:
    """Return the hardware that this process may use. In a container or batch job, it is less than the machine's."""
    gpus, name, gpu_memory_gb = _gpus()
    machine = whole_machine()
    limit = limits()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else machine.cpus
    memory_bytes = min(1e9 * machine.memory_gb, limit.memory_bytes)
    cpus = max(1, int(min(cores, limit.cpus)))
    return Hardware(cpus, memory_bytes / 1e9, gpus, name, gpu_memory_gb, has_mps=gpus > 0 and mps_runs())


def whole_machine() -> Hardware:
    """Return the cores and the memory of the whole machine."""
    return Hardware(os.cpu_count() or 1, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)


def has_gpu_driver() -> bool:
    """Return True if a GPU driver is installed. Torch may still be unable to use the GPU."""
    return any(Path(path).exists() for path in GPU_DRIVERS)


def mps_runs() -> bool:
    """Return True if the control daemon of NVIDIA's MPS runs here. Then kernels of several processes share a GPU.

    The daemon writes its process id to a file. If the daemon is killed, the file stays, so the process is checked too.
    """
    pid_file = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY") or MPS_DIRECTORY, "nvidia-cuda-mps-control.pid")
    try:
        if not pid_file.is_file():  # Every user can write /tmp, and reading a pipe would wait.
            return False
        with pid_file.open("rb") as file:
            return Path(f"/proc/{int(file.read(LONGEST_PID))}").exists()
    except (OSError, ValueError):
        return False


def _gpus() -> tuple[int, str, float]:
    """Return the number of GPUs, and name and memory in GB of the first."""
    if not has_gpu_driver():
        return 0, "", 0.0
    import torch  # Takes two seconds.

    if not torch.cuda.is_available():
        return 0, "", 0.0
    first = torch.cuda.get_device_properties(0)
    return torch.cuda.device_count(), first.name, first.total_memory / 1e9


@dataclass(frozen=True)
class CgroupLimits:
    """Limits on memory in bytes and on CPU time in cores. Infinite if there is no limit."""

    memory_bytes: float = math.inf
    cpus: float = math.inf


UNLIMITED_BYTES = 1 << 62
"""Version 1 writes a memory limit above this value if there is no limit."""


def limits(groups: Path = CGROUPS, own: Path = OWN_CGROUPS) -> CgroupLimits:
    """Return the limits of this process, from its control groups and all their parents."""
    memory = [math.inf]
    cpus = [math.inf]
    for group in _groups(groups, own):
        memory += _numbers(group / "memory.max")
        memory += [limit for limit in _numbers(group / "memory.limit_in_bytes") if limit < UNLIMITED_BYTES]
        if quota := _numbers(group / "cpu.max"):
            cpus.append(quota[0] / quota[1])
        quota = _numbers(group / "cpu.cfs_quota_us")
        period = _numbers(group / "cpu.cfs_period_us")
        if quota and period and min(quota + period) > 0:  # A quota of -1 means that there is no limit.
            cpus.append(quota[0] / period[0])
    return CgroupLimits(min(memory), min(cpus))


def _groups(groups: Path, own: Path) -> Iterator[Path]:
    """Yield the directories of this process's groups and of their parents.

    Version 2 has one tree, at the mount point. If version 1 is used too, the tree is in ``unified``. Version 1 has a
    tree for each set of controllers, such as ``cpu,cpuacct``.
    """
    lines = []
    with suppress(OSError):  # Not Linux, or /proc is hidden.
        lines = own.read_text(encoding="utf-8").splitlines()
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        parts = path.strip("/").split("/")
        trees = [groups / controllers] if controllers else [groups, groups / "unified"]
        for tree in trees:
            yield from (tree.joinpath(*parts[:length]) for length in range(len(parts) + 1))


def _numbers(path: Path) -> list[float]:
    """Return the numbers in a group's file, with ``max`` as infinity. A missing file has none."""
    with suppress(OSError, ValueError):
        return [float(word.replace("max", "inf")) for word in path.read_text(encoding="ascii").split()]
    return []
