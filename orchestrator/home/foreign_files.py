"""Reads the files of a home, which another user may have written or damaged.

Names and keys are checked as soon as they are read. Only plain files of bounded size are opened, and JSON values must
have the types of the fields that they fill. Everything else raises ``ValueError`` with the reason.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from pydantic import ValidationError

from orchestrator.system.reading_time import check_reading_time
from orchestrator.system.typed import from_plain

T = TypeVar("T")

KEY_PATTERN = re.compile(r"\w[\w.-]{0,127}")
"""Pattern of keys of runs, and of ids of stacks and sweeps, in files."""
SWEEP_NAME_PATTERN = re.compile(r"\w[\w .,()+=@~-]{0,199}")
"""Pattern of the name of a sweep's directory, which a user may have renamed or copied."""
FILE_PATH_PATTERN = re.compile(r"[^./\\\0-\x1f][^/\\\0-\x1f]{0,254}(/[^./\\\0-\x1f][^/\\\0-\x1f]{0,254}){0,11}")
"""Pattern of the path of a file below a directory, without hidden parts or ".."."""
MOST_JSON_BYTES = 64 << 20
"""Largest JSON file that is read. The largest that was seen has a tenth of that."""
MOST_JSON_VALUES = 2_000_000
"""Maximum number of values in a JSON text. An outcome with 100,000 evaluations has half as many. Python needs up to a
hundred times the memory of the text to keep them."""
MOST_JOURNAL_BYTES = 256 << 20
"""Largest journal that is read. The largest that was seen has a tenth of that."""
MOST_SPACE_BYTES = 256 << 10
"""Largest search space that is read. The largest that was seen has a tenth of that."""
SPARSE_BYTES = 1 << 30
"""Files of at most this size are read even if the disk stores almost nothing of them."""
SPARSE_RATIO = 100
"""A larger file is a hole if it has more than this many bytes per byte on the disk. Reading it could take days."""
YEARS = range(1971, 9000)
"""Years that can be converted to any time zone."""


def checked_key(value: object, kind: str = "key") -> str:
    """Return a key or id that becomes part of a path. Raises ``ValueError`` for anything else."""
    if not isinstance(value, str) or not KEY_PATTERN.fullmatch(value):
        raise ValueError(f"{value!r:.80} is not a {kind}")
    return value


def checked_name(value: object) -> str:
    """Return the name of a sweep, which may end in a remark such as ``(imported)``. Raises ``ValueError`` for anything
    else."""
    if not isinstance(value, str) or not SWEEP_NAME_PATTERN.fullmatch(value):
        raise ValueError(f"{value!r:.80} is not the name of a sweep")
    return value


def checked_path(value: object) -> str:
    """Return the path of a file below a directory. Raises ``ValueError`` for any path that leads elsewhere."""
    if not isinstance(value, str) or not FILE_PATH_PATTERN.fullmatch(value):
        raise ValueError(f"{value!r:.80} is not the path of a file in this directory")
    return value


def checked_moment(value: object) -> str:
    """Return a time in ISO 8601 with its offset from UTC. Raises ``ValueError`` for anything else."""
    moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    if moment is None or moment.tzinfo is None or moment.year not in YEARS:
        raise ValueError(f"{value!r:.80} is not a time with a time zone")
    return str(value)


def open_file(path: Path, most_bytes: float = float("inf"), dir_fd: int | None = None) -> BinaryIO:
    """Open a plain file for reading.

    Args:
        path: Its path, or its name in the directory ``dir_fd``.
        most_bytes: Its maximum size.
        dir_fd: Descriptor of an opened directory, or None.

    Raises:
        ValueError: For a link, pipe or device, for a file above the maximum size, and for a huge file that is almost
            empty on the disk.
        OSError: If the file cannot be opened for another reason.
    """
    # The system checks for a link while it opens the file. A check before would leave time to put a link there.
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
    """Return the content of a plain file. Raises ``ValueError`` for a link, pipe, device or larger file."""
    with open_file(path, most_bytes) as file:
        return file.read()


def read_text(path: Path, most_bytes: float = MOST_JSON_BYTES) -> str:
    """Return the text of a plain file. Raises ``ValueError`` for a link, pipe, device or larger file, and for text that
    is not UTF-8."""
    return read_bytes(path, most_bytes).decode()


def read_json(path: Path) -> Any:
    """Return the values of a JSON file. Raises ``ValueError`` for a link, pipe, device or larger file, and for other
    text."""
    return parse_json(read_bytes(path))


def parse_json(text: bytes) -> Any:
    """Return the values of a JSON text. Raises ``ValueError`` if it is not JSON, or if it may have too many values."""
    check_reading_time()
    if (values := sum(text.count(mark) for mark in (b",", b"[", b"{"))) > MOST_JSON_VALUES:
        raise ValueError(f"it has {values:,} values, too many")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def whole_lines(path: Path) -> list[bytes]:
    """Return the lines of a file, without an incomplete last line, which a crash left. A missing file has no lines.

    Raises ``ValueError`` for a link, pipe or device, and for a file of more than :data:`MOST_JOURNAL_BYTES`.
    """
    try:
        return read_bytes(path, MOST_JOURNAL_BYTES).split(b"\n")[:-1]
    except FileNotFoundError:
        return []


def typed(kind: type[T], values: Any) -> T:
    """Return an instance of a dataclass from JSON values, which must have exactly the types of its fields.

    Raises:
        ValueError: With the first field that does not fit.
    """
    try:
        return from_plain(kind, values, allow_infinite=True)  # A learning curve may have an infinite loss.
    except ValidationError as error:
        [first, *_] = error.errors(include_url=False, include_context=False)
        key = ".".join(map(str, first["loc"][1:]))
        raise ValueError(f"{key or kind.__name__}: {first['msg']}") from None
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None
