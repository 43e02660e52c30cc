"""The end of a command: a clear message on stderr and an exit code for every error."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable

import typer
from rich.console import Console
from rich.text import Text

from orchestrator.errors import SweepError, UserError
from orchestrator.supervisor import INTERRUPTED
from trainables.contract.settings import SettingsError

FULL = (errno.ENOSPC, errno.EDQUOT)
DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)


def exit_code_of(command: Callable[[], int | None], *, debug: bool) -> int:
    """Run ``command``, print its error and return the exit code. ``debug`` adds the traceback."""
    try:
        code = command() or 0
    except Exception as error:  # noqa: BLE001 - the one place where any failure becomes a message
        if debug:
            traceback.print_exc()
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
        from orchestrator.space.mistakes import explain

        return explain(error), UserError.exit_code
    if isinstance(error, typer.TyperException):
        return _usage(error), error.exit_code
    if isinstance(error, OSError) and error.errno is not None:
        return _system(error), 1
    if isinstance(error, typer.Abort):
        return "aborted", 1
    lines = str(error).strip().splitlines()
    summary = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return f"{summary} (this should not happen; run again with --debug for the traceback)", 1


def _usage(error: typer.TyperException) -> str:
    """Return a command-line mistake, with the command's help."""
    context = getattr(error, "ctx", None)
    hint = f"\nTry '{context.command_path} --help'." if context is not None else ""
    return error.format_message() + hint


def _system(error: OSError) -> str:
    place = f" {str(error.filename)!r}" if error.filename else ""
    if error.errno in FULL:
        remedy = "Free some space and continue with --resume, or name another --home."
        return f"the disk is full: cannot write{place}. {remedy}"
    if error.errno in DENIED:
        return f"permission denied:{place} ({error.strerror}). Name another place with --home or --output."
    return f"{error.strerror}{place} (run again with --debug for the traceback)"


def say(message: str, head: str = "error: ") -> None:
    """Print a message on stderr. A closed pipe is not an error."""
    try:
        Console(stderr=True, soft_wrap=True).print(Text.assemble((head, "bold red"), message), highlight=False)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
