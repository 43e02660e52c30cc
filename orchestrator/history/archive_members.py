"""Members of an archive: which files it may contain, and their check and unpacking.

Another user may have made the archive. Everything in it is checked against names, types and limits.
"""

from __future__ import annotations

import gzip
import math
import os
import re
import shutil
import tarfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, Self

from orchestrator.system.errors import UserError

LAYOUT_MEMBER = "transition-sweeps.json"
"""Member of an archive with the version of the layout."""
LAYOUT = b'{"layout": 1}'
"""Content of the member :data:`LAYOUT_MEMBER`."""
MEMBER_NAME = r"[^./\\\0-\x1f\x7f][^/\\\0-\x1f\x7f]{0,254}"
"""Pattern of the name of a file or directory that is not hidden."""
MEMBER_PATH = re.compile(
    rf"runs/\w[\w.-]{{0,127}}/(probes/)?{MEMBER_NAME}"
    rf"|sweeps/\w[\w.-]{{0,199}}/(checkpoints/({MEMBER_NAME}/){{1,8}}|stacks/{MEMBER_NAME}/)?{MEMBER_NAME}"
)
"""Pattern of the path of a file in an archive: ``runs/KEY/...`` or ``sweeps/ID/...``, without hidden parts or ".."."""
LONGEST_PART = 230
"""Maximum bytes of a name in a path. While a file is written, its name is 18 bytes longer, and disks allow 255."""
MOST_MEMBERS = 2_000_000
"""Maximum number of files in an archive."""
MOST_HEADER_BYTES = 1 << 16
"""Largest header of a member."""
MOST_CONTENT_RATIO = 200
"""Bytes of content that an archive may have per byte of its own size. Exported homes have one to ten."""
ALLOWED_CONTENT_BYTES = 256 << 20
"""Bytes of content that any archive may have, even a small one."""


def is_plain(name: str) -> bool:
    """Return True for the path of a file of a run or sweep that every home can keep."""
    return bool(MEMBER_PATH.fullmatch(name)) and all(len(part.encode()) <= LONGEST_PART for part in name.split("/"))


def checked_size(file: BinaryIO, path: Path) -> int:
    """Check a whole archive, and return the bytes of its content.

    Raises:
        UserError: If the file is damaged or not an archive of this version, or contains anything except files of runs
            and sweeps.
    """
    names: set[str] = set()
    size = 0
    layout = b""
    for member, data in _members(file, path):
        if member.name in names:
            raise UserError(f"{path} contains {member.name} twice; nothing was imported")
        if member.name == LAYOUT_MEMBER:
            layout = data.read(len(LAYOUT) + 1)
        names.add(member.name)
        size += member.size
    # A name cannot be both. Unpacking would fail halfway.
    folders = {parent for name in names for parent in map(str, PurePosixPath(name).parents)}
    if both := sorted(folders & names):
        raise UserError(f"{path} contains {both[0]} as a file and as a directory; nothing was imported")
    if layout != LAYOUT:
        raise UserError(f"{path} is not an exported home, or was written by a later version of the program")
    return size


def unpack(file: BinaryIO, path: Path, target_directory: Path) -> None:
    """Write the members of a checked archive below a directory. Raises :class:`UserError` if they were changed since
    the check."""
    for member, data in _members(file, path):
        target = target_directory / member.name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as unpacked:
                shutil.copyfileobj(data, unpacked)
        except (FileExistsError, NotADirectoryError) as error:
            raise UserError(f"{path} was changed while it was imported; nothing was imported") from error
        # A sweep from the future would always count as the newest. No file is older than 1970.
        written = max(0.0, min(member.mtime, time.time()))
        os.utime(target, (written, written))


class _Member(tarfile.TarInfo):
    """Header of a member. Only plain files with small headers are accepted, because tarfile reads a header whole."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        member = super().frombuf(buf, encoding, errors)
        is_header = member.type in (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME)
        if is_header and not 0 <= member.size <= MOST_HEADER_BYTES:
            raise UserError(f"it has a header of {member.size} bytes; at most {MOST_HEADER_BYTES} are read")
        if not is_header and member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
            raise UserError(f"it contains {member.name!r:.200}, which is not a plain file")
        return member


def _members(file: BinaryIO, path: Path) -> Iterator[tuple[tarfile.TarInfo, IO[bytes]]]:
    """Yield the members of an archive, each with its content.

    Raises:
        UserError: If the file is damaged or not an archive, contains anything except files of runs and sweeps, or
            exceeds a limit.
    """
    most = max(ALLOWED_CONTENT_BYTES, MOST_CONTENT_RATIO * os.fstat(file.fileno()).st_size)
    total = 0
    file.seek(0)
    try:
        with gzip.open(file) as stream:
            # A stream is read once from beginning to end, so memory and time depend only on the size of the content.
            with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Member) as archive:
                for number, member in enumerate(archive, start=1):
                    data = archive.extractfile(member)
                    if data is None or member.issparse() or not (member.name == LAYOUT_MEMBER or is_plain(member.name)):
                        raise UserError(f"it contains {member.name!r:.200}, which is not a file of a run or a sweep")
                    if not math.isfinite(member.mtime):
                        raise UserError(f"it contains {member.name!r:.200} with an impossible time")
                    total += member.size
                    if total > most:
                        raise UserError(f"it has more than {most} bytes of content, implausibly many for its size")
                    if number > MOST_MEMBERS:
                        raise UserError(f"it has more than {MOST_MEMBERS} files")
                    yield member, data
                    archive.members.clear()  # type: ignore[attr-defined]  # Otherwise all headers stay in memory.
            while rest := stream.read(1 << 20):  # gzip compares its checksum only at the very end.
                total += len(rest)
                if total > most:
                    raise UserError(f"it has more than {most} bytes after its content")
    except UserError as error:
        raise UserError(f"{path} cannot be imported: {error}; nothing was imported") from error
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged or not an exported home ({error}); nothing was imported") from error
