"""What a sweep could use beyond the slots of its cluster, shown to the cluster's autoscaler where there is one.

Each slot that is missed is a placement group that waits for room. Autoscalers add machines for those, as many as their
owner allows. Once one finds room all are given up for some seconds, in which stacks take their places: they would stand
behind those that wait. Ray itself takes back what a job
has left waiting, however its driver ended; nothing that another sweep asked for is touched.
(``ray.autoscaler.sdk.request_resources`` would do neither: whoever calls it last speaks for the whole cluster, and what
it asked for stays when its caller has died.)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

import ray
from ray.util.placement_group import PlacementGroup, placement_group, placement_group_table, remove_placement_group

from orchestrator.engine.ray.cluster import COUNT_EVERY_S, Room, has_autoscaler
from orchestrator.space.resources import Resources

LOOK_EVERY_S = 0.5
"""A group that has found room holds it so long at most. To look takes a millisecond a group."""
MOST_AT_ONCE = 100
"""Slots asked for at a time, far above what machines bring that come together."""


class Growth:
    """Asks for slots while its block runs, and takes back what it asked for at its end.

    ``wanted(most)`` says how many more stacks the sweep would start now if there were room for ``most`` more; ``say``
    is told once that the cluster is asked to grow.
    """

    def __init__(
        self, room: Room, resources: Resources, wanted: Callable[[int], int], say: Callable[[str], object]
    ) -> None:
        self._room = room
        needs = {"CPU": resources.cpu_per_stack, "GPU": resources.gpus}
        self._slot = {name: amount for name, amount in needs.items() if amount}
        self._wanted = wanted
        self._say = say
        self._grows = has_autoscaler()
        self._said = False
        self._waiting: list[PlacementGroup] = []
        self._looked_at = self._counted_at = -COUNT_EVERY_S

    def look(self) -> None:
        """Called often: asks for what is missed now, and for no more than that."""
        now = time.monotonic()
        if not self._grows or now - self._looked_at < LOOK_EVERY_S:
            return
        self._looked_at = now
        if self._placed():
            self._counted_at = now
            self._ask(0)
            self._room.count()
        elif now - self._counted_at >= COUNT_EVERY_S:
            self._counted_at = now
            self._ask(self._wanted(MOST_AT_ONCE))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if ray.is_initialized():  # Else there is nobody to ask, and Ray has taken it all back.
            self._ask(0)

    def _placed(self) -> bool:
        """Whether a group has found room: a node has joined, or a slot was free for a moment."""
        return any(placement_group_table(group)["state"] == "CREATED" for group in self._waiting)

    def _ask(self, count: int) -> None:
        while len(self._waiting) > count:
            remove_placement_group(self._waiting.pop())
        if count and not self._said:
            self._said = True
            self._say(
                f"more stacks are wanted than there is room for: the cluster's autoscaler is asked for {count} slots"
            )
        while len(self._waiting) < count:
            self._waiting.append(placement_group([self._slot]))
