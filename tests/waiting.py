"""Waiting for other threads or processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

Seen = TypeVar("Seen")


def wait_for(look: Callable[[], Seen], within_s: float = 120.0, words: Callable[[], str] = str) -> Seen:
    """Return the first true result of ``look``. Raises ``AssertionError`` with these words after a time."""
    until = time.monotonic() + within_s
    while not (seen := look()):
        assert time.monotonic() < until, f"waited {within_s:g} s in vain: {words()}"
        time.sleep(0.05)
    return seen


def meanwhile(ready: Callable[[], object], act: Callable[[], object]) -> threading.Thread:
    """Run ``act`` in a thread as soon as ``ready`` returns something true."""

    def wait() -> None:
        wait_for(ready, 100)
        act()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread
