"""The console of a sweep. Its output is not lost if the program that reads it ends."""

from __future__ import annotations

import os
import sys

from orchestrator.system import environment
from orchestrator.system.printing import Console


class Output(Console):
    """Console on stdout that writes to stderr once the reader of stdout has ended.

    For example, ``| head`` ends after some lines. Ctrl-C ends ``| tee`` before the sweep can print how to resume it.

    Attributes:
        closed: True once the reader of stdout has ended.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        super().__init__(quiet=quiet, _environ=environment.without_empty_sizes(os.environ))
        self.closed = False

    def on_broken_pipe(self) -> None:
        """Write the pending text to stderr, or discard it if the reader of stderr has also ended."""
        # Redirect the broken stream. Otherwise Python reports the error again when it flushes the stream at its exit.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2 if self.closed else 1)
        os.close(null)
        self.closed = True
        self.file = sys.stderr
        self._check_buffer()


def is_closed(console: object) -> bool:
    """Return True if the reader of a console's output has ended."""
    return isinstance(console, Output) and console.closed
