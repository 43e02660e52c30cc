"""What a training step took, on which device and with which software: plain values, to keep and to compare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

SCHEMA = 1


@dataclass(frozen=True)
class Conditions:
    """What must be equal for two measurements to be comparable, beside the size.

    ``device`` names the kind of device (``NVIDIA H200``, or the processor with the threads computing on it);
    ``software`` the version of torch and of the family; ``workload`` is the family's word for what else shapes a step.
    """

    device: str
    software: str
    precision: str
    workload: str


@dataclass(frozen=True)
class Measured:
    """One run's share of a step in a stack of ``stack`` runs of ``size``.

    ``seconds`` are a probe's (``probed``: steps alone, computing time where one thread of a CPU computes) or those of
    training, evaluations and waiting included. ``memory_bytes`` is the peak of the whole stack, 0 where unknown.
    """

    conditions: Conditions
    size: int
    stack: int
    seconds: float
    memory_bytes: float = 0.0
    probed: bool = False

    @property
    def identity(self) -> tuple[Conditions, int, int, bool]:
        """Measurements of equal identity replace one another."""
        return self.conditions, self.size, self.stack, self.probed

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, the conditions's among them."""
        own = asdict(self)
        conditions: dict[str, Any] = own.pop("conditions")
        return conditions | own

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Measured:
        """The inverse of :meth:`to_json`. Raises ``KeyError``."""
        conditions = Conditions(**{field.name: str(data[field.name]) for field in fields(Conditions)})
        return cls(
            conditions,
            int(data["size"]),
            int(data["stack"]),
            float(data["seconds"]),
            float(data["memory_bytes"]),
            bool(data["probed"]),
        )


def merged(older: Iterable[Measured], newer: Iterable[Measured]) -> tuple[Measured, ...]:
    """All measurements, the newer one where both have the same identity, in an order of their own."""
    latest = {each.identity: each for each in (*older, *newer)}
    return tuple(sorted(latest.values(), key=lambda each: (str(each.conditions), each.size, each.stack, each.probed)))
