"""What people ask of a sweep that another process drives: that it stops, or one of its mixes or runs does.

Lines in a file beside the journal, which the driver reads now and then. They are no part of the sweep's truth: what the
driver made of them is in the journal.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass

from orchestrator.errors import UserError, unknown
from orchestrator.store.driving import is_driven
from orchestrator.store.files import SweepFiles
from orchestrator.store.records import Sweep


@dataclass(frozen=True)
class StopRequest:
    """What is to stop: all runs of a ``mix``, the run of a ``key``; with neither the whole sweep, to be resumed."""

    mix: str = ""
    key: str = ""

    def __str__(self) -> str:
        return f"run {self.key}" if self.key else self.mix or "the whole sweep"


def ask_to_stop(sweep: Sweep, request: StopRequest) -> None:
    """Ask the process that drives a sweep to stop something of it; it does so when a stack comes to its next
    evaluation. Raises :class:`UserError` where nothing drives the sweep, or it has no such mix."""
    files, mixes = SweepFiles(sweep.directory), [mix.name for mix in sweep.spec.mixes]
    if request.mix and request.mix not in mixes:
        raise unknown("mix", request.mix, mixes, where=sweep.id)
    if not is_driven(files):
        raise UserError(f"{sweep.id} is not being run, so that there is nothing to stop")
    line = json.dumps(asdict(request)).encode() + b"\n"
    descriptor = os.open(files.stop_requests, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, line)  # One write of a short line: two who ask at once do not mix theirs.
    finally:
        os.close(descriptor)


def asked_to_stop(files: SweepFiles) -> list[StopRequest]:
    """All that was asked since the sweep's driver began. A torn last line does not count."""
    try:
        text = files.stop_requests.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return [StopRequest(**json.loads(line)) for line in text[: text.rfind("\n") + 1].splitlines()]


def forget_stop_requests(files: SweepFiles) -> None:
    """Called by a driver as it begins, under the sweep's lock: what was asked of an earlier one is over."""
    files.stop_requests.unlink(missing_ok=True)
