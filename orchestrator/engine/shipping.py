"""Folders of the user's code that travel with a sweep to the nodes of a cluster.

The driver reads the folder of the family. Each node unpacks it into a private directory of the user and imports from
there. Shipping does not change a run's key. The sweep still stops if a worker's code differs from the driver's.
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

LARGEST_SHIPMENT = 50_000_000
"""Maximum number of bytes of a folder that is shipped. Code and small data are smaller, data sets are larger."""
MOST_FILES = 10_000
"""Maximum number of files of a folder that is shipped. A folder with more files may be a home directory or an
environment, for example."""
LISTED_FILES = 5
"""Number of the largest files that an error lists."""
SHIPPED = "shipped"
"""Name of the directory of unpacked folders, in the user's private directory on a node."""
KEPT_S = 30 * 86_400.0
"""Seconds after which an unpacked folder is removed if no process has used it."""


@dataclass(frozen=True)
class Shipment:
    """Folders of code.

    Attributes:
        folders: The contents of each folder's files by relative path, in the order in which modules are searched.
        description: A sentence for the user.
    """

    folders: tuple[Mapping[str, bytes], ...] = ()
    description: str = ""

    def unpack(self) -> list[Path]:
        """Write the folders to this machine, unless they are already there, and return their paths."""
        return [_unpacked(files) for files in self.folders]


NOTHING = Shipment()
"""No folder."""


def pack(names: Iterable[str], leave_out: Path) -> Shipment:
    """Return the folders of the user's code, without hidden files and directories, links, compiled modules and
    environments.

    Args:
        names: Classes that a search space names as ``module:Class``. Their modules have been imported.
        leave_out: The directory of the results, which is not packed.

    Raises:
        UserError: if there is nothing to ship, or too much.
    """
    modules = [name.partition(":")[0] for name in names if ":" in name and is_outside(name.partition(":")[0])]
    folders = [Path(folder) for folder in dict.fromkeys(map(folder_of, modules)) if folder]
    to_ship = [folder for folder in folders if not is_installed(folder)]
    if not to_ship:
        reason = f"{modules[0]} is an installed package" if modules else "the family is part of this program"
        raise UserError(f"--ship has nothing to ship: {reason}. Install it on every node, and omit --ship")
    files = [file for module in modules if Path(folder_of(module)) in to_ship for file in files_of(module).values()]
    if links := [file for file in files if file.resolve() != file]:
        raise UserError(f"--ship: {links[0]} is a link, and links are not shipped. Replace it with a copy")
    packed = [_pack(folder, leave_out.resolve()) for folder in to_ship]
    listed = [
        f"{folder} ({counted(len(files), 'file')}, {size_on_disk(sum(map(len, files.values())))})"
        for folder, files in zip(to_ship, packed, strict=True)
    ]
    stay = "hidden files and directories (such as .env and .git) and links stay here"
    return Shipment(tuple(packed), f"Shipping {' and '.join(listed)} to every node; {stay}")


def _pack(folder: Path, leave_out: Path) -> dict[str, bytes]:
    """Return the contents of a folder's files by relative path. Raises ``UserError`` if there is too much."""
    sizes: dict[Path, int] = {}
    for path in _files(folder, leave_out):
        sizes[path] = path.lstat().st_size
        if len(sizes) > MOST_FILES:
            raise UserError(
                f"--ship: {folder} has more than {MOST_FILES:,} files. Put the family into a separate folder, or copy "
                "this folder to every node and add it to PYTHONPATH there"
            )
    if (total := sum(sizes.values())) > LARGEST_SHIPMENT:
        largest = sorted(sizes, key=lambda path: -sizes[path])[:LISTED_FILES]
        files = ", ".join(f"{path.relative_to(folder)} ({size_on_disk(sizes[path])})" for path in largest)
        raise UserError(
            f"--ship: {folder} has {size_on_disk(total)}, more than {size_on_disk(LARGEST_SHIPMENT)}. Its largest "
            f"files are {files}. Move them out of the folder, or copy the folder to every node and add it to "
            "PYTHONPATH there"
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
    """Return the directory with these files, and write it first if it is missing. Remove old directories."""
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
    os.utime(path)  # Its time of last use, so that it is not removed as old.
    for other in entries(root):
        if is_directory(other) and time.time() - other.lstat().st_mtime > KEPT_S:
            shutil.rmtree(other, ignore_errors=True)
    return path
