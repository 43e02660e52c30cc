"""Differences between two sweeps in what they compute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.space.settings import flatten
from orchestrator.space.spec import SweepSpec
from orchestrator.system.text import first_of

NO_RESULT = frozenset(
    {
        "question",
        "probes",
        "resources",
        "record",
        "code",
        "profile",
        "profile_reason",
        "variant",
        "along",
        "salt",
        "search.stack",
        "looks",
    }
    | {f"script.{name}" for name in ("directory", "resume", "parameters", "seeded", "stops_early")}
    | {f"script.{name}" for name in ("silent_s", "memory_gb", "size_axis", "config_name", "code")}
)
"""Keys of a specification that do not change results."""
SCRIPT_CODE = "script.code_hash"
"""Key of a specification with the hash of its script's code."""


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


def differences_text(different: Mapping[str, tuple[object, object]]) -> str:
    """Return the first settings that differ, such as ``seeds (now 3, was 5)``."""
    return first_of(
        [
            "the code of its script" if key == SCRIPT_CODE else f"{key} (now {mine!r}, was {theirs!r})"
            for key, (mine, theirs) in sorted(different.items())
        ]
    )
