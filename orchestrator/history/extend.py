"""`--extend`: the pairs, finished runs and tuned settings that a new sweep takes over from an older sweep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from orchestrator.history.journal import Asked, Ended, Journal, recall
from orchestrator.history.known_runs import recall_sweep
from orchestrator.history.sweeps import Sweep
from orchestrator.home.run_store import RunStore
from orchestrator.search.base import Request
from orchestrator.space.differences import differences, differences_text
from orchestrator.space.runs import IMPORTED, Run
from orchestrator.space.spec import SweepSpec
from orchestrator.system.errors import UserError
from orchestrator.transition.evidence import Block, RunId

NEW_QUESTION = "omit --extend and ask on new data: another seed, as --set seed=1000"
"""Advice for a question that the evidence cannot continue. On known runs, the user would ask it after seeing their
outcomes."""


def continued_spec(spec: SweepSpec, extended: Sweep) -> SweepSpec:
    """Return a specification with the salt of the extended sweep. If both tune alike, it also has that sweep's tuned
    settings."""
    earlier = extended.spec
    spec = spec.substitute(salt=earlier.salt)
    tunes_alike = spec.tune is not None and spec.tune == earlier.tune and not spec.tuned
    if tunes_alike and spec.mix_named.keys() <= earlier.tuned.keys():
        return spec.model_copy(update={"tuned": {mix: earlier.tuned[mix] for mix in spec.mix_named}})
    return spec


def reuse_runs(older: Sweep, sweep: Sweep, journal: Journal) -> list[Run]:
    """Add an older sweep's finished runs and pairs to this sweep's journal, and return the runs.

    If the sweep also has the older one's tuned settings, add the runs that tuned them: they say where the settings come
    from.

    Raises:
        UserError: If the two sweeps do not share a run.
    """
    with RunStore(older.files.home, sweep.id).locked():
        reused = reusable(sweep.spec, older)
        # The pairs come first. If this process dies in between, the resumed sweep must not choose pairs by outcomes
        # that it already knows.
        if blocks := continued_blocks(sweep.spec, older):
            journal.append(Asked(blocks))
        for run in (*_trials_behind(sweep.spec, older), *reused):
            journal.append(Ended.of(run))
    return reused


def _trials_behind(spec: SweepSpec, older: Sweep) -> list[Run]:
    """Return the runs that tuned the settings which ``spec`` has from an older sweep."""
    if not spec.tuned or spec.tune != older.spec.tune:
        return []
    return [replace(run, trained_for=_origin(run, older)) for run in recall_sweep(older).trials]


def _origin(run: Run, older: Sweep) -> str:
    """Return the id of the sweep that a run of an older sweep was trained for, as a journal says it."""
    # The journal of an imported sweep may claim any origin, so only the mark of the run counts.
    store = RunStore(older.files.home)
    is_foreign = older.files.is_imported or store.is_imported(run.key)
    origin = store.trained_for(run.key) if is_foreign else run.trained_for or older.id
    return origin or f"{older.id} {IMPORTED}"


def continued_blocks(spec: SweepSpec, older: Sweep) -> tuple[Block, ...]:
    """Return the pairs of an older sweep whose evidence a sweep of ``spec`` continues.

    They are all pairs of each comparison that both sweeps make with the same runs and target. To drop pairs after
    seeing their outcomes would turn chance into evidence.

    Raises:
        UserError: If the two sweeps define learned runs or the error differently, or if ``spec`` lacks a size or a
            seed of the pairs.
    """
    blocks = recall(older.files).blocks
    mixes = spec.mix_named
    older_mixes = older.spec.mix_named
    if not blocks or spec.target != older.spec.target:
        return ()
    for name in ("learned", "error"):
        now = spec.search.settings.get(name)
        before = older.spec.search.settings.get(name)
        if None not in (now, before) and now != before:
            raise UserError(
                f"search.{name} is {now:g} but was {before:g} in {older.id}, and its evidence is only valid with that "
                f"value. Set search.{name}={before:g}, or {NEW_QUESTION}"
            )
    family = spec.make_family()
    former = older.spec.make_family()

    def is_the_same(run: RunId) -> bool:
        request = Request(*run)
        return family.key(spec.config(request)) == former.key(older.spec.config(request))

    def is_continued(block: Block) -> bool:
        compared = block.mix in mixes and spec.baseline_of(mixes[block.mix]).name == block.baseline
        return compared and block.mix in older_mixes and all(map(is_the_same, block.runs))

    # One changed pair ends the whole comparison.
    omitted = {(block.mix, block.baseline) for block in blocks if not is_continued(block)}
    continued = tuple(block for block in blocks if (block.mix, block.baseline) not in omitted)
    _check_inside(spec, older, [run for block in continued for run in block.runs])
    return continued


def _check_inside(spec: SweepSpec, older: Sweep, runs: Sequence[RunId]) -> None:
    """Raise :class:`UserError` unless ``spec`` has every size and seed of the continued pairs. Evidence counts pairs up
    to the first incomplete pair, so a pair that can never be completed would hide all later pairs."""
    for key, has, needs in (
        ("sizes", spec.sizes, {size for _, size, _ in runs}),
        ("seeds", spec.seed_list, {seed for _, _, seed in runs}),
    ):
        if missing := sorted(needs - set(has)):
            raise UserError(
                f"{key} must include {', '.join(map(str, missing))}: {older.id} requested pairs there, and its "
                f"evidence counts only with all of its pairs. Add these {key}, or {NEW_QUESTION}"
            )


def reusable(spec: SweepSpec, older: Sweep) -> list[Run]:
    """Return an older sweep's finished runs that ``spec`` can use. Raises :class:`UserError` if there are none."""
    usable = spec.requests_by_key()

    def reused_as(run: Run) -> Run:
        request = usable[run.key]
        return replace(run, request=request, config=spec.config(request), trained_for=_origin(run, older))

    older_runs = recall_sweep(older).ended
    reused = [reused_as(run) for run in older_runs if run.key in usable and not run.outcome.error]
    if not reused:
        different = differences_text(differences(spec, older.spec))
        why = f": they differ in {different}" if different else ""
        raise UserError(f"{older.id} has no finished run that this sweep could reuse{why}")
    return reused
