"""Text about the settings in which a sweep differs from its search space. It distinguishes sweeps of one space."""

from __future__ import annotations

from functools import cache

from orchestrator.space.differences import differences
from orchestrator.space.spaces import load_space, names
from orchestrator.space.spec import SweepSpec
from orchestrator.system.errors import UserError
from orchestrator.system.hardware import Hardware

MOST_SHOWN = 4
"""Maximum number of settings named in a line."""
ANY_MACHINE = Hardware(1, 1)
"""Any hardware will do, because it does not change a profile that is chosen by name."""


def changed_text(spec: SweepSpec) -> str:
    """Return the settings that differ from the shipped search space: ``changed: steps 50, seeds 3``.

    Return an empty string if none differ, or if the sweep is not from a shipped space.
    """
    shipped = _shipped(spec.name, spec.profile, spec.variant)
    if shipped is None or shipped.family != spec.family:  # Another space, with the name of a shipped space.
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
    """Return a shipped space in a profile and variant, or None if this version has no such space."""
    if name not in names():
        return None
    try:
        return load_space(name, profile or None, (), ANY_MACHINE, variant or None)
    except UserError:
        return None


def _text(value: object) -> str:
    """Return a value in a few characters, such as ``8 to 64`` for a list of numbers."""
    if isinstance(value, list):
        are_numbers = len(value) > 2 and all(isinstance(item, int) for item in value)
        return f"{value[0]} to {value[-1]}" if are_numbers else " ".join(map(str, value))
    return "unset" if value is None else str(value)
