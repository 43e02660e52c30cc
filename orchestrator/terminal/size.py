"""The size of the terminal in the environment."""

from __future__ import annotations

from collections.abc import Mapping

SIZES = ("COLUMNS", "LINES")
"""Variables from which rich takes the terminal's size before it asks the terminal."""


def with_usable_size(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without sizes that are not positive.

    cron, expect and some containers set 0, and rich would print nothing at all.
    """
    useless = {name for name in SIZES if not environment.get(name, "1").strip("0").isdecimal()}
    return {name: value for name, value in environment.items() if name not in useless}
