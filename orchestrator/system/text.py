"""Numbers, times and lists as text, the same in terminal, page, figures and record."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime

MOST_NAMES = 6
"""Maximum number of names in a message."""


def number(value: float) -> str:
    """Return three significant digits with thousands separators: ``7.25``, ``37.1``, ``19,600``."""
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    text = f"{round(value, digits):,.{max(digits, 0)}f}"
    return text.rstrip("0").rstrip(".") if digits > 0 else text


def exact(value: float) -> str:
    """Return a tested size without rounding: ``14,736``."""
    return f"{value:,.0f}" if float(value).is_integer() else number(value)


def bare(ratio: float) -> str:
    """Return two significant digits, or an integer from 10 on: ``0.83``, ``2.8``, ``12``."""
    if ratio >= 10:
        return f"{ratio:.0f}"
    if ratio >= 1:
        return f"{ratio:.1f}"
    return f"{ratio:.2f}".removesuffix("0") if ratio >= 0.01 else f"{ratio:.2g}"


def counted(count: int, thing: str) -> str:
    """Return ``1 run`` or ``3 runs``."""
    return f"{count} {thing}{'' if count == 1 else 's'}"


def quoted(name: str) -> str:
    """Return a name, quoted if it has several words: ``"max, then add"``."""
    return f'"{name}"' if " " in name else name


def listed(names: Sequence[str]) -> str:
    """Return ``a``, ``a and b`` or ``a, b and c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def duration(seconds: float) -> str:
    """Return ``45 s``, ``3 min 20 s`` or ``1 h 05 min``."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def rough_duration(seconds: float) -> str:
    """Return ``45 s``, ``12 min``, ``3.5 h`` or ``2.1 days``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 36 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} days"


def scaled(value: float, units: Mapping[str, float], rest: str) -> str:
    """Return a value in the first of these units that it reaches (``1.3 GB``, ``12M``), or ``rest`` if it reaches
    none."""
    for name, unit in units.items():
        if value >= unit:
            return f"{value / unit:.{0 if value >= 10 * unit else 1}f}{name}"
    return rest


def size_on_disk(count: float) -> str:
    """Return ``350 kB``, ``12 MB`` or ``1.3 GB``."""
    return scaled(count, {" GB": 1e9, " MB": 1e6}, f"{count / 1e3:.0f} kB")


def moment(when: datetime) -> str:
    """Return local time: ``2026-01-02 03:04``."""
    return f"{when.astimezone():%Y-%m-%d %H:%M}"


def first_of(names: Sequence[str]) -> str:
    """Return the first names, and the number of remaining names: ``a, b, c, d, e, f and 3 more``."""
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
