"""The program's log on a console."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from orchestrator.system.printing import clean


class _ConsoleHandler(logging.Handler):
    def __init__(self, console: Console) -> None:
        super().__init__(logging.INFO)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        # A quiet console prints nothing, but warnings must not be lost.
        if self._console.quiet and record.levelno >= logging.WARNING:
            sys.stderr.write(f"{clean(record.getMessage())}\n")
        self._console.print(record.getMessage(), markup=False, highlight=False, soft_wrap=True)


@contextmanager
def logged_to(console: Console) -> Iterator[None]:
    """Print the program's log on a console during the block."""
    logger = logging.getLogger("orchestrator")
    handler = _ConsoleHandler(console)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)
