"""Which machine drives a sweep of a home in an object store: an object that its driver writes again every few seconds.

A lock of files ends with the process that holds it; a store knows no processes. So a lease lapses when nobody has
renewed it for a while, by the store's own clock, and each write is made on the condition that the former one is there:
of two that take the same lease at the same moment one fails, and who lost it to another finds out at its next renewal.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from orchestrator.errors import UserError
from orchestrator.store.bucket import ABSENT, Bucket, ChangedError

NAME = "lease.json"
"""Beside the copies of a sweep's files."""
RENEW_S = 4.0
LAPSE_S = 20.0
"""After so long without a renewal whoever wants the sweep may have it."""
LOOK_S = 1.0
"""Between two looks at a lease that is waited for."""


@dataclass(frozen=True)
class Holder:
    """Who says that it drives a sweep. ``home`` is the id of the directory that lies beside it."""

    host: str
    pid: int
    home: str

    def __str__(self) -> str:
        return f"{self.host} (process {self.pid})"


class Lease:
    """The lease of one sweep, for the machine whose directory has the id ``home``. Called under the sweep's lock of
    files, so that no other process beside the same directory asks for it."""

    def __init__(self, bucket: Bucket, sweep_id: str, home: str) -> None:
        self._bucket = bucket
        self._sweep_id = sweep_id
        self._key = key_of(sweep_id)
        self._me = Holder(socket.gethostname(), os.getpid(), home)
        self._etag = ""

    def wait(self, say: Callable[[str], object]) -> None:
        """Wait until the lease is to be had; ``say`` is told of a wait. Raises :class:`UserError` where another machine
        renews it meanwhile: that one drives the sweep."""
        seen = ""
        while (found := holder_of(self._bucket, self._sweep_id)) is not None:
            holder, self._etag, age_s = found
            left_s = LAPSE_S - age_s
            if holder.home == self._me.home or left_s <= 0:
                return
            if seen and self._etag != seen:
                raise UserError(f"{self._sweep_id} is being run by another machine, {holder}; wait for it or stop it")
            if not seen:
                say(
                    f"{self._sweep_id} was driven by another machine, {holder}, until {age_s:.0f} s ago; it is taken "
                    f"over where nothing is heard from there for another {left_s:.0f} s"
                )
            seen = self._etag
            time.sleep(min(LOOK_S, left_s))
        self._etag = ""

    def take(self, say: Callable[[str], object]) -> None:
        """The same, and take it."""
        while True:
            self.wait(say)
            with suppress(ChangedError):  # Somebody was quicker: look who.
                self._write()
                return

    def renew(self) -> str:
        """Say that the sweep is still driven; who drives it in place of this process, ``""`` while it does."""
        try:
            self._write()
        except ChangedError:
            found = holder_of(self._bucket, self._sweep_id)
            if found is None:
                return "nobody"
            if found[0] != self._me:
                return f"another machine, {found[0]}"
            self._etag = found[1]  # Our own write, whose answer was lost.
        return ""

    def release(self) -> None:
        """Leave the sweep to whoever wants it."""
        self._bucket.delete(self._key)

    def _write(self) -> None:
        said = {"host": self._me.host, "pid": self._me.pid, "home": self._me.home, "now": secrets.token_hex(8)}
        self._etag = self._bucket.write(self._key, json.dumps(said).encode(), self._etag or ABSENT)


def key_of(sweep_id: str) -> str:
    """The key of a sweep's lease."""
    return f"sweeps/{sweep_id}/{NAME}"


def holder_of(bucket: Bucket, sweep_id: str) -> tuple[Holder, str, float] | None:
    """Who holds a sweep's lease, its ETag, and how long ago (s) it was renewed; None where nobody does."""
    key = key_of(sweep_id)
    found = bucket.read(key)
    listed = next((each for each in bucket.list(key) if each.key == key), None)
    if found is None or listed is None:
        return None
    said = json.loads(found[0])
    return Holder(str(said["host"]), int(said["pid"]), str(said["home"])), found[1], listed.age_s
