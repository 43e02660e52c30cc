"""Requests of people to stop a sweep, or a part of it.

They come from other processes than the driver, which alone writes the journal: so they have a file of their own. What
the driver made of a request is in the journal.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace

from orchestrator.errors import UserError, unknown
from orchestrator.home.driver_lock import is_driven
from orchestrator.home.files import SweepFiles, is_held
from orchestrator.home.sweeps import Sweep
from trainables.contract.arms import as_named


@dataclass(frozen=True)
class StopRequest:
    """All runs of a ``mix`` are to stop, or the run of a ``key``; with neither the whole sweep, to be resumed."""

    mix: str = ""
    key: str = ""

    def __str__(self) -> str:
        return f"run {self.key}" if self.key else self.mix or "the whole sweep"


def ask_to_stop(sweep: Sweep, request: StopRequest) -> None:
    """Ask the driver of a sweep to stop something; it does at the next evaluation of a stack. Raises
    :class:`UserError` if no process drives the sweep, or it has no such mix."""
    files, mixes = sweep.files, [mix.name for mix in sweep.spec.mixes]
    request = replace(request, mix=as_named(request.mix, mixes))
    if request.mix and request.mix not in mixes:
        raise unknown("mix", request.mix, mixes, where=sweep.id)
    if not is_held(files.lock):
        if is_driven(files):
            raise UserError(f"{sweep.id} is being run by another machine: stop it there")
        raise UserError(f"{sweep.id} is not being run: nothing is to stop")
    line = json.dumps(asdict(request)).encode() + b"\n"
    descriptor = os.open(files.stop_requests, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, line)  # One write of a short line: two requests at once do not mix.
    finally:
        os.close(descriptor)


def asked_to_stop(files: SweepFiles) -> list[StopRequest]:
    """All requests since the sweep's driver began. A torn last line does not count."""
    try:
        text = files.stop_requests.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return [StopRequest(**json.loads(line)) for line in text[: text.rfind("\n") + 1].splitlines()]


def forget_stop_requests(files: SweepFiles) -> None:
    """Drop the requests to an earlier driver. Called by a driver as it begins, under the sweep's lock."""
    files.stop_requests.unlink(missing_ok=True)
