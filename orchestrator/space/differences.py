"""Differences between two sweeps that change their results."""

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

    Keys that do not change results are omitted. Tuned values are omitted if both sweeps have the same tuning and one of
    them was not tuned yet, because tuning would find the same values.
    """
    values = flatten(spec.to_dict())
    other_values = flatten(other.to_dict())
    same_tuning = spec.tune is not None and spec.tune == other.tune and not (spec.tuned and other.tuned)
    ignored = NO_RESULT | ({"tuned"} if same_tuning else set())
    return {
        key: (values.get(key), other_values.get(key))
        for key in values | other_values
        if not {key, key.split(".")[0]} & ignored and values.get(key) != other_values.get(key)
    }


def differences_text(different: Mapping[str, tuple[object, object]]) -> str:
    """Return the first settings that differ, such as ``seeds (now 3, was 5)``."""
    return first_of(
        [
            "the code of its script" if key == SCRIPT_CODE else f"{key} (now {new!r}, was {old!r})"
            for key, (new, old) in sorted(different.items())
        ]
    )
