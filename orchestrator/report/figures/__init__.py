"""Figures of answers. Importing this package checks the settings that matplotlib reads when it is imported."""

from __future__ import annotations

import sys
from pathlib import Path

from orchestrator.home.foreign_files import read_text
from orchestrator.system.errors import UserError
from orchestrator.system.printing import clean

LOCAL = Path("matplotlibrc")
"""File in the working directory that matplotlib reads first, although figures do not use its settings."""


def check_settings() -> None:
    """Raise :class:`UserError` if matplotlib would read a file in the working directory that is not plain text.

    The file may be from another user. Matplotlib would wait for a pipe, fail, or print control characters.
    """
    if LOCAL.exists() and not LOCAL.is_dir() and not _is_plain_text(LOCAL.resolve()):
        raise UserError(
            f"{LOCAL.absolute()} is not a plain text file, but matplotlib reads it: rename it, or start this command "
            "in another directory"
        )


def _is_plain_text(path: Path) -> bool:
    try:
        text = read_text(path)
    except (OSError, ValueError):
        return False
    return clean(text) == text


if "matplotlib" not in sys.modules:
    check_settings()
