"""The size of the terminal in the environment."""

from __future__ import annotations

from collections.abc import Mapping

SIZES = ("COLUMNS", "LINES")
"""Environment variables that rich prefers to the terminal's own size."""


def with_usable_size(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without non-positive sizes (from cron, some containers): rich would print nothing."""
    useless = {name for name in SIZES if not environment.get(name, "1").strip("0").isdecimal()}
    return {name: value for name, value in environment.items() if name not in useless}
