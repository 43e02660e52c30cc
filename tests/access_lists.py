"""Access control lists of files, which ``setfacl`` sets."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

USER = 2
GROUP = 8
"""Kinds of entries."""
NO_ID = 0xFFFFFFFF


def give_list(path: Path, *entries: tuple[int, int, int]) -> None:
    """Give a directory of mode 0755 an access control list: further entries of a kind, rights and an id."""
    rows = [(1, 7, NO_ID), *(one for one in entries if one[0] == USER), (4, 5, NO_ID)]
    rows += [*(one for one in entries if one[0] == GROUP), (16, 7, NO_ID), (32, 5, NO_ID)]
    content = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *row) for row in rows)
    try:
        os.setxattr(path, "system.posix_acl_access", content)
    except OSError:
        pytest.skip("this file system has no access control lists")
