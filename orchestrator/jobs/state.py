"""States of a sweep."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """State: running (locked by a process), finished (has an answer), failed (only failed runs, or broken) or
    interrupted."""

    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
