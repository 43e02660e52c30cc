"""What a Ray cluster has to offer, as Ray counts it: its profile is chosen by that, not by the machine one types at."""

from __future__ import annotations

import ray

from orchestrator.engine.ray.starting import start, switch_kept
from orchestrator.space.hardware import Hardware

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
