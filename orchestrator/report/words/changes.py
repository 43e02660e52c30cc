"""What a sweep changed in its search space, so that sweeps of one space can be told apart."""

from __future__ import annotations

from functools import cache

from orchestrator.errors import UserError
from orchestrator.space.differences import differences
from orchestrator.space.files import names
from orchestrator.space.hardware import Hardware
from orchestrator.space.spaces import load_space
from orchestrator.space.spec import SweepSpec

MOST_SHOWN = 4
"""Maximum number of settings named in a line."""
ANY_MACHINE = Hardware(1, 1)
"""Stands for the hardware, which changes no result of a profile that is named."""


def changed_words(spec: SweepSpec) -> str:
    """Return the settings that differ from the shipped search space: ``changed: steps 50, seeds 3``.

    ``""`` if none differs, and for a space that is not shipped, or only has the name of a shipped one.
    """
    shipped = _shipped(spec.name, spec.profile, spec.variant)
    if shipped is None or shipped.family != spec.family:
        return ""
    changed = [
        f"{key.rpartition('.')[2]} {_text(value)}"
        for key, (value, _) in differences(spec, shipped).items()
        if not key.startswith("tuned")
    ]
    more = f" and {len(changed) - MOST_SHOWN} more" if len(changed) > MOST_SHOWN else ""
    return f"changed: {', '.join(changed[:MOST_SHOWN])}{more}" if changed else ""


@cache
def _shipped(name: str, profile: str, variant: str) -> SweepSpec | None:
    """Return a shipped space in a profile and variant; None if there is no such space any more."""
    if name not in names():
        return None
    try:
        return load_space(name, profile or None, (), ANY_MACHINE, variant or None)
    except UserError:
        return None


def _text(value: object) -> str:
    """Return a value in a few characters: ``8 to 64`` for a list of numbers."""
    if value is None:
        return "unset"
    if isinstance(value, list) and len(value) > 2 and all(isinstance(item, int) for item in value):
        return f"{value[0]} to {value[-1]}"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
