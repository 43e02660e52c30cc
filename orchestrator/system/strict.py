"""The configuration of all pydantic models."""

from __future__ import annotations

from pydantic import ConfigDict

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)
"""No unknown keys, and no conversions: ``true`` is not a number and ``"6"`` is not an integer."""
