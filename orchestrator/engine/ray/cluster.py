"""Hardware of a Ray cluster, as Ray counts it, and its slots, which change as nodes join and leave."""

from __future__ import annotations

import json
import logging
import re
import time
from typing import Any

import ray
from ray._private.ray_constants import DEBUG_AUTOSCALING_STATUS
from ray.autoscaler.v2.sdk import get_cluster_status
from ray.autoscaler.v2.utils import is_autoscaler_v2
from ray.experimental.internal_kv import _internal_kv_get

from orchestrator.engine.ray.preemption import draining_nodes
from orchestrator.engine.ray.session import RaySession
from orchestrator.jobs.resources import Resources
from orchestrator.system.hardware import Hardware, Machine
from orchestrator.system.text import counted

log = logging.getLogger(__name__)

COUNT_EVERY_S = 5.0
"""Seconds between counts of the nodes. A new node waits at most this long. A count takes milliseconds."""
STACKS_AHEAD = 8
"""Number of waiting stacks for which an autoscaler can add machines. More would make the search worse, because it must
choose their runs before the results of earlier runs."""
REPORTED_KIND = re.compile("node_[0-9a-f]{56}")
"""Node kind that contains the node's id. An autoscaler reports such kinds if it does not add machines."""
ACCELERATOR = "accelerator_type:"
"""Prefix of the node resource that names the kind of GPU."""


def cluster_hardware(address: str) -> Hardware:
    """Return the cores, memory and GPUs of all nodes of the cluster at an address.

    Raises:
        UserError: for an invalid address.
        SweepError: if no cluster answers.
    """
    with RaySession(address) as session:
        session.begin()
        alive = [node for node in ray.nodes() if node["Alive"]]
        grows = has_autoscaler()
    nodes = [node["Resources"] for node in alive]
    names = sorted({key.removeprefix(ACCELERATOR) for node in nodes for key in node if key.startswith(ACCELERATOR)})
    return Hardware(
        cpus=int(sum(node.get("CPU", 0) for node in nodes)),
        memory_gb=sum(node.get("memory", 0) for node in nodes) / 1e9,
        gpus=int(sum(node.get("GPU", 0) for node in nodes)),
        gpu_name=" and ".join(names) or "GPU",
        machines=tuple(map(machine_of, alive)),
        grows=grows,
    )


def slots_on(nodes: list[dict[str, Any]], resources: Resources) -> int:
    """Return the number of stacks that fit on these nodes at once, given their cores and GPUs."""
    return sum(resources.stacks_on(machine_of(node)) for node in nodes if node["Alive"])


def machine_of(node: dict[str, Any]) -> Machine:
    """Return the cores and GPUs of a node from ``ray.nodes``."""
    return Machine(node["Resources"].get("CPU", 0.0), node["Resources"].get("GPU", 0.0))


def has_autoscaler() -> bool:
    """Return True if the cluster's autoscaler adds machines. Ray's default autoscaler only reports the nodes."""
    if is_autoscaler_v2(fetch_from_server=True):  # Otherwise it may return a cached answer from another cluster.
        status = get_cluster_status(ray.get_runtime_context().gcs_address)
        kinds = [node.ray_node_type_name for node in (*status.active_nodes, *status.idle_nodes)]
    else:
        status_json = _internal_kv_get(DEBUG_AUTOSCALING_STATUS)
        report = json.loads(status_json).get("autoscaler_report") if status_json else None
        kinds = list(((report or {}).get("node_type_mapping") or {}).values())
    return any(kind and not REPORTED_KIND.fullmatch(kind) for kind in kinds)


class Room:
    """Slots of the cluster that this process has joined, counted every few seconds. Changes are logged."""

    def __init__(self) -> None:
        self._slots: dict[tuple[float, float], int] = {}
        """Number of slots by the cores and GPUs of a stack, since the last count."""
        self._before: dict[tuple[float, float], int] = {}
        """Number of slots before the last count, in the same form."""
        self._count_nodes()
        self._grows = has_autoscaler()

    def slots(self, resources: Resources) -> int:
        """Return the number of slots for stacks with these resources, including slots for which an autoscaler may add
        machines. It is at least 1, so that a stack waits if no node has room."""
        if time.monotonic() - self._counted_at >= COUNT_EVERY_S:
            self._count_nodes()
        kind = resources.cpu_per_stack, resources.gpus
        if kind not in self._slots:
            slots = self._slots[kind] = slots_on(self._nodes, resources)
            before = self._before.get(kind, slots)
            if slots != before:
                room = f"{counted(len(self._nodes), 'node')}, {counted(slots, 'stack')} at a time"
                log.warning(f"the cluster changed: {room} ({before} before)")
        return max(1, self._slots[kind] + (STACKS_AHEAD if self._grows else 0))

    def has_room(self, resources: Resources) -> bool:
        """Return True if a node has room for a stack with these resources, or such a node may be added."""
        return self._grows or slots_on(self._nodes, resources) > 0

    def _count_nodes(self) -> None:
        """Find the nodes that can train now, and forget the numbers of slots."""
        self._counted_at = time.monotonic()
        self._before |= self._slots
        self._slots.clear()
        leaving = draining_nodes()
        self._nodes = [node for node in ray.nodes() if node["Alive"] and node["NodeID"] not in leaving]
