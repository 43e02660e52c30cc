"""Where a disturbed sweep trains: on its own Ray, or on a cluster that all sweeps share."""

from __future__ import annotations

import os
from typing import Any
from unittest.mock import patch

import psutil
from ray.cluster_utils import Cluster

from tests.chaos.program import ENVIRONMENT, PATIENCE_S, RAYLET, WORKER, Program, children

QUICK = {"RAY_health_check_initial_delay_ms": "1000", "RAY_health_check_period_ms": "500"}
"""Check nodes every half second instead of every three seconds. Five failed checks in a row are a dead node."""
HEAD = {"num_cpus": 0, "include_dashboard": False, "no_monitor": True}
"""Options of the head, which does not train and starts as few processes as possible."""


class OwnRay:
    """The Ray that a sweep runs on: each program starts and stops its own."""

    words: tuple[str, ...] = ()
    """Options of ``run`` that select it."""

    def workers(self, program: Program) -> list[psutil.Process]:
        """Return the current training processes, the newest last."""
        return program.workers

    def processes(self, program: Program) -> list[psutil.Process]:
        """Return all current processes of the sweep."""
        return program.family


class KeptRay(OwnRay):
    """A cluster started by this process: a head without cores and a training node."""

    def __init__(self) -> None:
        with patch.dict(os.environ, ENVIRONMENT | QUICK):
            self._cluster = Cluster(initialize_head=True, head_node_args=HEAD | {"wait": False})
        self._node = self._joined()
        self.words = ("--address", str(self._cluster.address))

    def workers(self, program: Program) -> list[psutil.Process]:
        """Return all training processes, including live processes of a killed driver."""
        return children(children([psutil.Process()], RAYLET), WORKER)

    def processes(self, program: Program) -> list[psutil.Process]:
        """Exclude the cluster, which other sweeps use."""
        return [*program.family, *self.workers(program)]

    def lose_node(self) -> None:
        """Kill the training node and add another."""
        self._cluster.remove_node(self._node, allow_graceful=False)
        self._node = self._joined()

    def close(self) -> None:
        self._cluster.shutdown()

    def _joined(self) -> Any:
        """Add a training node and wait for the cluster to register it, which on a busy machine outlasts Ray's own
        wait."""
        with patch.dict(os.environ, ENVIRONMENT | QUICK):
            node = self._cluster.add_node(wait=False, num_cpus=2)
        self._cluster.wait_for_nodes(timeout=PATIENCE_S)
        return node
