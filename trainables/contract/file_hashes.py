"""Hashes of source files without their comments, and the times of their last changes."""

from __future__ import annotations

import hashlib
import io
import os
import time
import tokenize
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path

from trainables.contract.finder import MAIN

DIGITS = 16
"""Hex digits of a hash."""
CLOCK_S = 0.1
"""Maximum time by which times of files lag behind the clock of this machine, in seconds."""
START_FIELD = 19
"""Position of a process's start time in ``/proc/PID/stat``, after its name."""


def hash_of_files(files: Mapping[str, Path]) -> str:
    """Return the hash of the files of modules by name, or an empty string if there are none."""
    digest = hashlib.sha256()
    for name, file in sorted(files.items()):
        digest.update(f"{'' if name == MAIN else name}\0".encode() + _hashed_part(file) + b"\0")
    return digest.hexdigest()[:DIGITS] if files else ""


def hash_of_texts(texts: Iterable[str]) -> str:
    """Return the hash of some texts, or an empty string if there are none."""
    given = list(texts)
    return hashlib.sha256("\0".join(given).encode()).hexdigest()[:DIGITS] if given else ""


def _hashed_part(file: Path) -> bytes:
    """Return the content of a file without comments."""
    status = file.stat()
    return _read_hashed_part(file, (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))


@lru_cache(maxsize=1024)
def _read_hashed_part(file: Path, state: tuple[int, ...]) -> bytes:
    """Return the content of a file without comments. ``state`` changes with the file, so it is then read again."""
    return without_comments(file.read_bytes())


def without_comments(source: bytes) -> bytes:
    """Return Python source without comments and empty lines. Text inside strings stays.

    Return any other content unchanged. Also return source in another encoding than UTF-8 unchanged: in such source,
    code may look like a comment.
    """
    text = source.replace(b"\r\n", b"\n").replace(b"\r", b"\n")  # Python ends lines, and comments, at a lone CR, too.
    try:
        if tokenize.detect_encoding(io.BytesIO(text).readline)[0] not in ("utf-8", "utf-8-sig"):
            return source
        lines = text.decode("utf-8").split("\n")
        dropped = set[int]()
        for token in tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline):
            row, column = token.start
            if token.type == tokenize.COMMENT:
                lines[row - 1] = lines[row - 1][:column].rstrip()
            if token.type == tokenize.NL and not lines[row - 1].strip():
                dropped.add(row - 1)
    except (UnicodeDecodeError, tokenize.TokenError, SyntaxError):
        return source
    return "\n".join(line for row, line in enumerate(lines) if row not in dropped).encode()


def changed_at(file: Path) -> float:
    """Return the time of the last change of a file, or of a link to it, in seconds.

    A program can choose the time of modification, so a file that replaces another may have an older one.
    """
    return max(max(status.st_mtime, status.st_ctime) for status in (file.stat(), file.lstat()))


def may_have_changed(file: Path) -> bool:
    """Return True if a file may have changed since this process started."""
    return changed_at(file) > _started_at() - CLOCK_S


def has_changed(file: Path) -> bool:
    """Return True if a file has certainly changed since this process started."""
    return changed_at(file) > _started_at() + CLOCK_S


@cache
def _started_at() -> float:
    """Return the time at which this process started, in seconds."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    after_boot_s = int(fields[START_FIELD]) / os.sysconf("SC_CLK_TCK")
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + after_boot_s
