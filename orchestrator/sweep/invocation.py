"""Objects that a command needs while it runs sweeps, apart from its options."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orchestrator.system.text import duration

if TYPE_CHECKING:
    from orchestrator.history.sweeps import Sweep
    from orchestrator.system.hardware import Hardware


class TimeLimit:
    """Time limit of a command, or no limit. The time starts when this object is made.

    Attributes:
        stopped: True if the limit has stopped a sweep.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._end = math.inf if seconds is None else time.monotonic() + seconds
        self.stopped = False

    @property
    def is_over(self) -> bool:
        """True after the time limit."""
        return time.monotonic() >= self._end

    @property
    def message(self) -> str:
        """The reason of the stop if this limit has stopped a sweep, otherwise an empty string."""
        return f"it reached its time limit of {duration(self._seconds)}" if self.stopped and self._seconds else ""


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """A command, or a call from Python, that runs one or more sweeps.

    Attributes:
        hardware: Hardware for which stacks are sized, by default this machine's.
        limit: Time limit of the command.
        begun: Called with each sweep as soon as it has an id.
        owns_process: True on the command line, where the process may be ended. False for a call from Python.
    """

    hardware: Hardware | None = None
    limit: TimeLimit = field(default_factory=TimeLimit)
    begun: Callable[[Sweep], object] | None = None
    owns_process: bool = False
