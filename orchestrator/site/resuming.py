"""Goes on with interrupted sweeps for who asks on the page: each in a process of its own, which outlives the page."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import UserError
from orchestrator.store.files import SweepFiles

INTERRUPTED = 130
"""How a process ends that somebody stopped: 128 + SIGINT, as shells have it."""
LAST_BYTES = 4096
"""Of what a process said, that its last line is looked for in."""


@dataclass(frozen=True)
class _Begun:
    process: subprocess.Popen[bytes]
    log: Path


class Resuming:
    """Begins processes that go on with sweeps, with these ``options`` of ``run`` beside what a sweep's own directory
    says (``--local-debug``, say), and in this process's environment as it is now: Ray adds to it later. Not for several
    threads at once."""

    def __init__(self, options: Sequence[str] = ()) -> None:
        self._options = tuple(options)
        self._environment = dict(os.environ)
        self._begun: dict[str, _Begun] = {}

    def command(self, files: SweepFiles) -> str:
        """What goes on with a sweep, for a person to paste; what it asks stands in its own directory."""
        return shlex.join(["python", *self._words(files)])

    def begin(self, files: SweepFiles) -> None:
        """Go on with a sweep. Raises :class:`UserError` where a process begun here is still at it."""
        begun = self._begun.get(files.directory.name)
        if begun is not None and begun.process.poll() is None:
            raise UserError(f"{files.directory.name}: process {begun.process.pid} goes on with it already")
        log = files.resumed_log
        with log.open("ab") as out:
            # A session of its own: neither Ctrl-C at this page's terminal nor the terminal's end reaches it.
            process = subprocess.Popen(
                [sys.executable, *self._words(files)],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self._begun[files.directory.name] = _Begun(process, log)

    def at_it(self, sweep_id: str) -> bool:
        """Whether a process begun here to go on with the sweep has not ended."""
        begun = self._begun.get(sweep_id)
        return begun is not None and begun.process.poll() is None

    def said(self, sweep_id: str) -> str:
        """What became of the process that was begun to go on with a sweep, in a sentence; ``""`` where none was, or it
        ended well or was stopped."""
        begun = self._begun.get(sweep_id)
        if begun is None:
            return ""
        code = begun.process.poll()
        if code is None:
            return f"Process {begun.process.pid} goes on with it; what it says is in {begun.log}"
        if code in (0, INTERRUPTED):
            return ""
        return (
            f"The process that went on with it ended with exit code {code}: {_last_line(begun.log)} (more: {begun.log})"
        )

    def _words(self, files: SweepFiles) -> list[str]:
        asked = ["run", str(files.spec), "--resume", files.directory.name, "--home", str(files.home.root)]
        return ["-m", "orchestrator", *asked, *self._options]


def _last_line(log: Path) -> str:
    """The last line that is not empty."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - LAST_BYTES))
        lines = file.read().decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
