"""Lists the files of a home that this program does not write. They are never read or followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from orchestrator.home.directories import DATABASE, LINES, Home
from orchestrator.home.foreign_files import KEY_PATTERN, SWEEP_NAME_PATTERN, is_hole
from orchestrator.system.files import is_directory


def foreign_things(home: Home) -> list[str]:
    """Return a phrase for each link, pipe and device in a home, and for each name that could lead out of it."""
    return [*_odd_files(home), *_odd_names(home)]


def _odd_files(home: Home) -> Iterator[str]:
    for name in ("runs", "sweeps", "claims", "artifacts", DATABASE, LINES):
        if (home.root / name).is_symlink():
            yield f"{home.root / name} is a link"
    for top in ("runs", "sweeps", "claims", "artifacts"):
        for folder, folders, files in os.walk(home.root / top):
            for path in (Path(folder, name) for name in sorted((*folders, *files))):
                mode = (status := path.lstat()).st_mode
                if stat.S_ISLNK(mode):
                    yield f"{path} is a link"
                elif not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                    yield f"{path} is a pipe, socket or device"
                elif is_hole(status):
                    yield f"{path} has {status.st_size} bytes, almost all of them empty"


def _odd_names(home: Home) -> Iterator[str]:
    for folder, pattern in ((home.root / "sweeps", SWEEP_NAME_PATTERN), (home.runs, KEY_PATTERN)):
        for path in sorted(folder.iterdir()) if is_directory(folder) else ():
            if not path.name.startswith(".") and is_directory(path) and not pattern.fullmatch(path.name):
                yield f"{str(path)!r} has a name that no {folder.name.removesuffix('s')} has"
