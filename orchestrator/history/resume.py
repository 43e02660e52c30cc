"""`--resume`: the sweep that it continues, by default the newest unfinished one, and which of its runs are known."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace

from orchestrator.history.journal import Ended, Journal, Memory, recall
from orchestrator.history.known_runs import recall_sweep
from orchestrator.history.sweeps import Sweep, UnreadableError, load_sweep
from orchestrator.home.directories import Home
from orchestrator.home.run_store import RunStore
from orchestrator.space.runs import Run
from orchestrator.space.spec import CODE, SweepSpec, differences, differences_text
from orchestrator.system.errors import UserError
from trainables.base import Status

log = logging.getLogger(__name__)


def find_unfinished(spec: SweepSpec, home: Home) -> Sweep:
    """Return the newest unfinished sweep with the same runs. If there is none, return the newest with an answer, in
    case its process died before printing it. A sweep that came with an archive is returned only if this user has none.

    Raises:
        UserError: with the differences from the newest sweep of that name.
    """
    closest, same = "", dict[tuple[bool, bool], Sweep]()
    for sweep in _of_space(spec, home):
        different = differences(spec, sweep.spec)
        is_imported, is_answered = sweep.files.is_imported, recall(sweep.files).answered
        if different:
            differs = f" The newest, {sweep.id}, differs in {differences_text(different)}."
            closest = closest or ("" if is_answered else differs)
        elif is_imported or is_answered:
            same.setdefault((is_imported, is_answered), sweep)
        else:
            return sweep
    if not same:
        raise UserError(f"no unfinished sweep of {spec.name} in {home.root} has these settings.{closest}")
    (is_imported, is_answered), found = min(same.items(), key=lambda item: item[0])
    if is_imported:
        log.warning(f"{found.id} came with an archive and may be another user's, so it is shown as imported")
    if is_answered:
        log.info(f"{found.id} already has an answer; here it is again")
    return found


def newest_sweep(spec: SweepSpec, home: Home) -> Sweep | None:
    """Return the newest own sweep, finished or not, with the same runs. Log newer ones that came with an archive: their
    answers may be another user's."""
    for sweep in _of_space(spec, home):
        if differences(spec, sweep.spec):
            continue
        if not sweep.files.is_imported:
            return sweep
        log.info(f"{sweep.id} came with an archive, so it is not counted as yours")
    return None


def check_same(spec: SweepSpec, sweep: Sweep) -> None:
    """Raise :class:`UserError` unless a sweep has the runs of this spec."""
    different = differences(spec, sweep.spec)
    if different.keys() == {CODE}:
        where = f"the code of its script in {spec.script.directory}"
        raise UserError(
            f"{sweep.id} cannot be resumed: {where} has changed since it started. Restore that code, or leave --resume "
            "out: a new sweep trains every run with the present code"
        )
    if different:
        raise UserError(
            f"{sweep.id} cannot be resumed with these settings: they differ in {differences_text(different)}. "
            "Repeat the settings it was started with, or leave --resume out: a new sweep reuses shared runs, but its "
            "odds are divided by the number of sweeps that have analyzed them."
        )


def _of_space(spec: SweepSpec, home: Home) -> Iterator[Sweep]:
    for sweep_id in home.sweep_ids():
        if sweep_id.startswith(f"{spec.name}-"):
            try:
                sweep = load_sweep(home, sweep_id)
            except UnreadableError as error:
                log.info(f"skipped: {error}")
                continue
            if (sweep.spec.name, sweep.spec.variant) == (spec.name, spec.variant):
                yield sweep


def whole_runs(sweep: Sweep) -> Memory:
    """Return a sweep's memory with only intact runs. Log and delete damaged runs, which are then trained again."""
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
    """Add runs that were stored before a crash to a sweep's journal, and return them."""
    already = set(known)
    store = RunStore(sweep.files.home, sweep.id)
    adopted: list[Run] = []
    for key, request in sweep.spec.requests_by_key().items():
        # An archive's run may say that it is of this sweep. It is found like a run of another one.
        is_own = key not in already and store.has(key) and not store.trained_for(key)
        if is_own and (outcome := store.find(key)) is not None:
            adopted.append(sweep.run(key, request, outcome))
            journal.append(Ended.of(adopted[-1]))
    return adopted
