"""Settings as the plain values that run keys are made of.

A setting that did not exist from the beginning is declared ``field(default=..., metadata=ADDED_LATER)``, at the default
that computes what was computed before there was a choice. Where it has that default it is left out, so that runs keep
the keys they had.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import Any, Protocol, runtime_checkable

ADDED_LATER: Mapping[str, bool] = {"added later": True}
"""The metadata of such a field."""


@runtime_checkable
class Describes(Protocol):
    """Settings that say themselves what of them decides the mathematics."""

    def described(self) -> Mapping[str, Any]: ...


def described_fields(settings: Any) -> dict[str, Any]:
    """The fields of a settings dataclass as plain values, without those added later that have their default.

    Dataclasses among the values are described the same way, or by their own ``described()``.
    """
    described = asdict(settings)
    for one in fields(settings):
        value = getattr(settings, one.name)
        if one.metadata == ADDED_LATER and value == one.default:
            del described[one.name]
        elif isinstance(value, Describes):
            described[one.name] = dict(value.described())
        elif is_dataclass(value):
            described[one.name] = described_fields(value)
    return described
