"""How a search space may write a mix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainables.base import Mix


def read_mix(value: Any) -> Mix:
    """A mix from ``"add+prod"``, ``"add+prod x2"`` or ``{add: 2, prod: 1}``, its numbers rounded to what its name says.

    Raises ``ValueError`` (a ``SettingsError`` where the mix itself is wrong).
    """
    if isinstance(value, Mix):
        mix = value
    elif isinstance(value, str):
        mix = Mix.parse(value)
    elif isinstance(value, Mapping):
        for task, weight in value.items():
            if isinstance(weight, bool) or not isinstance(weight, int | float):
                raise ValueError(f"the weight of {task!r} must be a number, got {weight!r}")
        mix = Mix.of(value)
    else:
        raise ValueError(f"a mix is written add+prod or {{add: 2, prod: 1}}, got {value!r}")
    return Mix.parse(mix.name)
