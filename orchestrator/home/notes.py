"""Notes of people about a sweep, and their requests to stop it.

They come from other processes than the driver, which alone writes the journal: so each has a small file of its own. A
note changes no result. What the driver made of a request is in the journal.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass

from orchestrator.errors import UserError, unknown
from orchestrator.home.driver_lock import is_driven
from orchestrator.home.files import SweepFiles, write_whole
from orchestrator.home.sweeps import Sweep

TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,39}")
LONGEST = 2_000
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Notes:
    """A text, and tags in alphabetical order; both may be empty."""

    text: str = ""
    tags: tuple[str, ...] = ()

    def __str__(self) -> str:
        tags = " ".join(f"#{tag}" for tag in self.tags)
        return " ".join(filter(None, (tags, self.text)))

    def changed(self, text: str | None, add: tuple[str, ...], drop: tuple[str, ...]) -> Notes:
        """With another text, unless that is None, and with tags added and dropped. Raises ``UserError``."""
        for tag in add:
            if not TAG.fullmatch(tag):
                raise UserError(f"the tag {tag!r}: letters, digits, '_', '.', ':' and '-', 40 at most, no spaces")
        if unknown := sorted(set(drop) - set(self.tags)):
            raise UserError(f"there is no tag {unknown[0]!r} to drop; there are: {', '.join(self.tags) or 'none'}")
        if text is not None and (len(text) > LONGEST or CONTROL.search(text)):
            raise UserError(f"a note has {LONGEST} characters at most, and no control characters")
        return Notes(self.text if text is None else text, tuple(sorted({*self.tags, *add} - set(drop))))


def read_notes(files: SweepFiles) -> Notes:
    """The notes about a sweep. A damaged file is named in their place."""
    try:
        said = json.loads(files.notes.read_text(encoding="utf-8"))
        return Notes(str(said["text"]), tuple(map(str, said["tags"])))
    except FileNotFoundError:
        return Notes()
    except (OSError, ValueError, KeyError, TypeError) as error:
        return Notes(f"({files.notes.name} cannot be read: {type(error).__name__}; `note` writes a new one)")


def write_notes(files: SweepFiles, notes: Notes) -> None:
    """Write the notes about a sweep."""
    write_whole(files.notes, json.dumps({"text": notes.text, "tags": notes.tags}))


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
    files, mixes = SweepFiles(sweep.directory), [mix.name for mix in sweep.spec.mixes]
    if request.mix and request.mix not in mixes:
        raise unknown("mix", request.mix, mixes, where=sweep.id)
    if not is_driven(files):
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
