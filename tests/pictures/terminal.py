"""A program on a pseudo-terminal, and what it shows at one moment as a picture."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.ansi import AnsiDecoder
from rich.console import Console, Group

FORMER = re.compile(r"(?:\r?\x1b\[2K|\x1b\[1A|\r)+")
"""How rich's live view goes back over the frame it showed before."""
SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def plain(frame: str) -> str:
    """A frame without its colours."""
    return SEQUENCE.sub("", frame)


def filmed(command: Sequence[str], columns: int, enough: Callable[[str], bool], *, cwd: Path, within_s: float) -> str:
    """The first frame of a program's live view, with its colours, whose plain text is ``enough``. The program is then
    stopped. Raises ``RuntimeError`` where it ends before, or takes too long."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS", "LINES", "CI")}
    program = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=cwd,
        env={**kept, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"},
    )
    os.close(theirs)
    try:
        return _first(ours, enough, time.monotonic() + within_s)
    finally:
        program.terminate()  # A shell's background job cannot be interrupted.
        _drain(ours)
        os.close(ours)
        program.wait(300)


def _first(terminal: int, enough: Callable[[str], bool], until: float) -> str:
    received = ""
    while time.monotonic() < until:
        received += _read(terminal)
        *seen, received = FORMER.split(received.replace("\r\n", "\n"))
        for frame in seen:
            if enough(plain(frame)):
                return frame.strip("\n")
    raise RuntimeError(f"nothing to picture was shown in time; at last:\n{plain(received)}")


def _read(terminal: int) -> str:
    """What comes next. Raises ``RuntimeError`` where the program has ended."""
    try:
        block = os.read(terminal, 65536)
    except OSError:  # Linux reports a terminal whose other end has closed as an input/output error.
        block = b""
    if not block:
        raise RuntimeError("the program ended before there was anything to picture")
    return block.decode(errors="replace")


def _drain(terminal: int) -> None:
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:
        return


def window(frame: str, columns: int, title: str) -> str:
    """A frame as the SVG of a terminal's window."""
    console = Console(width=columns, file=io.StringIO(), record=True, force_terminal=True)
    console.print(Group(*AnsiDecoder().decode(frame)))
    return console.export_svg(title=title)
