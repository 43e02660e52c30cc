"""Settings of a family: errors about them, and the plain values in run keys.

Declare a new setting of an old family as ``field(default=..., metadata=ADDED_LATER)``. With its default, the family
must compute the same as before. Run keys omit the setting at its default, so runs keep their keys and stacks their ids.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import Any

MOST_STEPS = 10**15
"""Largest number of steps of a run. Far larger numbers overflow when a budget scales them, or in estimates of cost."""


class SettingsError(ValueError):
    """Raised for an unusable setting.

    Attributes:
        key: Dotted path of the setting inside the family's settings (``task.modulus``), or an empty string.
        given: The value that was given, as text.
        allowed: The allowed values, if they can be listed. Messages then contain the nearest one.
    """

    def __init__(self, message: str, *, key: str = "", given: str = "", allowed: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.key = key
        self.given = given
        self.allowed = tuple(allowed)


def require(holds: bool, key: str, given: object, rule: str) -> None:
    """Raise :class:`SettingsError` unless the setting ``key`` follows the rule ("at least 1")."""
    if not holds:
        message = f"{key.rpartition('.')[2]} is {given}; it must be {rule}"
        raise SettingsError(message, key=key, given=str(given))


ADDED_LATER: Mapping[str, bool] = {"added later": True}
"""Metadata of a settings field that old runs did not have."""


def digest_of(described: Any) -> str:
    """Return a hash of plain values, in hex digits."""
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def described_fields(settings: Any) -> dict[str, Any]:
    """Return the fields of a settings dataclass as plain values. Omit fields that were added later if they have their
    default.

    A nested dataclass is described in the same way, or by its ``described()`` method if it has one.
    """
    described = asdict(settings)
    for field in fields(settings):
        value = getattr(settings, field.name)
        if field.metadata == ADDED_LATER and value == field.default:
            del described[field.name]
        elif hasattr(value, "described"):
            described[field.name] = dict(value.described())
        elif is_dataclass(value):
            described[field.name] = described_fields(value)
    return described
