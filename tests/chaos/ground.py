"""Where a disturbed sweep trains: on a Ray of its own, or on a cluster that stays from sweep to sweep."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import psutil
from ray.cluster_utils import Cluster

from tests.chaos.program import ENVIRONMENT, PATIENCE_S, RAYLET, WORKER, Program, children

QUICK = {"RAY_health_check_initial_delay_ms": "1000", "RAY_health_check_period_ms": "500"}
"""A cluster looks whether a node lives every half second, not every three: five looks in vain are a dead node."""

HEAD = {"num_cpus": 0, "include_dashboard": False, "no_monitor": True}
"""It trains nothing itself, and starts as little as there may be."""


class Ground(Protocol):
    """What a sweep stands on."""

    words: tuple[str, ...]
    """Options of ``run`` for it."""

    def workers(self, program: Program) -> list[psutil.Process]:
        """The processes that train now, the newest last."""

    def processes(self, program: Program) -> list[psutil.Process]:
        """All that the sweep is made of now."""


class OwnRay:
    """Each program starts a Ray and takes it away again."""

    words: tuple[str, ...] = ()

    def workers(self, program: Program) -> list[psutil.Process]:
        """The children of the program's own raylet."""
        return program.workers

    def processes(self, program: Program) -> list[psutil.Process]:
        """Its Ray included."""
        return program.family


class KeptRay:
    """A cluster of this process: a head without cores, and a node that trains."""

    def __init__(self) -> None:
        with _environment():
            self._cluster = Cluster(initialize_head=True, head_node_args=HEAD | {"wait": False})
        self._node = self._joined()
        self.words: tuple[str, ...] = ("--address", str(self._cluster.address))

    def workers(self, program: Program) -> list[psutil.Process]:
        """Those of a driver that was killed included, as long as they have not gone."""
        return children(children([psutil.Process()], RAYLET), WORKER)

    def processes(self, program: Program) -> list[psutil.Process]:
        """Do not stop the cluster, which others use."""
        return [*program.family, *self.workers(program)]

    def lose_node(self) -> None:
        """The node that trains is gone at once; another one joins."""
        self._cluster.remove_node(self._node, allow_graceful=False)
        self._node = self._joined()

    def shutdown(self) -> None:
        """Take the cluster away."""
        self._cluster.shutdown()

    def _joined(self) -> Any:
        """A new node that trains, once the cluster knows it: on a busy machine later than Ray's own wait for it."""
        with _environment():
            node = self._cluster.add_node(wait=False, num_cpus=2)
        self._cluster.wait_for_nodes(timeout=PATIENCE_S)
        return node


@contextmanager
def kept_ray() -> Iterator[KeptRay]:
    """A block in which there is a cluster."""
    cluster = KeptRay()
    try:
        yield cluster
    finally:
        cluster.shutdown()


@contextmanager
def _environment() -> Iterator[None]:
    """A block in which nodes are started whose workers find the family of these sweeps."""
    changed = ENVIRONMENT | QUICK
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
