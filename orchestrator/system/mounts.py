"""Mount points below a directory. What is mounted there is not part of a home."""

from __future__ import annotations

import os
import re
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
"""Mount points of this process on Linux, one per line."""
MOUNT_POINT_FIELD = 4
"""Field of a line with the mount point."""
OCTAL = re.compile(rb"\\([0-7]{3})")
"""Escaped byte in a mount point, such as a space."""


def mount_points_below(directory: Path) -> list[Path]:
    """Return the places below a directory at which another directory or disk is mounted. Return nothing if the system
    does not list them.

    The number of the device does not show them: another directory of the same disk can be mounted.
    """
    try:
        lines = MOUNTS.read_bytes().splitlines()
    except OSError:  # Not Linux.
        return []
    top = os.path.join(os.fsencode(directory.resolve()), b"")
    points = [OCTAL.sub(lambda code: bytes([int(code[1], 8)]), line.split(b" ")[MOUNT_POINT_FIELD]) for line in lines]
    return [Path(os.fsdecode(point)) for point in points if point.startswith(top)]
