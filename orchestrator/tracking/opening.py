"""Opening the store: chosen, looked at and, after a move, put right before anybody uses it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from orchestrator.errors import SweepError
from orchestrator.tracking import store
from orchestrator.tracking.base import DamagedStoreError, RefusedError
from orchestrator.tracking.login import check_login
from orchestrator.tracking.moved import follow_home
from orchestrator.tracking.store import Store


def opened(home: Path, say: Callable[[str], object]) -> Store:
    """The store of a home directory, ready to be used. ``say`` is told where it was moved from.

    Raises :class:`SweepError` where it does not answer, :class:`DamagedStoreError` where its file is damaged,
    :class:`RefusedError` where it wants another login, :class:`UserError` for a URI that names none.
    """
    chosen = store.choose(home)
    store.check(chosen)
    check_login(chosen)
    if chosen.artifacts is None:
        return chosen
    try:
        former = follow_home(chosen.artifacts.parent)
    except sqlite3.Error as error:
        raise SweepError(f"the MLflow store {chosen.shown} was moved and cannot be put right: {error}") from error
    for place in former:
        say(f"the record was moved or copied from {place}: its artifacts are those in {chosen.artifacts} from now on")
    return chosen


def opened_for_run(home: Path, say: Callable[[str], object]) -> Store:
    """The same for a sweep, which goes on without its record where the store's file is damaged, or it wants another
    login; ``say`` is told."""
    try:
        return opened(home, say)
    except DamagedStoreError as error:
        say(f"{error} The sweep goes on without a record; its journal holds everything that the record needs.")
    except RefusedError as error:
        say(f"{error}. The sweep goes on without a record: once that is set, `sync` writes what its journal holds.")
    return store.choose(home)
