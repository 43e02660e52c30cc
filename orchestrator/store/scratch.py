"""Room on this machine for what can be made again: training data. Not on the storage that machines share."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from orchestrator.errors import SweepError


def scratch(chosen: str | None) -> Path:
    """The directory that was chosen, or else a private one beneath the system's temporary directory; made if missing.

    It outlives a sweep: what is in it is found again under the name of what it was made from.

    Raises :class:`SweepError` where it cannot be made, or is not this user's alone: whoever else could write into it
    could change what is trained.
    """
    path = Path(chosen).expanduser() if chosen else Path(tempfile.gettempdir()) / f"orchestrator-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, parents=bool(chosen), exist_ok=True)
        there = path.lstat()
    except OSError as error:
        raise SweepError(
            f"there is no room for training data at {path} ({error.strerror}): name another --scratch"
        ) from error
    if not chosen and (not stat.S_ISDIR(there.st_mode) or there.st_uid != os.getuid() or there.st_mode & 0o022):
        raise SweepError(f"{path} is not this user's alone: remove it, or name another directory as --scratch")
    return path
