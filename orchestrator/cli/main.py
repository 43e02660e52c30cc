"""The program's entry point, which turns every error into a message on stderr and an exit code."""

from __future__ import annotations

import atexit
import errno
import os
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import zip_longest

import typer
from rich.text import Text

from orchestrator.cli.app import program
from orchestrator.system import environment
from orchestrator.system.errors import INTERRUPTED, SweepError, UserError
from orchestrator.system.printing import Console, echo
from trainables.contract.settings import SettingsError

FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers for a full disk."""
NO_PERMISSION = (errno.EACCES, errno.EPERM, errno.EROFS)
"""Error numbers for a missing permission."""


def with_bare_resume(arguments: Sequence[str]) -> list[str]:
    """Replace ``--resume`` without a value by ``--resume=``. Values of typer's options cannot be optional."""
    return [
        "--resume=" if word == "--resume" and (following is None or following.startswith("-")) else word
        for word, following in zip_longest(arguments, arguments[1:])
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command, and exit with 0, 1 (a failure), 2 (the user's mistake) or 130 (interrupted).

    ``arguments`` are by default the arguments of this process.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    words = [word for word in given if word != "--debug"] or ["--help"]
    end = _End()
    if arguments is None:
        atexit.register(end)  # The first registered function is called last.

    def command() -> int | None:
        if arguments is None:
            environment.begin()
        called = program(words[0])
        code: int | None = called(with_bare_resume(words), prog_name="orchestrator", standalone_mode=False)
        return code

    end.code = _exit_code(command, debug="--debug" in given)
    sys.exit(end.code)


class _End:
    """Exits at once with the right code. Python itself would abort (SIGABRT) if it stopped a thread inside C++ code."""

    code = 1

    def __call__(self) -> None:
        if threading.active_count() > 1:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):  # A closed pipe or a full disk has already been reported.
                    stream.flush()
            os._exit(self.code)


def _exit_code(command: Callable[[], int | None], *, debug: bool) -> int:
    """Run ``command``, print its error and return the exit code. ``debug`` adds the traceback."""
    try:
        code = command() or 0
    except Exception as error:  # noqa: BLE001 - the one place where any failure becomes a message
        if debug:
            # With `echo`, because the traceback may contain another user's text.
            echo(traceback.format_exc(), err=True, nl=False)
        message, code = describe(error)
        say(message)
        return code
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:
        say("interrupted", head="")
    return code


def describe(error: Exception) -> tuple[str, int]:
    """Return an error's message and exit code."""
    if isinstance(error, SweepError):
        return str(error), error.exit_code
    if isinstance(error, SettingsError):
        from orchestrator.space.parsing import explain

        return explain(error), UserError.exit_code
    if isinstance(error, typer.TyperException):
        context = getattr(error, "ctx", None)
        hint = f"\nTry '{context.command_path} --help'." if context is not None else ""
        return error.format_message() + hint, error.exit_code
    if isinstance(error, OSError) and error.errno is not None:
        return _system_error_text(error), 1
    if isinstance(error, typer.Abort):
        return "aborted", 1
    lines = str(error).strip().splitlines()
    summary = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return f"{summary} (this should not happen; run again with --debug for the traceback)", 1


def _system_error_text(error: OSError) -> str:
    path = f" {str(error.filename)!r}" if error.filename else ""
    if error.errno in FULL_DISK:
        remedy = " Free some space and continue with --resume, or pass another --home." if path else ""
        return f"the disk is full: cannot write{path}.{remedy}"
    if error.errno in NO_PERMISSION:
        return f"permission denied:{path} ({error.strerror}). Pass another path as --home or --output."
    return f"{error.strerror}{path} (run again with --debug for the traceback)"


def say(message: str, head: str = "error: ") -> None:
    """Print a message on stderr. A closed pipe is not an error."""
    try:
        Console(stderr=True, soft_wrap=True).print(Text.assemble((head, "bold red"), message), highlight=False)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
