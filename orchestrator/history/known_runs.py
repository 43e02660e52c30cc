"""Earlier sweeps: the one to resume, and finished runs that need no training."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from orchestrator.history.journal import Asked, Ended, Journal, Memory, recall
from orchestrator.history.sweeps import Sweep, UnreadableError, load_sweep, recall_sweep
from orchestrator.home.directories import Home
from orchestrator.home.run_files import read_origin
from orchestrator.home.run_store import RunStore
from orchestrator.search.base import Request
from orchestrator.space.runs import IMPORTED, Run
from orchestrator.space.spec import SweepSpec, differences
from orchestrator.system.errors import UserError, first_of
from orchestrator.transition.evidence import Block, RunId
from trainables.base import Status

log = logging.getLogger(__name__)
CODE = "script.code_hash"
"""Key of a specification with the hash of its script's code."""
NEW_QUESTION = "leave --extend out and ask on new data: another seed, as --set seed=1000"
"""Advice on a question that the evidence cannot continue. On known runs, it would be asked after their outcomes were
seen."""


def find_unfinished(spec: SweepSpec, home: Home) -> Sweep:
    """Return the newest unfinished sweep with the same runs. If there is none, return the newest with an answer, in
    case its process died before printing it. A sweep that came with an archive is returned only without own ones.

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
        log.warning(f"{found.id} came with an archive, so it may be somebody else's, and is shown as imported")
    if is_answered:
        log.info(f"{found.id} already has an answer; here it is again")
    return found


def newest_sweep(spec: SweepSpec, home: Home) -> Sweep | None:
    """Return the newest own sweep, finished or not, with the same runs. Log newer ones that came with an archive: their
    answers may be somebody else's."""
    for sweep in _of_space(spec, home):
        if differences(spec, sweep.spec):
            continue
        if not sweep.files.is_imported:
            return sweep
        log.info(f"{sweep.id} came with an archive, so it does not count as a sweep of yours")
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


def differences_text(different: Mapping[str, tuple[object, object]]) -> str:
    """Return the first settings that differ, such as ``seeds (now 3, was 5)``."""
    return first_of(
        [
            "the code of its script" if key == CODE else f"{key} (now {mine!r}, was {theirs!r})"
            for key, (mine, theirs) in sorted(different.items())
        ]
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
    already, store, adopted = set(known), RunStore(sweep.files.home, sweep.id), []
    for key, request in usable_requests(sweep.spec).items():
        # An archive's run may say that it is of this sweep. It is found like a run of another one.
        origin = None if key in already or store.is_imported(key) else read_origin(store.directory(key))
        if origin is not None and origin.sweep == sweep.id and (outcome := store.find(key)) is not None:
            adopted.append(sweep.run(key, request, outcome))
            journal.append(Ended.of(adopted[-1]))
    return adopted


def reuse_runs(older: Sweep, sweep: Sweep, journal: Journal) -> list[Run]:
    """Add finished runs and pairs of an older sweep to this sweep's journal, and return the runs. Raises
    :class:`UserError` if the two sweeps do not share a run."""
    with RunStore(older.files.home, sweep.id).locked():
        reused = reusable(sweep.spec, older)
        # First the pairs: if this process dies in between, the resumed sweep must not choose them by their outcomes.
        if blocks := continued_blocks(sweep.spec, older):
            journal.append(Asked(blocks))
        for run in reused:
            journal.append(Ended.of(run))
    return reused


def continued_blocks(spec: SweepSpec, older: Sweep) -> tuple[Block, ...]:
    """Return the pairs of an older sweep whose evidence a sweep of ``spec`` continues.

    For each comparison that both sweeps make with the same runs and target, these are all its pairs. Dropping some
    after seeing their outcomes would turn chance into evidence. Raises :class:`UserError` if the two sweeps define
    learned runs or the error differently, or ``spec`` lacks a size or seed of the pairs.
    """
    blocks = recall(older.files).blocks
    mine, theirs = spec.mix_named, older.spec.mix_named
    if not blocks or spec.target != older.spec.target:
        return ()
    for name in ("learned", "error"):
        now, before = (one.search.settings.get(name) for one in (spec, older.spec))
        if None not in (now, before) and now != before:
            raise UserError(
                f"search.{name} is {now:g} but was {before:g} in {older.id}, and its evidence is only valid with that "
                f"value. Set search.{name}={before:g}, or {NEW_QUESTION}"
            )
    family, former = spec.make_family(), older.spec.make_family()

    def is_the_same(run: RunId) -> bool:
        request = Request(*run)
        return family.key(spec.config(request)) == former.key(older.spec.config(request))

    def is_continued(block: Block) -> bool:
        compared = block.mix in mine and spec.baseline_of(mine[block.mix]).name == block.baseline
        return compared and block.mix in theirs and all(map(is_the_same, block.runs))

    left_out = {(block.mix, block.baseline) for block in blocks if not is_continued(block)}
    continued = tuple(block for block in blocks if (block.mix, block.baseline) not in left_out)
    _check_inside(spec, older, [run for block in continued for run in block.runs])
    return continued


def _check_inside(spec: SweepSpec, older: Sweep, runs: Sequence[RunId]) -> None:
    """Raise :class:`UserError` unless ``spec`` has every size and seed of the continued pairs. Evidence counts pairs up
    to the first incomplete one, so no pair after one that can never be completed would count."""
    for key, has, needs in (
        ("sizes", spec.sizes, {size for _, size, _ in runs}),
        ("seeds", spec.seed_list, {seed for _, _, seed in runs}),
    ):
        if missing := sorted(needs - set(has)):
            raise UserError(
                f"{key} must include {', '.join(map(str, missing))}: {older.id} requested pairs there, and evidence "
                f"needs all of them. Add them to {key}, or {NEW_QUESTION}"
            )


def reusable(spec: SweepSpec, older: Sweep) -> list[Run]:
    """Return an older sweep's finished runs that ``spec`` can use. Raises :class:`UserError` if there are none."""
    usable = usable_requests(spec)
    store = RunStore(older.files.home)

    def origin_of(run: Run) -> str:
        # The journal of an imported sweep may name any sweep.
        is_foreign = older.files.is_imported or store.is_imported(run.key)
        origin = store.trained_for(run.key) if is_foreign else run.trained_for or older.id
        return origin or f"{older.id} {IMPORTED}"

    def reused_as(run: Run) -> Run:
        request = usable[run.key]
        return replace(run, request=request, config=spec.config(request), trained_for=origin_of(run))

    older_runs = recall_sweep(older).ended
    reused = [reused_as(run) for run in older_runs if run.key in usable and not run.outcome.error]
    if not reused:
        different = differences_text(differences(spec, older.spec))
        why = f": they differ in {different}" if different else ""
        raise UserError(f"{older.id} has no finished run that this sweep could reuse{why}")
    return reused


def usable_requests(spec: SweepSpec) -> dict[str, Request]:
    """Return all runs that a sweep may use, including earlier phases of its arms, by key."""
    key = spec.make_family().key
    return {key(spec.config(phase)): phase for request in spec.requests() for phase in spec.chain(request)}
