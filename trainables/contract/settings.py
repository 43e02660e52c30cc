"""Settings of a family: errors about them, and the plain values that run keys are made of.

A setting that did not exist from the beginning is declared ``field(default=..., metadata=ADDED_LATER)``, at the default
that computes what was computed before there was a choice. At that default it is left out, so that runs keep their keys
and stacks their ids.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import Any


class SettingsError(ValueError):
    """A setting that cannot be used.

    ``key`` is the dotted path of the setting inside the family's settings (``task.modulus``), or ``""``.
    ``allowed`` lists the values that would do, where they can be listed; callers name the nearest.
    """

    def __init__(self, message: str, *, key: str = "", given: str = "", allowed: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.key = key
        self.given = given
        self.allowed = tuple(allowed)


def require(holds: bool, key: str, given: object, rule: str) -> None:
    """Raise :class:`SettingsError` unless the rule ("at least 1") holds for the setting ``key``."""
    if not holds:
        message = f"{key.rpartition('.')[2]} is {given}; it must be {rule}"
        raise SettingsError(message, key=key, given=str(given))


ADDED_LATER: Mapping[str, bool] = {"added later": True}
"""The metadata of such a field."""


def digest_of(described: Any) -> str:
    """A hash of plain values, in hex digits."""
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def described_fields(settings: Any) -> dict[str, Any]:
    """The fields of a settings dataclass as plain values, without those added later that have their default.

    Dataclasses among the values are described the same way, or by their own ``described()``: what of them decides the
    mathematics.
    """
    described = asdict(settings)
    for one in fields(settings):
        value = getattr(settings, one.name)
        if one.metadata == ADDED_LATER and value == one.default:
            del described[one.name]
        elif hasattr(value, "described"):
            described[one.name] = dict(value.described())
        elif is_dataclass(value):
            described[one.name] = described_fields(value)
    return described
