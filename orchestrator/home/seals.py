"""Checksums of the files of a run or a checkpoint. They show whether it is complete and undamaged."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

from orchestrator.home.directories import PROBES
from orchestrator.home.foreign_files import checked_path, open_file, read_json
from orchestrator.home.safe_writing import own_directory
from orchestrator.system.files import is_directory, is_file
from orchestrator.system.machine_errors import is_damage

CONTENTS = "contents.json"
"""File with the checksums of all other files in the directory of a run or checkpoint, written last."""


def seal(directory: Path) -> None:
    """Write the checksum of every file in a directory."""
    paths = sorted(path for path in directory.rglob("*") if is_file(path) and path.parent.name != PROBES)
    sums = {str(path.relative_to(directory)): _checksum(path) for path in paths}
    (directory / CONTENTS).write_text(json.dumps(sums), encoding="utf-8")


def flaw_of(directory: Path, *names: str) -> str:
    """Return a message about the first damaged or missing file in a sealed directory. Return an empty string if there
    is none. If ``names`` are passed, check only these files."""
    try:
        sums = read_json(directory / CONTENTS)
        if not isinstance(sums, dict) or not is_directory(directory):
            return f"{CONTENTS} does not list files"
        for name in names or (name for name in map(checked_path, sums) if not name.startswith(f"{PROBES}/")):
            if name not in sums:
                return f"{CONTENTS} does not list {name}"
            own_directory(directory, *name.split("/")[:-1])
            if _checksum(directory / name) != sums[name]:
                return f"{name} does not match its checksum"
    except (OSError, ValueError, TypeError) as error:
        if not is_damage(error):
            raise  # The machine has an error. The file may be intact.
        return f"{type(error).__name__}: {error}".partition("\n")[0]
    return ""


def _checksum(path: Path) -> int:
    checksum = 0
    with open_file(path) as file:
        while part := file.read(1 << 20):
            checksum = zlib.crc32(part, checksum)
    return checksum
