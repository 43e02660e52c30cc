"""Finished runs that a sweep need not train: those in its journal, on disk after a crash, or of another sweep."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

from orchestrator.errors import UserError
from orchestrator.home.files import SweepFiles
from orchestrator.home.journal import Asked, Ended, Journal, Memory, recall
from orchestrator.home.resuming import differences_text
from orchestrator.home.run_claims import removal_lock, take
from orchestrator.home.run_files import kept_runs, read_origin
from orchestrator.home.sweeps import Sweep
from orchestrator.search.base import Request
from orchestrator.space.differences import differences
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.evidence import Block, Run
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
    """Journal every finished run of another sweep that a new one may use, and the pairs that count; return the runs.

    Raises :class:`UserError` if the two have no run in common.
    """
    with removal_lock(older.files.home):
        reused = reusable(sweep.spec, older)
        for entry in reused:
            journal.append(entry)
        if blocks := continued_blocks(sweep.spec, older):
            journal.append(Asked(blocks))
    return reused


def continued_blocks(spec: SweepSpec, older: Sweep) -> tuple[Block, ...]:
    """Return the pairs of another sweep whose evidence one of ``spec`` continues.

    Those are all pairs of each comparison that both make, of the same runs and target: to leave out some of them, after
    their outcomes were seen, would make evidence of chance.

    Raises:
        UserError: if the two say differently what counts as learned.
    """
    blocks = recall(older.files, runs=False).blocks
    mine, theirs = spec.mix_named, older.spec.mix_named
    if not blocks or spec.target != older.spec.target:
        return ()
    bars = [each.search.settings.get("learned") for each in (spec, older.spec)]
    if None not in bars and bars[0] != bars[1]:
        raise UserError(
            f"search.learned is {bars[0]:g} and was {bars[1]:g} in {older.id}: its evidence counts with its own bar "
            "alone. Set search.learned to that, or leave --extend out: a new sweep finds the runs that both want"
        )
    family, former = spec.make_family(), older.spec.make_family()

    def is_the_same(run: Run) -> bool:
        request = Request(*run)
        return family.key(spec.config(request)) == former.key(older.spec.config(request))

    def is_continued(block: Block) -> bool:
        compared = block.mix in mine and spec.baseline_of(mine[block.mix]).name == block.baseline
        return compared and block.mix in theirs and all(map(is_the_same, block.runs))

    left_out = {(block.mix, block.baseline) for block in blocks if not is_continued(block)}
    return tuple(block for block in blocks if (block.mix, block.baseline) not in left_out)


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
