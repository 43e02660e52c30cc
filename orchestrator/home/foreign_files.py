"""The files of a home as data. Another user may have written them, or damaged them.

Names and keys are checked where they enter, files are opened only if they are plain files of bounded size, and JSON
values have the types of the fields they fill. Everything else raises ``ValueError`` with the reason.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import stat
from collections.abc import Hashable
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from orchestrator.system.files import is_directory, is_file, mode_of, opened_parent, remove_file, replace_whole

log = logging.getLogger(__name__)
T = TypeVar("T")

KEY = re.compile(r"\w[\w.-]{0,127}")
"""Pattern of keys of runs and ids of stacks and sweeps as they occur in files."""
NAME = re.compile(r"\w[\w .,()+=@~-]{0,199}")
"""Pattern of names of a sweep's directory, which a user may have renamed or copied."""
PATH = re.compile(r"[^./\\\0-\x1f][^/\\\0-\x1f]{0,254}(/[^./\\\0-\x1f][^/\\\0-\x1f]{0,254}){0,11}")
"""Pattern of the path of a file below a directory, without hidden parts or ".."."""
MOST_JSON_BYTES, MOST_JOURNAL_BYTES, MOST_SPACE_BYTES = 64 << 20, 256 << 20, 256 << 10
"""Largest files of JSON, journals and search spaces that are read. The largest that were seen have a tenth of that."""
SPARSE_BYTES, SPARSE_RATIO = 1 << 30, 100
"""A larger file that is stored in less than a part of its size is a hole. Reading it could take days."""
YEARS = range(1971, 9000)
"""Years that can be converted to any time zone."""


def checked_key(value: object, kind: str = "key") -> str:
    """Return a key or id that becomes part of a path. Raises ``ValueError`` for anything else."""
    if not isinstance(value, str) or not KEY.fullmatch(value):
        raise ValueError(f"{value!r:.80} is not a {kind}")
    return value


def checked_name(value: object) -> str:
    """Return the name of a sweep, perhaps with a remark such as ``(imported)``. Raises ``ValueError`` for anything
    else."""
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise ValueError(f"{value!r:.80} is not the name of a sweep")
    return value


def checked_path(value: object) -> str:
    """Return the path of a file below a directory. Raises ``ValueError`` for any path that leads elsewhere."""
    if not isinstance(value, str) or not PATH.fullmatch(value):
        raise ValueError(f"{value!r:.80} is not the path of a file in this directory")
    return value


def checked_moment(value: object) -> str:
    """Return a time in ISO 8601 with its offset from UTC. Raises ``ValueError`` for anything else."""
    moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    if moment is None or moment.tzinfo is None or moment.year not in YEARS:
        raise ValueError(f"{value!r:.80} is not a time with a time zone")
    return str(value)


def open_file(path: Path, most_bytes: float = float("inf"), dir_fd: int | None = None) -> BinaryIO:
    """Open a plain file for reading, by its path or its name in an opened directory. Raises ``ValueError`` for a link,
    pipe or device, for a larger file, and for a huge file that is almost empty on the disk."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=dir_fd)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ValueError(f"{path.name} is a link, which is not followed") from None
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size > most_bytes or is_hole(status):
        os.close(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(21, "Is a directory", str(path))
        what = f"has {status.st_size} bytes, too many" if stat.S_ISREG(status.st_mode) else "is not a plain file"
        raise ValueError(f"{path.name} {what}")
    return cast(BinaryIO, os.fdopen(descriptor, "rb"))


def is_hole(status: os.stat_result) -> bool:
    """Return True for a huge file that is almost empty on the disk."""
    return status.st_size > max(SPARSE_BYTES, SPARSE_RATIO * 512 * status.st_blocks)


def read_bytes(path: Path, most_bytes: float = MOST_JSON_BYTES) -> bytes:
    """Return the content of a plain file. Raises as :func:`open_file`."""
    with open_file(path, most_bytes) as file:
        return file.read()


def read_text(path: Path, most_bytes: float = MOST_JSON_BYTES) -> str:
    """Return the text of a plain file. Raises as :func:`open_file`, and ``ValueError`` if it is not UTF-8."""
    return read_bytes(path, most_bytes).decode()


def read_json(path: Path) -> Any:
    """Return the values of a JSON file. Raises as :func:`open_file`, and ``ValueError`` if it is not JSON."""
    return parse_json(read_bytes(path))


def parse_json(text: bytes) -> Any:
    """Return the values of a JSON text. Raises ``ValueError`` if it is not JSON."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def whole_lines(path: Path) -> list[bytes]:
    """Return the lines of a file, except an incomplete last line left by a crash. A missing file has no lines. Raises
    ``ValueError`` for a link, a pipe and a file of more than :data:`MOST_JOURNAL_BYTES`."""
    try:
        return read_bytes(path, MOST_JOURNAL_BYTES).split(b"\n")[:-1]
    except FileNotFoundError:
        return []


