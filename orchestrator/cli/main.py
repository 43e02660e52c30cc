"""The program: who drives a sweep, and how it exits."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from io import TextIOWrapper
from itertools import pairwise, zip_longest

from orchestrator import supervisor
from orchestrator.terminal.error_output import exit_code_of, say
from orchestrator.terminal.size import with_usable_size

OLD_NAMES = {"--local-debug": "--engine=local"}
"""Words of earlier versions that still work."""


def with_bare_resume(arguments: Sequence[str]) -> list[str]:
    """Replace a ``--resume`` that stands alone by ``--resume=``, for options with values cannot, and old names by
    today's."""
    return [
        "--resume="
        if word == "--resume" and (following is None or following.startswith("-"))
        else OLD_NAMES.get(word, word)
        for word, following in zip_longest(arguments, arguments[1:])
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """The program: run one command and exit with 0, 1 (a failure), 2 (the user's mistake) or 130 (interrupted).

    Without ``arguments`` it is this process's own, and a sweep is driven by a process that this one watches over.
    """
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    for name in os.environ.keys() - with_usable_size(os.environ).keys():
        del os.environ[name]
    end = _End()
    if arguments is None:
        atexit.register(end)  # Before any other, so that it is called after all others.
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="replace")  # Signs that a terminal's encoding lacks.
    supervisor.begin()
    in_main = threading.current_thread() is threading.main_thread()  # Others get no signals.
    if arguments is None and in_main and not supervisor.has_parent() and _may_die(given):
        end.code = supervisor.supervise(given, say)
        sys.exit(end.code)

    # Not above: all that commands need takes seconds to import, and a supervisor needs none of it.
    from orchestrator.cli.app import program

    command = partial(program(given[0]), with_bare_resume(given), prog_name="orchestrator", standalone_mode=False)
    end.code = exit_code_of(command, debug="--debug" in given)
    supervisor.tell("ended")
    sys.exit(end.code)


class _End:
    """The very last of this process. A thread that is still at work then, as the recorder's is where records wait and a
    family's own may be, would be stopped by Python wherever it is; in the middle of somebody's C++ that ends the whole
    process with SIGABRT, whatever its exit code was to be. So no such thread gets to see that."""

    code = 1

    def __call__(self) -> None:
        if threading.active_count() > 1:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):  # Whoever read it is gone, or the disk is full: it was said before.
                    stream.flush()
            os._exit(self.code)


def _may_die(given: Sequence[str]) -> bool:
    """Whether a command drives a sweep with Ray, so that something beyond it can end it. A debugger wants it here."""
    local = ("--engine", "local") in pairwise(given) or not {"--engine=local", *OLD_NAMES}.isdisjoint(given)
    return given[0] == "run" and not local and "--help" not in given
