"""States of a sweep."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """State of a sweep."""

    RUNNING = "running"  # A process has its lock.
    FINISHED = "finished"  # It has an answer.
    INTERRUPTED = "interrupted"  # It can be resumed.
    FAILED = "failed"  # All its runs failed, or its family broke its contract.
