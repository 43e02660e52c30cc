"""Finished runs that a sweep need not train: those in its journal, on disk after a crash, or of another sweep."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

from orchestrator.errors import UserError
from orchestrator.home.files import SweepFiles
from orchestrator.home.journal import Ended, Journal, Memory, recall
from orchestrator.home.resuming import differences_text
from orchestrator.home.run_claims import removal_lock, take
from orchestrator.home.run_files import kept_runs, read_origin
from orchestrator.home.sweeps import Sweep
from orchestrator.search.base import Request
from orchestrator.space.differences import differences
from orchestrator.space.spec import SweepSpec
from trainables.base import Status

log = logging.getLogger(__name__)


def whole_runs(files: SweepFiles) -> Memory:
    """Return what a sweep's journal contains, with only the runs whose files are all whole.

    A damaged run is logged and deleted, so that it is trained again. Called by the sweep's driver.
    """
    memory, runs = recall(files), kept_runs(files)
    for damage in memory.damaged:
        log.warning(damage)
    for key in memory.lost:
        runs.delete(key)

    def is_whole(entry: Ended) -> bool:
        return entry.outcome.status is Status.FAILED or take(runs, entry.key) is not None

    return replace(memory, ended=tuple(filter(is_whole, memory.ended)), trials=tuple(filter(is_whole, memory.trials)))


def adopt_outcomes(sweep: Sweep, journal: Journal, known: Iterable[str]) -> list[Ended]:
    """Journal the runs of a sweep that a crash kept out of its journal, and return them."""
    already, runs, adopted = set(known), kept_runs(sweep.files), []
    for key, request in _usable(sweep.spec).items():
        if key in already or not runs.has(key):
            continue
        origin = read_origin(runs.get(key))
        if origin is not None and origin.sweep == sweep.id and (outcome := take(runs, key)) is not None:
            adopted.append(Ended(key, request, outcome))
            journal.append(adopted[-1])
    return adopted


def reuse_runs(older: Sweep, sweep: Sweep, journal: Journal) -> list[Ended]:
    """Journal every finished run of another sweep that a new one may use, and return them.

    Raises :class:`UserError` if the two have no run in common.
    """
    with removal_lock(older.files.home):
        reused = reusable(sweep.spec, older)
        for entry in reused:
            journal.append(entry)
    return reused


def reusable(spec: SweepSpec, older: Sweep) -> list[Ended]:
    """Return the finished runs of another sweep that one of ``spec`` may use, as its own.

    Raises :class:`UserError` if there is none.
    """
    usable = _usable(spec)
    reused = [
        replace(entry, request=usable[entry.key], reused_from=entry.reused_from or older.id)
        for entry in recall(older.files).ended
        if entry.key in usable and not entry.outcome.error
    ]
    if not reused:
        different = differences_text(differences(spec, older.spec)) or "nothing"
        raise UserError(f"{older.id} has no finished run that this sweep could reuse: they differ in {different}")
    return reused


def _usable(spec: SweepSpec) -> dict[str, Request]:
    """Every run that a sweep may use, by key."""
    family = spec.make_family()
    wanted = [each for request in spec.requests() for each in spec.chain(request)]
    return {family.key(spec.config(request)): request for request in wanted}
