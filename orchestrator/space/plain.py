"""Settings as plain values, for YAML, records and comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any


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


def _plain(value: Any) -> Any:
    """Dataclass values as YAML has them: tuples become lists, string enums strings."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, str) else value
