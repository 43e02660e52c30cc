"""Detects that a machine of the cluster is about to be preempted, so that its stacks can move to another machine.

The worker then saves a checkpoint and leaves its stack. The campaign continues the stack elsewhere.
"""

from __future__ import annotations

import platform
import time

import ray
from ray._private.state import state

POLL_EVERY_S = 2.0
"""Seconds between two polls. A poll takes about a millisecond, and clouds give at least 30 seconds' notice."""


def draining_nodes() -> set[str]:
    """Return the ids of the nodes that are about to go away."""
    # Ray has no public function for this. Its own trainer also calls this private one.
    return set(state.get_draining_nodes())


class OwnNode:
    """The node of this process."""

    def __init__(self) -> None:
        self._polled_at = time.monotonic()

    def farewell(self) -> str:
        """Return the reason why work must leave this node, or an empty string if it can stay."""
        if time.monotonic() - self._polled_at < POLL_EVERY_S:
            return ""
        self._polled_at = time.monotonic()
        is_leaving = ray.get_runtime_context().get_node_id() in draining_nodes()
        return f"the node {platform.node()} is about to go away" if is_leaving else ""
