"""Drawing of figures. If it fails, the answer is not lost."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

log = logging.getLogger(__name__)
Made = TypeVar("Made")
LONGEST = 300
"""Maximum number of characters of an error in a warning."""


def try_to_draw(what: str, draw: Callable[[], Made], warn: Callable[[str], object] = log.warning) -> Made | None:
    """Return the result of ``draw``, or None after a warning if it fails.

    Import matplotlib in ``draw``, because the import may fail too.
    """
    try:
        return draw()
    except Exception as error:  # noqa: BLE001 - a user's fonts, settings and packages may raise anything
        line = next(iter(str(error).strip().splitlines()), "")[:LONGEST]
        warn(f"{what} cannot be drawn: {type(error).__name__}: {line}")
        return None
