"""`--resume`: the sweep to continue, by default the newest unfinished sweep, and its known runs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from orchestrator.history.foreign_time import NOT_READ, ForeignTime
from orchestrator.history.journal import Ended, Journal, Memory, recall
from orchestrator.history.known_runs import recall_sweep
from orchestrator.history.other_code import has_other_keys
from orchestrator.history.sweeps import Sweep, UnreadableError, load_sweep
from orchestrator.home.directories import Home
from orchestrator.home.run_store import RunStore
from orchestrator.space.differences import SCRIPT_CODE, differences, differences_text
from orchestrator.space.runs import Run
from orchestrator.space.spec import SweepSpec
from orchestrator.system.errors import UserError
from orchestrator.system.text import first_of
from trainables.base import Status

log = logging.getLogger(__name__)


def find_unfinished(spec: SweepSpec, home: Home) -> Sweep:
    """Return the newest unfinished sweep with the same runs.

    If there is none, return the newest sweep with an answer, because its process may have died before printing the
    answer. Return a sweep that came with an archive only if this user has no such sweep.

    Raises:
        UserError: If no sweep has the same runs. The message has the differences from the newest sweep of that name.
    """
    closest = ""
    same: dict[tuple[bool, bool], Sweep] = {}
    limit = ForeignTime(home)
    for sweep in _of_space(spec, home, limit):
        different = differences(spec, sweep.spec)
        is_imported = sweep.files.is_imported
        memory = limit.read(sweep.id, partial(recall, sweep.files))
        if isinstance(memory, UnreadableError):
            log.info(f"skipped: {memory}")
            continue
        is_answered = memory.answered
        if different:
            differs = f" The newest, {sweep.id}, differs in {differences_text(different)}."
            closest = closest or ("" if is_answered else differs)
        elif is_imported or is_answered:
            same.setdefault((is_imported, is_answered), sweep)
        else:
            return sweep
    if not same:
        raise UserError(f"no unfinished sweep of {spec.name} in {home.root} has these settings.{closest}")
    # False sorts before True: first this user's answered sweep, then an imported sweep, then an imported answer.
    (is_imported, is_answered), found = min(same.items(), key=lambda item: item[0])
    if is_imported:
        log.warning(f"{found.id} came with an archive and may be another user's, so it is shown as imported")
    if is_answered:
        log.info(f"{found.id} already has an answer; here it is again")
    return found


def newest_sweep(spec: SweepSpec, home: Home) -> Sweep | None:
    """Return this user's newest sweep with the same runs, finished or not.

    Skip and log newer sweeps that came with an archive, because their answers may be another user's, and sweeps of
    another version of the family, whose runs have other keys.
    """
    for sweep in _of_space(spec, home, ForeignTime(home)):
        if differences(spec, sweep.spec):
            continue
        if sweep.files.is_imported:
            log.info(f"{sweep.id} came with an archive, so it is not counted as yours")
        elif has_other_keys(spec, sweep):
            log.info(f"{sweep.id} is of another version of {spec.family}, so it does not count")
        else:
            return sweep
    return None


def check_same(spec: SweepSpec, sweep: Sweep) -> None:
    """Raise :class:`UserError` unless a sweep has the runs of this spec."""
    different = differences(spec, sweep.spec)
    if different.keys() == {SCRIPT_CODE}:
        where = f"the code of its script in {spec.script.directory}"
        raise UserError(
            f"{sweep.id} cannot be resumed: {where} has changed since it started. Restore that code, or omit --resume: "
            "a new sweep trains every run with the present code"
        )
    if different:
        raise UserError(
            f"{sweep.id} cannot be resumed with these settings: they differ in {differences_text(different)}. "
            "Repeat the settings that it was started with. A new sweep (omit --resume) reuses runs, but its evidence "
            "is divided by the number of sweeps that already analyzed them."
        )


def _of_space(spec: SweepSpec, home: Home, limit: ForeignTime) -> Iterator[Sweep]:
    unread: list[str] = []
    for sweep_id in home.sweep_ids():
        if not sweep_id.startswith(f"{spec.name}-"):
            continue
        try:
            sweep = limit.read(sweep_id, partial(load_sweep, home, sweep_id))
        except UnreadableError as error:
            log.info(f"skipped: {error}")
            continue
        if isinstance(sweep, UnreadableError):
            unread.append(sweep_id)
        elif (sweep.spec.name, sweep.spec.variant) == (spec.name, spec.variant):
            yield sweep
    if unread:
        log.info(f"skipped: {first_of(unread)}. {NOT_READ}")


def whole_runs(sweep: Sweep) -> Memory:
    """Return a sweep's state with only its intact runs. Log and delete damaged runs, which are then trained again."""
    memory = recall_sweep(sweep)
    store = RunStore(sweep.files.home, sweep.id)
    for damage in memory.damaged:
        log.warning(damage)
    for key in memory.lost:
        store.delete(key)

    def is_whole(run: Run) -> bool:
        return run.outcome.status is Status.FAILED or store.find(run.key) is not None

    return replace(memory, ended=tuple(filter(is_whole, memory.ended)), trials=tuple(filter(is_whole, memory.trials)))


def adopt_outcomes(sweep: Sweep, journal: Journal, known: Iterable[str]) -> list[Run]:
    """Add runs that were stored just before a crash to a sweep's journal, and return them."""
    already = set(known)
    store = RunStore(sweep.files.home, sweep.id)
    adopted: list[Run] = []
    for key, request in sweep.spec.requests_by_key().items():
        # A run from an archive may claim to belong to this sweep. Treat it like any other sweep's run.
        is_own = key not in already and store.has(key) and not store.trained_for(key)
        if is_own and (outcome := store.find(key)) is not None:
            adopted.append(sweep.run(key, request, outcome))
            journal.append(Ended.of(adopted[-1]))
    return adopted