def own_path(path: Path) -> Path:
    """Return a path to write in a home, after removing a link or pipe there, which would redirect what is written."""
    if mode_of(path) and not is_file(path) and not is_directory(path):
        remove_file(path)
    return path


def own_file(path: Path) -> Path:
    """Return the path of a file to write in a home, after :func:`own_path`. A hard link becomes a copy, because writing
    would also change the file with the other name, for example in a home that was copied with ``cp -al``.

    Raises ``ValueError`` for a file of more than :data:`MOST_JOURNAL_BYTES` that would be copied.
    """
    own_path(path)
    if path.exists() and path.stat().st_nlink > 1:
        replace_whole(path, read_bytes(path, MOST_JOURNAL_BYTES))
        log.warning(f"{path} was a hard link. It is now a copy, so the file with the other name does not change")
    return path


def open_to_append(path: Path) -> BinaryIO:
    """Open a file of a home for appending without a buffer. Replace a link or pipe by a file. Raises ``OSError`` if
    another user puts one there at the same time."""
    return cast(BinaryIO, open(own_file(path), "ab", buffering=0, opener=open_plain))


def open_plain(path: str, flags: int) -> int:
    """Open a plain file for writing, as the ``opener`` of :func:`open`. Raises ``OSError`` for a link, hard link, pipe
    or device, which it does not change, and for a directory that is reached through a link of another user."""
    unchanged = flags & ~os.O_TRUNC
    with opened_parent(Path(path)) as parent:
        unlinked = unchanged | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(os.path.basename(path), unlinked, 0o666, dir_fd=parent)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(descriptor)
        what = "A file with several names" if stat.S_ISREG(status.st_mode) else "Not a plain file"
        raise OSError(errno.EINVAL, what, str(path))
    if flags & os.O_TRUNC:
        os.ftruncate(descriptor, 0)
    return descriptor


def own_directory(root: Path, *parts: str) -> Path:
    """Return a directory below ``root``, which may not exist. Raises ``ValueError`` if a part of the path is a link."""
    place = root
    for part in ("", *parts):
        place = place / part
        if place.is_symlink():
            raise ValueError(f"{place} is a link, which is not followed")
    return place


def typed(kind: type[T], values: Any) -> T:
    """Return an instance of a dataclass from JSON values, which must have exactly the types of its fields. Raises
    ``ValueError``."""
    try:
        text = json.dumps({"value": values})
        return cast(T, _holder(cast(Hashable, kind)).model_validate_json(text).value)  # type: ignore[attr-defined]
    except ValidationError as error:
        [first, *_] = error.errors(include_url=False, include_context=False)
        place = ".".join(map(str, first["loc"][1:]))
        raise ValueError(f"{place or kind.__name__}: {first['msg']}") from None
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


@cache
def _holder(kind: Any) -> type[BaseModel]:
    # A learning curve may have an infinite loss.
    config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=True, frozen=True)
    return create_model("Holder", __config__=config, value=(kind, ...))
