"""Who drives a sweep: one process of one machine, which holds its lock and, where the home is in an object store, its
lease there."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from filelock import FileLock, Timeout

from orchestrator.errors import UserError
from orchestrator.store.files import SweepFiles
from orchestrator.store.lease import RENEW_S, Lease
from orchestrator.store.locks import is_held
from orchestrator.store.mirror import Mirror, OvertakenError
from orchestrator.store.mirrored import mirror_of
from orchestrator.store.trouble import REMOTE, remote_trouble

GLANCE_S = 0.5
"""How long a sweep's lock is waited for: whoever only looks whether it is taken holds it for a moment."""
COPY_EVERY_S = 0.5
"""How soon after a change a sweep's files are copied to the store."""
LAST_TRIES_S = 15.0
"""How long the end of a sweep waits for a store that does not answer."""


@contextmanager
def driving(files: SweepFiles) -> Iterator[None]:
    """Hold a sweep's lock. Raises :class:`UserError` while another process drives it, on whatever machine.

    In a home in an object store its files are copied there as they change, until the block ends.
    """
    lock = FileLock(files.lock)
    try:
        lock.acquire(timeout=GLANCE_S)
    except Timeout:
        raise UserError(f"{files.directory.name} is being run by another process; wait for it or stop it") from None
    try:
        mirror = mirror_of(files.home.root)
        if mirror is None:
            yield
        else:
            with _Copying(mirror, files.directory.name):
                yield
    finally:
        lock.release()


def is_driven(files: SweepFiles) -> bool:
    """Whether a process, this one or another, holds the sweep's lock; or another machine its lease, as of the last look
    into the store."""
    if is_held(files.lock):
        return True
    mirror = mirror_of(files.home.root)
    return mirror is not None and mirror.is_driven_elsewhere(files.directory.name)


def check_free(files: SweepFiles) -> None:
    """Raise :class:`UserError` where a sweep is driven. What is left of the lease of a machine that died is waited
    for."""
    if is_held(files.lock):
        raise UserError(f"{files.directory.name} is being run by another process; wait for it or stop it")
    mirror = mirror_of(files.home.root)
    if mirror is not None:
        Lease(mirror.bucket, files.directory.name, mirror.id).wait(mirror.say)


def check_held(files: SweepFiles) -> None:
    """Raise ``OSError`` (trouble) where a sweep that this process drives has been taken over by another machine."""
    copying = _copying.get(files.directory.name)
    if copying is not None and copying.lost:
        raise remote_trouble(copying.address, copying.lost)


class _Copying:
    """A block in which a sweep's files go to the store, by a thread of its own, and its lease is kept. A store that
    does not answer is told of once and tried again: what is trained meets it as well, and knows when to stop."""

    def __init__(self, mirror: Mirror, sweep_id: str) -> None:
        self.address = mirror.address
        self.lost = ""
        """Who drives the sweep in place of this process, ``""`` while nobody does."""
        self._mirror = mirror
        self._sweep_id = sweep_id
        self._lease = Lease(mirror.bucket, sweep_id, mirror.id)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="copying", daemon=True)
        self._renewed = 0.0
        self._behind = False

    def __enter__(self) -> None:
        if not self._mirror.bucket.heeds_conditions():
            self._mirror.say(
                f"{self.address} does not know conditional writes: two machines that begin {self._sweep_id} at the "
                "same moment are not told apart"
            )
        self._lease.take(self._mirror.say)
        self._renewed = time.monotonic()
        self._hold = self._mirror.driving(self._sweep_id)
        self._hold.__enter__()
        _copying[self._sweep_id] = self
        self._thread.start()

    def __exit__(self, *raised: object) -> None:
        self._over.set()
        self._thread.join()
        until = time.monotonic() + LAST_TRIES_S
        while not self._copy() and not self.lost and time.monotonic() < until:
            time.sleep(COPY_EVERY_S)
        del _copying[self._sweep_id]
        self._hold.__exit__(None, None, None)
        if self._behind and not self.lost:
            self._mirror.say(
                f"{self._sweep_id} is not copied to {self.address} as it is: its files lie in {self._mirror.root}, and "
                "the next command with this home, from this machine, copies them"
            )
        elif not self.lost:
            try:
                self._lease.release()
            except OSError as error:
                if error.errno != REMOTE:
                    raise  # Else it lapses.

    def _run(self) -> None:
        while not self._over.wait(COPY_EVERY_S) and not self.lost:
            self._copy()

    def _copy(self) -> bool:
        """Renew the lease where it is due, and copy what has changed; whether all is there."""
        try:
            if time.monotonic() - self._renewed >= RENEW_S:
                self._lost_by(self._lease.renew())
                self._renewed = time.monotonic()
                self._mirror.fetch(self._sweep_id)
            if self.lost:
                return False
            self._mirror.push_sweep(self._sweep_id)
        except OvertakenError as error:
            self.lost = f"has another {error} than this machine wrote: another one drives {self._sweep_id} as well"
            return False
        except OSError as error:
            self._tell(error)
            return False
        if self._behind:
            self._behind = False
            self._mirror.say(f"{self.address} has all files of {self._sweep_id} again")
        return True

    def _lost_by(self, other: str) -> None:
        if other:
            self.lost = f"says that {self._sweep_id} is driven by {other}"

    def _tell(self, error: OSError) -> None:
        if not self._behind:
            self._behind = True
            what = f"{error.filename} {error.strerror}" if error.errno == REMOTE else str(error)
            self._mirror.say(f"{what}; files of {self._sweep_id} are not copied there meanwhile, it is tried again")


_copying: dict[str, _Copying] = {}
"""By sweep, for this process."""
