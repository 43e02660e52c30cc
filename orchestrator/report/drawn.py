"""Drawing that may fail without costing an answer."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

log = logging.getLogger(__name__)
Made = TypeVar("Made")
LONGEST = 300
"""Most characters of an error that a warning repeats."""


def drawn(what: str, draw: Callable[[], Made], warn: Callable[[str], object] = log.warning) -> Made | None:
    """Return what ``draw`` makes; None, after a line that names the figure (``what``) and the error, if it fails.

    Import figures in ``draw``: importing matplotlib is a part of drawing, and fails on some settings of a user.
    """
    try:
        return draw()
    except Exception as error:  # noqa: BLE001 - fonts, settings and packages of a user's may raise anything
        line = next(iter(str(error).strip().splitlines()), "")[:LONGEST]
        warn(f"{what} cannot be drawn: {type(error).__name__}: {line}")
        return None
