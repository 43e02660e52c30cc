"""What a Ray cluster has to offer, as Ray counts it: its hardware, by which a profile is chosen, and its slots, which
change as nodes join and leave."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import ray

from orchestrator.engine.ray.starting import start, switch_kept
from orchestrator.space.hardware import Hardware
from orchestrator.space.resources import Resources

COUNT_EVERY_S = 5.0
"""A node that has joined waits so long at most for its first stack. To ask the cluster takes some milliseconds."""
ACCELERATOR = "accelerator_type:"
"""Before the name of a node's kind of GPU, among its resources."""


def cluster_hardware(address: str) -> Hardware:
    """The cores, memory and GPUs of all nodes together. Raises :class:`UserError` for what is no address and
    :class:`SweepError` where no cluster answers."""
    with switch_kept():
        start(address)
        try:
            nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        finally:
            ray.shutdown()
    names = sorted({key.removeprefix(ACCELERATOR) for node in nodes for key in node if key.startswith(ACCELERATOR)})
    return Hardware(
        cpus=int(sum(node.get("CPU", 0) for node in nodes)),
        memory_gb=sum(node.get("memory", 0) for node in nodes) / 1e9,
        gpus=int(sum(node.get("GPU", 0) for node in nodes)),
        gpu_name=" and ".join(names) or "GPU",
    )


def slots_on(nodes: list[dict[str, Any]], resources: Resources) -> int:
    """Stacks that fit on these nodes at once, by cores and devices; fractions of one device never span two."""
    return sum(_slots_of(node["Resources"], resources) for node in nodes if node["Alive"])


class Room:
    """The slots of the cluster that this process has joined, counted again every few seconds. ``say`` is told when they
    have changed."""

    def __init__(self, resources: Resources, say: Callable[[str], object]) -> None:
        self._resources = resources
        self._say = say
        self._counted_at = time.monotonic()
        self._found = slots_on(ray.nodes(), resources)

    @property
    def slots(self) -> int:
        """At least 1: where no node has room now, a stack waits for one to join."""
        now = time.monotonic()
        if now - self._counted_at >= COUNT_EVERY_S:
            self._counted_at = now
            self._count()
        return max(1, self._found)

    def _count(self) -> None:
        nodes = [node for node in ray.nodes() if node["Alive"]]
        found, before = slots_on(nodes, self._resources), self._found
        if found != before:
            self._found = found
            many = f"{len(nodes)} node{'s' if len(nodes) != 1 else ''}"
            self._say(f"the cluster has changed: {many}, {found} stacks at a time ({before} before)")


def _slots_of(has: dict[str, float], resources: Resources) -> int:
    slack = 1e-9  # 0.1 fits ten times into 1
    by_cpu = int(has.get("CPU", 0.0) / resources.cpu_per_stack + slack)
    if resources.gpus == 0:
        return by_cpu
    if resources.gpus > 1:
        return min(by_cpu, int(has.get("GPU", 0.0) / resources.gpus + slack))
    return min(by_cpu, int(has.get("GPU", 0.0)) * int(1 / resources.gpus + slack))
