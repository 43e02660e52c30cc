"""One sweep: create or update it, train its tuning and its search, and print its answer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import ExitStack
from dataclasses import replace

from orchestrator.engine.campaign import Campaign
from orchestrator.history.earlier_looks import count_earlier_looks
from orchestrator.history.extend import continued_blocks, reuse_runs
from orchestrator.history.journal import Journal, Memory, recall
from orchestrator.history.known_runs import recall_sweep
from orchestrator.history.resume import adopt_outcomes, whole_runs
from orchestrator.history.sweeps import Sweep, create_sweep
from orchestrator.home.checkpoints import Checkpoints
from orchestrator.home.directories import Home
from orchestrator.home.trusted_code import list_path, remember_script, trust_code_of
from orchestrator.record.choice import opener
from orchestrator.record.recorder import Recorder
from orchestrator.record.sweep_records import SweepRecords
from orchestrator.record.tracker import StoreError, Tracker
from orchestrator.report.answer import Answer
from orchestrator.report.sentences.findings import looks_text
from orchestrator.search.base import BY_HAND
from orchestrator.space.problem import searcher_of
from orchestrator.space.runs import Run
from orchestrator.space.spec import SweepSpec
from orchestrator.sweep.answering import finish, leave_resumable
from orchestrator.sweep.driving import Drive
from orchestrator.sweep.following import Follower
from orchestrator.sweep.interruption import stop_on_machine_error
from orchestrator.sweep.run_options import RunOptions
from orchestrator.sweep.study_plan import StudyPlan
from orchestrator.sweep.tuning import tune
from orchestrator.system.files import remove_tree
from orchestrator.system.text import first_of
from trainables.base import Status

log = logging.getLogger(__name__)


def remember_code(spec: SweepSpec) -> None:
    """Record that the user runs this code now. Other commands may later import its folders and run its script."""
    try:
        trust_code_of((spec.family, *spec.probes))
        if spec.script is not None:
            remember_script(spec.to_dict())
    except OSError as error:
        log.info(f"{list_path()} cannot be written ({error.strerror}), so `status` will not import {spec.family}")


def open_record(home: Home, options: RunOptions, *, must_answer: bool) -> Callable[[], Tracker]:
    """Return a function that opens the home's record.

    If the record does not respond, log how to record the sweep later.

    Raises:
        StoreError: if the record does not respond, and it ``must_answer``.
    """

    def warn(error: StoreError) -> None:
        log.warning(f"{error}; the sweep continues without a record. To add it later: `{options.sync_line}`")

    return opener(options.record, home.root, None if must_answer else warn)


def create(spec: SweepSpec, home: Home, options: RunOptions, extended: Sweep | None) -> Sweep:
    """Create a sweep and return it. Unless it trains every run again, count the earlier looks at its runs."""
    if not options.fresh:
        spec = _with_looks(spec, home, extended)
    sweep = create_sweep(spec, home, fresh=options.fresh)
    if extended is not None and extended.files.is_imported:  # Another user may have chosen its pairs.
        sweep.files.note_own_part()
        log.warning(f"{extended.id} came with an archive, so {sweep.id}, which extends it, is also shown as imported")
    return sweep


def _with_looks(spec: SweepSpec, home: Home, extended: Sweep | None) -> SweepSpec:
    """Return a specification with the numbers of earlier analyses of the runs of its comparisons, and log them."""
    # A sweep that extends another continues those of its tests that it can. For these, the number stays, because the
    # same test continues.
    continued: dict[str, int] = {}
    if extended is not None:
        mixes = {block.mix for block in continued_blocks(spec, extended)}
        continued = {mix: extended.spec.looks.get(mix, 0) for mix in mixes}
    new = {mix: looks for mix, looks in count_earlier_looks(spec, home).items() if mix not in continued}
    for mix, looks in new.items():
        sweeps = f" ({first_of(looks.sweep_ids)})" if looks.sweep_ids else ""
        log.info(f"{looks_text(mix, spec.baseline_of(spec.mix_named[mix]).name, looks.count)}{sweeps}")
    counts = {mix: looks.count for mix, looks in new.items()}
    counts |= {mix: count for mix, count in continued.items() if count}
    return spec.checked().substitute(looks=counts)


def update_settings(resumed: Sweep, spec: SweepSpec) -> Sweep:
    """Return a resumed sweep with the values of ``spec`` that do not change results."""
    current = resumed.spec.substitute(resources=spec.resources, probes=spec.probes, code=spec.code)
    if spec.script is not None:
        current = current.model_copy(update={"script": spec.script})
    return replace(resumed, spec=current)


def drive_sweep(
    sweep: Sweep, extended: Sweep | None, drive: Drive, open_tracker: Callable[[], Tracker]
) -> Generator[Campaign, None, Answer]:
    """Train a new or resumed sweep, print its answer and return it. Yield the campaigns of its tuning and its search.

    Raises:
        SweepError: if a part fails, or if a machine error or the time limit stops the sweep.
        KeyboardInterrupt: after an interruption. The sweep can be resumed.
    """
    options = drive.options
    with ExitStack() as cleanup:
        cleanup.enter_context(stop_on_machine_error(sweep.files, options))
        cleanup.enter_context(sweep.files.driving())
        if sweep.files.is_imported:
            sweep.files.note_own_part()
        journal = cleanup.enter_context(Journal(sweep.files.journal))
        # Only now, when this process has the sweep's lock. A request that is still there asked an earlier process.
        sweep.files.delete_stop_requests()
        remove_tree(sweep.files.tune)
        memory = whole_runs(sweep)  # Damaged runs are deleted here, so they are trained again.
        if sweep.spec.tune is not None and not sweep.spec.tuned:
            sweep = yield from tune(sweep, memory, journal, drive)
        known = _known_runs(sweep, memory, extended, journal, retry_failed=options.retry_failed)
        recorder = Recorder(open_tracker)
        records = SweepRecords(sweep, recorder.put)
        records.begin()

        memory = recall(sweep.files)  # Read again, because it now has the blocks of the extended sweep.
        searcher = searcher_of(sweep.spec, memory.blocks)
        for mix in memory.stopped:
            remedy = f"To train it again, start a new sweep with --extend {sweep.id}"
            log.info(f"{mix} was {BY_HAND} and stays stopped. {remedy}")
            searcher.stop(mix)
        plan = StudyPlan(sweep, searcher, journal, known=known, blocks=len(memory.blocks))
        if extended is not None:
            _continue_checkpoints(plan, extended)
        campaign = drive.campaign(plan)
        follower = Follower(campaign, plan, records, drive.view, drive.limit, lambda: recorder.warning)
        yield from drive.run(campaign, plan, follower)
        if campaign.stopping:
            leave_resumable(campaign, plan, records, recorder, drive)
        return finish(plan, records, recorder, drive)


def _known_runs(
    sweep: Sweep, memory: Memory, extended: Sweep | None, journal: Journal, *, retry_failed: bool
) -> list[Run]:
    """Return the runs that need no training, and add those to the journal that it lacks.

    They are the runs in the journal, the runs that were stored just before a crash, and runs of the extended sweep.
    """
    known = [run for run in memory.ended if not (retry_failed and run.outcome.status is Status.FAILED)]
    # A crash between storing a run and the line in the journal leaves a run that only the home has.
    known += adopt_outcomes(sweep, journal, [run.key for run in known])
    if extended is not None:
        for damage in recall_sweep(extended).damaged:
            log.warning(damage)
        known += reuse_runs(extended, sweep, journal)
    return known


def _continue_checkpoints(plan: StudyPlan, extended: Sweep) -> None:
    """Copy checkpoints of runs that the extended sweep stopped because it no longer needed them. Skip them if the code
    has changed, or if a script or another user may have written them."""
    sweep = plan.sweep
    if sweep.spec.script is None and extended.source == sweep.source and not extended.files.is_imported:
        Checkpoints(sweep.files.checkpoints).copy_from(Checkpoints(extended.files.checkpoints), plan.read)
