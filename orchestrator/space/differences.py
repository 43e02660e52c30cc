"""Differences between specifications that change results."""

from __future__ import annotations

from typing import Any

from orchestrator.space.settings import flatten
from orchestrator.space.spec import SweepSpec

NO_RESULT = frozenset(
    {"question", "probes", "resources", "profile", "profile_reason", "variant", "along", "salt", "search.stack"}
)
"""Keys of a specification that do not change results."""


def differences(spec: SweepSpec, other: SweepSpec) -> dict[str, tuple[Any, Any]]:
    """Return the dotted keys whose values differ, with both values; empty if both sweeps need the same runs.

    Keys that do not change results are left out. So are tuned values if both sweeps have the same tuning and one has
    not been tuned yet, because it would find the same values.
    """
    one, two = flatten(spec.to_dict()), flatten(other.to_dict())
    same_tuning = spec.tune is not None and spec.tune == other.tune and not (spec.tuned and other.tuned)
    ignored = NO_RESULT | ({"tuned"} if same_tuning else set())
    return {
        key: (one.get(key), two.get(key))
        for key in one | two
        if not {key, key.split(".")[0]} & ignored and one.get(key) != two.get(key)
    }
