"""The program: which process drives a sweep, and how it exits."""

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


def with_bare_resume(arguments: Sequence[str]) -> list[str]:
    """Replace ``--resume`` without a value by ``--resume=``, because typer's options cannot have optional values."""
    return [
        "--resume=" if word == "--resume" and (following is None or following.startswith("-")) else word
        for word, following in zip_longest(arguments, arguments[1:])
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with 0, 1 (a failure), 2 (the user's mistake) or 130 (interrupted).

    Without ``arguments``, use those of this process, which then supervises a second process that drives the sweep.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    words = [word for word in given if word != "--debug"] or ["--help"]
    for name in os.environ.keys() - with_usable_size(os.environ).keys():
        del os.environ[name]
    end = _End()
    if arguments is None:
        atexit.register(end)  # Registered first, so called last.
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="replace")  # Some characters may be outside the terminal's encoding.
    supervisor.begin()
    in_main = threading.current_thread() is threading.main_thread()  # Other threads do not receive signals.
    if arguments is None and in_main and not supervisor.has_parent() and _may_die(words):
        end.code = supervisor.supervise(given, say)
        sys.exit(end.code)

    # Commands take seconds to import, and a supervisor does not need them.
    from orchestrator.cli.app import program

    command = partial(program(words[0]), with_bare_resume(words), prog_name="orchestrator", standalone_mode=False)
    end.code = exit_code_of(command, debug="--debug" in given)
    supervisor.tell("ended")
    sys.exit(end.code)


class _End:
    """Exits at once with the right code. Python would abort (SIGABRT) if it stopped a thread inside C++ code."""

    code = 1

    def __call__(self) -> None:
        if threading.active_count() > 1:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):  # A closed pipe or full disk was reported before.
                    stream.flush()
            os._exit(self.code)


def _may_die(given: Sequence[str]) -> bool:
    """Return True if the command runs a sweep under Ray, which can kill its driver, so that the sweep needs a
    supervisor. Other commands run in this process, where a debugger can reach them."""
    local = ("--engine", "local") in pairwise(given) or "--engine=local" in given
    return given[0] == "run" and not local and "--help" not in given
