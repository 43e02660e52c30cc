"""Folders of the user's code that travel with a sweep to the nodes of a cluster.

The driver reads the folder of the family, and each node unpacks it into a directory of its user and imports from there.
Shipping does not change a run's key. As without it, the sweep stops if a worker's code differs from the driver's.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.home.foreign_files import checked_path
from orchestrator.system.environment import private_directory
from orchestrator.system.errors import UserError
from orchestrator.system.files import entries, is_directory, is_file, whole_directory
from orchestrator.system.text import counted, size_on_disk
from trainables.contract.finder import is_installed, is_outside
from trainables.contract.user_modules import files_of, folder_of

MOST_BYTES = 50_000_000
"""Largest folder that is shipped. Code and small data are below it; data sets are not."""
MOST_FILES = 10_000
"""A folder with more files is a home directory or an environment, for example."""
SHOWN = 5
"""Number of the largest files that an error names."""
SHIPPED = "shipped"
"""Directory of unpacked folders in a user's private directory of a node."""
KEPT_S = 30 * 86_400.0
"""Seconds after which an unpacked folder that no process has used is removed."""


@dataclass(frozen=True)
class Shipment:
    """Folders with the contents of their files by relative path, in the order in which modules are searched."""

    folders: tuple[Mapping[str, bytes], ...] = ()
    description: str = ""

    def unpack(self) -> list[Path]:
        """Write the folders to this machine, unless they are here already, and return their paths."""
        return [_unpacked(files) for files in self.folders]


NOTHING = Shipment()
"""No folder."""


def pack(names: Iterable[str], leave_out: Path) -> Shipment:
    """Return the folders of the code that a search space names as ``module:Class``, which has been imported.

    Leave out hidden files and directories, links, compiled modules, environments, and the directory ``leave_out``,
    which has the results. Raises :class:`UserError` if there is nothing to ship, or too much.
    """
    modules = [name.partition(":")[0] for name in names if ":" in name and is_outside(name.partition(":")[0])]
    folders = [Path(folder) for folder in dict.fromkeys(map(folder_of, modules)) if folder]
    own = [folder for folder in folders if not is_installed(folder)]
    if not own:
        where = f"{modules[0]} is an installed package" if modules else "the family is part of this program"
        raise UserError(f"--ship has nothing to ship: {where}. Install it on every node, and leave --ship out")
    files = [file for module in modules if Path(folder_of(module)) in own for file in files_of(module).values()]
    if links := [file for file in files if file.resolve() != file]:
        raise UserError(f"--ship: {links[0]} is a link, and links stay here: put a copy in its place")
    packed = [_pack(folder, leave_out.resolve()) for folder in own]
    listed = [
        f"{folder} ({counted(len(files), 'file')}, {size_on_disk(sum(map(len, files.values())))})"
        for folder, files in zip(own, packed, strict=True)
    ]
    stay = "hidden files and directories (such as .env and .git) and links stay here"
    return Shipment(tuple(packed), f"Shipping {' and '.join(listed)} to every node; {stay}")


def _pack(folder: Path, leave_out: Path) -> dict[str, bytes]:
    sizes: dict[Path, int] = {}
    for path in _files(folder, leave_out):
        sizes[path] = path.lstat().st_size
        if len(sizes) > MOST_FILES:
            raise UserError(
                f"--ship: {folder} has more than {MOST_FILES:,} files. Put the family into a folder of its own, or "
                "copy that folder to every node and name it in PYTHONPATH there"
            )
    if (total := sum(sizes.values())) > MOST_BYTES:
        largest = sorted(sizes, key=lambda path: -sizes[path])[:SHOWN]
        shown = ", ".join(f"{path.relative_to(folder)} ({size_on_disk(sizes[path])})" for path in largest)
        raise UserError(
            f"--ship: {folder} has {size_on_disk(total)}, more than {size_on_disk(MOST_BYTES)}. Its largest files: "
            f"{shown}. Move them out of the folder, or copy it to every node and name it in PYTHONPATH there"
        )
    try:
        return {checked_path(path.relative_to(folder).as_posix()): path.read_bytes() for path in sizes}
    except ValueError as error:
        raise UserError(f"--ship: {folder}: {error}; rename it") from error
    except OSError as error:
        raise UserError(f"--ship: {error.filename} cannot be read: {error.strerror}") from error


def _files(folder: Path, leave_out: Path) -> Iterator[Path]:
    """Yield the plain files below a folder that may be shipped."""
    for path in entries(folder):
        if path.name.startswith(".") or path.suffix == ".pyc":
            continue
        if is_file(path):
            yield path
        elif is_directory(path) and path.resolve() != leave_out and not is_file(path / "pyvenv.cfg"):
            yield from _files(path, leave_out)


def _unpacked(files: Mapping[str, bytes]) -> Path:
    """Return the directory with these files, after writing it if it is missing."""
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    root = private_directory() / SHIPPED
    root.mkdir(mode=0o700, exist_ok=True)
    path = root / digest.hexdigest()[:32]
    if not is_directory(path):
        with whole_directory(path) as directory:
            for name, content in files.items():
                target = directory / checked_path(name)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
    os.utime(path)
    for other in entries(root):
        if is_directory(other) and time.time() - other.lstat().st_mtime > KEPT_S:
            shutil.rmtree(other, ignore_errors=True)
    return path
