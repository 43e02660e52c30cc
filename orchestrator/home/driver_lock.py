"""The lock of a sweep: one process of one machine drives it. In a home in a bucket it holds a lease there as well.

A lock ends with its process; a bucket knows no processes. So a driver writes its lease again every few seconds, each
time on the condition that its former one is there. A lease that has not changed for a while may be taken over.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime

from filelock import FileLock, Timeout

from orchestrator.errors import UserError
from orchestrator.home.bucket import ABSENT, ChangedError
from orchestrator.home.bucket_home import LEASES, BucketHome, OvertakenError, bucket_of
from orchestrator.home.files import SweepFiles, is_held
from orchestrator.home.machine_errors import REMOTE, remote_trouble

GLANCE_S = 0.5
"""Wait for a sweep's lock: whoever only looks whether it is taken holds it for a moment."""
COPY_EVERY_S = 0.5
"""Pause between two copies of a sweep's changed files to the bucket."""
RENEW_S = 4.0
"""Pause between two renewals of a lease."""
LAPSE_S = 20.0
"""A lease that has not changed for so long may be taken over."""
LOOK_S = 1.0
"""Pause between two looks at a lease that is waited for."""


@contextmanager
def driving(files: SweepFiles) -> Iterator[None]:
    """Hold a sweep's lock. Raises :class:`UserError` while another process drives it, on whatever machine.

    In a home in a bucket its files are copied there as they change, until the block ends.
    """
    files.directory.mkdir(parents=True, exist_ok=True)
    lock = FileLock(files.lock)
    try:
        lock.acquire(timeout=GLANCE_S)
    except Timeout:
        raise _driven(files.id, "another process") from None
    try:
        home = bucket_of(files.home.root)
        with nullcontext() if home is None else _Copying(home, files.id):
            yield
    finally:
        lock.release()


def is_driven(files: SweepFiles) -> bool:
    """True if a process holds the sweep's lock, or another machine held its lease at the last look into the bucket."""
    if is_held(files.lock):
        return True
    home = bucket_of(files.home.root)
    lease = None if home is None else home.leases.get(files.id)
    return lease is not None and (datetime.now(UTC) - lease.changed).total_seconds() < LAPSE_S


def check_free(files: SweepFiles) -> None:
    """Raise :class:`UserError` if a process of this machine drives a sweep."""
    if is_held(files.lock):
        raise _driven(files.id, "another process")


def check_held(files: SweepFiles) -> None:
    """Raise ``OSError`` (trouble) if another machine has taken over a sweep that this process drives."""
    copying = _copying.get(files.id)
    if copying is not None and copying.lost:
        raise remote_trouble(copying.home.address, copying.lost)


def _driven(sweep_id: str, driver: str) -> UserError:
    return UserError(f"{sweep_id} is being run by {driver}; wait for it or stop it")


def _machine(holder: Mapping[str, object]) -> str:
    return f"another machine, {holder['host']} (process {holder['pid']})"


class Lease:
    """The lease of one sweep. Called under the sweep's lock."""

    def __init__(self, home: BucketHome, sweep_id: str) -> None:
        self._home = home
        self._sweep_id = sweep_id
        self._key = f"{LEASES}{sweep_id}"
        self._etag = ABSENT

    def take(self) -> None:
        """Take it, from another machine after its silence. Raises :class:`UserError` if that one renews it meanwhile,
        or another is quicker."""
        found, until = self._home.bucket.read(self._key), time.monotonic() + LAPSE_S
        if found is not None and (holder := json.loads(found[0]))["home"] != self._home.id:
            lapse = f"it is taken over after {LAPSE_S:g} s of silence"
            self._home.say(f"{self._sweep_id} was driven by {_machine(holder)}; {lapse}")
            while (now := self._home.bucket.read(self._key)) is not None and now[1] == found[1]:
                if time.monotonic() > until:
                    break
                time.sleep(LOOK_S)
            if now is not None and now[1] != found[1]:
                raise _driven(self._sweep_id, _machine(json.loads(now[0])))
            found = now
        self._etag = ABSENT if found is None else found[1]
        try:
            self._write()
        except ChangedError:
            raise _driven(self._sweep_id, "another machine") from None

    def renew(self) -> str:
        """Keep it; its holder if another machine has taken it, else ``""``."""
        try:
            self._write()
        except ChangedError:
            found = self._home.bucket.read(self._key)
            return "nobody" if found is None else _machine(json.loads(found[0]))
        return ""

    def release(self) -> None:
        """Leave the sweep to other machines."""
        self._home.bucket.delete(self._key)

    def _write(self) -> None:
        said = {"host": socket.gethostname(), "pid": os.getpid(), "home": self._home.id, "now": secrets.token_hex(8)}
        self._etag = self._home.bucket.write(self._key, json.dumps(said).encode(), self._etag)


class _Copying:
    """A block in which a thread copies a sweep's files to the bucket and keeps its lease. A bucket that does not answer
    is named once and asked again: the sweep goes on meanwhile."""

    def __init__(self, home: BucketHome, sweep_id: str) -> None:
        self.home = home
        self.lost = ""
        """The driver in place of this process; ``""`` while this one drives."""
        self._sweep_id = sweep_id
        self._lease = Lease(home, sweep_id)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="copying", daemon=True)
        self._renewed = 0.0
        self._behind = False

    def __enter__(self) -> None:
        self._lease.take()
        self._renewed = time.monotonic()
        self.home.pull(self._sweep_id)
        _copying[self._sweep_id] = self
        self._thread.start()

    def __exit__(self, *raised: object) -> None:
        self._over.set()
        self._thread.join()
        self._copy()
        del _copying[self._sweep_id]
        if self._behind and not self.lost:
            self.home.say(
                f"{self._sweep_id} is not copied to {self.home.address} as it is: its files are in {self.home.root}, "
                "and the next command with this home, from this machine, copies them"
            )
        elif not self.lost:
            with suppress(OSError):  # Else it lapses.
                self._lease.release()

    def _run(self) -> None:
        while not self._over.wait(COPY_EVERY_S) and not self.lost:
            self._copy()

    def _copy(self) -> None:
        """Renew the lease if it is due, and copy what has changed."""
        try:
            self._keep_lease()
            if not self.lost:
                self.home.push(self._sweep_id, self._keep_lease)
        except OvertakenError as error:
            self.lost = f"has another {error} than this machine wrote: another one drives {self._sweep_id} as well"
        except OSError as error:
            if not self._behind:
                what = f"{error.filename} {error.strerror}" if error.errno == REMOTE else str(error)
                self.home.say(f"{what}; {self._sweep_id} goes on, and is copied there later")
            self._behind = True
        else:
            if self._behind and not self.lost:
                self.home.say(f"{self.home.address} has all files of {self._sweep_id} again")
            self._behind = False

    def _keep_lease(self) -> None:
        if time.monotonic() - self._renewed < RENEW_S or self.lost:
            return
        if other := self._lease.renew():
            self.lost = f"says that {self._sweep_id} is driven by {other}"
            return
        self._renewed = time.monotonic()


_copying: dict[str, _Copying] = {}
"""By sweep, for this process."""
