"""Settings and specifications as plain values, for YAML, records and comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.space.spec import SweepSpec

NO_RESULT = frozenset(
    {"question", "probes", "resources", "profile", "profile_reason", "variant", "along", "salt", "search.stack"}
)
"""Keys of a specification that change no result."""


def flatten(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one mapping with dotted keys; lists stay values."""
    flat: dict[str, Any] = {}
    for key, value in data.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def plain_settings(settings: Any) -> dict[str, Any]:
    """A family's settings as YAML has them."""
    values: dict[str, Any] = _plain(asdict(settings))
    return values


def differences(spec: SweepSpec, other: SweepSpec) -> dict[str, tuple[Any, Any]]:
    """Dotted keys whose values differ, with both values; empty when the two ask for the same runs.

    Keys that change no result are left out: resources, probes, the names of profile and variant, the wording of the
    question, and the number of seeds asked for together, which may depend on the device. What was tuned is left out
    where both ask for the same tuning and one of them has not been tuned yet: it would find the same.
    """
    one, two = flatten(spec.to_dict()), flatten(other.to_dict())
    same_tuning = spec.tune is not None and spec.tune == other.tune and not (spec.tuned and other.tuned)
    ignored = NO_RESULT | ({"tuned"} if same_tuning else set())
    return {
        key: (one.get(key), two.get(key))
        for key in one | two
        if not {key, key.split(".")[0]} & ignored and one.get(key) != two.get(key)
    }


def _plain(value: Any) -> Any:
    """Dataclass values as YAML has them: tuples become lists, string enums strings."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, str) else value
