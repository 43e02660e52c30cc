"""Interrupted sweeps resumed from the page: each in a process of its own, which outlives the page."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import UserError
from orchestrator.home.files import SweepFiles

INTERRUPTED = 130
"""Exit code of a process that was stopped: 128 + SIGINT, as in shells."""
LAST_BYTES = 4096
"""End of a log in which its last line is looked for."""


@dataclass(frozen=True)
class _Begun:
    process: subprocess.Popen[bytes]
    log: Path


class Resuming:
    """Starts processes that resume sweeps, with these ``options`` of ``run`` (``--local-debug``, say) and this
    process's environment as it is now: Ray adds to it later. Not for several threads at once."""

    def __init__(self, options: Sequence[str] = ()) -> None:
        self._options = tuple(options)
        self._environment = dict(os.environ)
        self._begun: dict[str, _Begun] = {}

    def command(self, files: SweepFiles) -> str:
        """The command that resumes a sweep, for a person to paste."""
        return shlex.join(["python", *self._words(files)])

    def begin(self, files: SweepFiles) -> None:
        """Resume a sweep. Raises :class:`UserError` if a process started here still drives it."""
        begun = self._begun.get(files.directory.name)
        if begun is not None and begun.process.poll() is None:
            raise UserError(f"{files.directory.name}: process {begun.process.pid} resumed it already")
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
        """True while a process started here drives the sweep."""
        begun = self._begun.get(sweep_id)
        return begun is not None and begun.process.poll() is None

    def said(self, sweep_id: str) -> str:
        """State of the process that resumed a sweep, in a sentence; ``""`` for none, or one that ended well or was
        stopped."""
        begun = self._begun.get(sweep_id)
        if begun is None:
            return ""
        code = begun.process.poll()
        if code is None:
            return f"Process {begun.process.pid} drives it; its output is in {begun.log}"
        if code in (0, INTERRUPTED):
            return ""
        return f"The process that resumed it ended with exit code {code}: {_last_line(begun.log)} (more: {begun.log})"

    def _words(self, files: SweepFiles) -> list[str]:
        asked = ["run", str(files.spec), "--resume", files.directory.name, "--home", str(files.home.root)]
        return ["-m", "orchestrator", *asked, *self._options]


def _last_line(log: Path) -> str:
    """The last line that is not empty."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - LAST_BYTES))
        lines = file.read().decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "no output")
