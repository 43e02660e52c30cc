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
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, NamedTuple, NoReturn, Self

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
MEMBER_BYTES = 16 << 10
"""Bytes of content for which each file counts at least. A small archive could otherwise have 100,000 empty files, which
take minutes to make."""
MOST_HEADER_BYTES = 1 << 12
"""Largest header of a member. A path has at most 2,500 bytes."""
HEADER_WEIGHT = 4
"""Bytes of content for which a byte of headers counts. Headers take longer to read than content."""
MOST_CONTENT_RATIO = 200
"""Bytes of content that an archive may have per byte of its own size. Exported homes have one to ten."""
ALLOWED_CONTENT_BYTES = 256 << 20
"""Bytes of content that any archive may have, even a small one."""
ALLOWED_VALUES = 2_000_000
"""Values that the JSON files of any archive may have, counted by commas and lines. Larger ones may have one more for
each of their own bytes. Exported homes of ours have one per 50 to 500 bytes."""
VALUES_OF_SIGNS = {".json": 1, ".jsonl": 1, ".yaml": 20}
"""Number of values for which a comma or a line counts, by the suffix of its file. Every command that reads the home
reads these files. A value of YAML takes 23 microseconds, one of JSON 0.7."""
SIGNS = (b",", b"\n", b"\r", *(sign.encode() for sign in "\x85\u2028\u2029"))
"""Commas, and all ends of lines in YAML."""

FOREIGN_MARK = "was-imported"
"""Name of an empty file in the archive, next to the files of a run or sweep that the exported home had imported."""
OMITTED_SUFFIXES = (".lock", ".log", "stop.jsonl")
"""Suffixes of a sweep's files that are useful only on one machine. They are neither exported nor imported."""


class CopyCounts(NamedTuple):
    """Numbers of runs and sweeps that an archive or a home received. Sweeps that were only continued count too."""

    runs: int
    sweeps: int


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
    size = values = 0
    most_values = ALLOWED_VALUES + os.fstat(file.fileno()).st_size
    layout = b""
    with _damage_reported(path):
        for member, data in _members(file):
            if member.name in names:
                raise UserError(f"it contains {member.name} twice")
            if member.name == LAYOUT_MEMBER:
                layout = data.read(len(LAYOUT) + 1)
            elif weight := VALUES_OF_SIGNS.get(PurePosixPath(member.name).suffix):
                values += sum(weight * _count_values(part) for part in iter(partial(data.read, 1 << 20), b""))
            if values > most_values:
                raise UserError(f"its runs have more than {most_values:,} values, implausibly many for its size")
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
    with _damage_reported(path):
        for member, data in _members(file):
            target = target_directory / member.name
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("xb") as unpacked:
                    shutil.copyfileobj(data, unpacked)
            except (FileExistsError, NotADirectoryError) as error:
                raise UserError("it was changed while it was imported") from error
            # A sweep from the future would always count as the newest. No file is older than 1970.
            written = max(0.0, min(member.mtime, time.time()))
            os.utime(target, (written, written))


class _Member(tarfile.TarInfo):
    """Header of a member. Only plain files with small headers are accepted, because tarfile reads a header whole."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        member = super().frombuf(buf, encoding, errors)
        # A global header (XGLTYPE) is refused, because tarfile would apply it to every member.
        is_header = member.type in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME)
        if is_header and not 0 <= member.size <= MOST_HEADER_BYTES:
            raise UserError(f"it has a header of {member.size} bytes; at most {MOST_HEADER_BYTES} are read")
        if not is_header and member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
            raise UserError(f"it contains {member.name!r:.200}, which is not a plain file")
        return member

    def _refuse_sparse(self, *_: object) -> NoReturn:
        raise UserError(f"it contains {self.name!r:.200}, which is a sparse file")

    # tarfile calls these when a header describes a sparse file. It would read a map of any length.
    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _refuse_sparse


def _count_values(text: bytes) -> int:
    return sum(map(text.count, SIGNS))


@contextmanager
def _damage_reported(path: Path) -> Iterator[None]:
    """Report what is wrong with an archive in one form, also if it is noticed while a member is read."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{path} cannot be imported: {error}; nothing was imported") from error
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged or not an exported home ({error}); nothing was imported") from error


def _members(file: BinaryIO) -> Iterator[tuple[tarfile.TarInfo, IO[bytes]]]:
    """Yield the members of an archive, each with its content.

    Raises ``UserError`` if it contains anything except files of runs and sweeps, or exceeds a limit. Raises the errors
    of tarfile and gzip if it is damaged.
    """
    most = max(ALLOWED_CONTENT_BYTES, MOST_CONTENT_RATIO * os.fstat(file.fileno()).st_size)
    total = 0
    file.seek(0)
    with gzip.open(file) as stream:
        # A stream is read once from beginning to end, so memory and time depend only on the size of the content.
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Member) as archive:
            for number, member in enumerate(archive, start=1):
                data = archive.extractfile(member)
                if data is None or not (member.name == LAYOUT_MEMBER or is_plain(member.name)):
                    raise UserError(f"it contains {member.name!r:.200}, which is not a file of a run or a sweep")
                if not math.isfinite(member.mtime):
                    raise UserError(f"it contains {member.name!r:.200} with an impossible time")
                if member.size < 0:
                    raise UserError(f"it contains {member.name!r:.200} with an impossible size")
                header_bytes = member.offset_data - member.offset
                total += max(member.size, MEMBER_BYTES) + HEADER_WEIGHT * header_bytes
                if total > most:
                    raise UserError(f"it has more than {most} bytes of content, implausibly many for its size")
                if number > MOST_MEMBERS:
                    raise UserError(f"it has more than {MOST_MEMBERS} files")
                yield member, data
                vars(archive)["members"].clear()  # Otherwise all headers stay in memory.
        while rest := stream.read(1 << 20):  # gzip compares its checksum only at the very end.
            total += len(rest)
            if total > most:
                raise UserError(f"it has more than {most} bytes after its content")
