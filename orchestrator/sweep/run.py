"""Runs a sweep from its specification to its answer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Console

from orchestrator.catalog.summary_cache import keep_ended
from orchestrator.engine.engine import Engine
from orchestrator.engine.shipping import NOTHING, Shipment, pack
from orchestrator.history.earlier_looks import earlier_looks
from orchestrator.history.extend import continued_blocks, continued_spec, reuse_runs
from orchestrator.history.journal import Journal, Memory, recall
from orchestrator.history.resume import adopt_outcomes, whole_runs
from orchestrator.history.sweeps import Sweep, create_sweep, recall_sweep
from orchestrator.home.checkpoints import Checkpoints
from orchestrator.home.directories import Home
from orchestrator.home.trusted_code import list_path, remember_script, trust_code_of
from orchestrator.record.choice import opener
from orchestrator.record.recorder import Recorder
from orchestrator.record.sweep_records import SweepRecords
from orchestrator.record.tracker import StoreError, Tracker
from orchestrator.report.answer import Answer
from orchestrator.report.words.findings import looks_words
from orchestrator.search.base import BY_HAND
from orchestrator.space.problem import searcher_of
from orchestrator.space.runs import Run
from orchestrator.space.spec import SweepSpec
from orchestrator.space.stack_sizes import StackSizes, choose_stacks
from orchestrator.sweep.answering import finish, leave_resumable
from orchestrator.sweep.driving import Drive
from orchestrator.sweep.interruption import stop_on_machine_error
from orchestrator.sweep.invocation import Invocation
from orchestrator.sweep.progress import Progress
from orchestrator.sweep.run_options import RunOptions
from orchestrator.sweep.starting import earlier_sweeps
from orchestrator.sweep.study_plan import StudyPlan
from orchestrator.sweep.tuning import tune
from orchestrator.system import hardware
from orchestrator.system.errors import SweepError, UserError
from orchestrator.system.files import replace_whole
from orchestrator.system.text import first_of
from orchestrator.terminal.console_log import logged_to
from orchestrator.terminal.output import is_closed
from trainables.base import Status

if TYPE_CHECKING:
    from orchestrator.engine.ray.session import RaySession

log = logging.getLogger(__name__)


def run_sweep(spec: SweepSpec, options: RunOptions, console: Console, invocation: Invocation | None = None) -> Answer:
    """Run a sweep, print its answer and return it.

    Raises:
        UserError: for invalid options.
        SweepError: if a part fails.
        KeyboardInterrupt: after an interruption. The sweep can be resumed.
    """
    invocation = invocation or Invocation()
    with ExitStack() as blocks:
        blocks.enter_context(logged_to(console))
        spec = spec.refreshed()
        shipment = shipment_of(spec, options)
        home = Home(options.home.resolve())
        machine = invocation.hardware or hardware.detect()
        _remember_code(spec)
        earlier = earlier_sweeps(spec, home, options, invocation.hardware)
        resumed, extended = earlier.resumed, earlier.extended
        if earlier.warning:
            log.warning(earlier.warning)
        if extended is not None:
            spec = continued_spec(spec, extended)
        open_tracker = _open_record(home, options, must_answer=resumed is None)
        spec = choose_stacks(spec, machine)
        engine = blocks.enter_context(_engine_for(spec, options, invocation.session, shipment))
        log.info(engine.describe())
        drive = Drive(engine, StackSizes(spec, machine), options, invocation)
        if is_closed(console):
            raise SweepError("the program that reads this output ended before the sweep began: nothing was started")
        sweep = _create(spec, home, options, extended) if resumed is None else _update_settings(resumed, spec)
        if invocation.begun is not None:
            invocation.begun(sweep)
        log.info(f"sweep {sweep.id}{', which trains every run again' if sweep.fresh else ''}")
        return _drive(sweep, extended, drive, open_tracker, console)


def _drive(
    sweep: Sweep, extended: Sweep | None, drive: Drive, open_tracker: Callable[[], Tracker], console: Console
) -> Answer:
    """Train a sweep that has its directory, print its answer and return it, as :func:`run_sweep`. A resumed sweep
    comes by here, too."""
    options, invocation = drive.options, drive.invocation
    with ExitStack() as blocks:
        blocks.enter_context(stop_on_machine_error(sweep.files, options))
        blocks.enter_context(sweep.files.driving())
        journal = blocks.enter_context(Journal(sweep.files.journal))
        sweep.files.forget_stop_requests()
        memory = whole_runs(sweep)
        if sweep.spec.tune is not None and not sweep.spec.tuned:
            sweep = tune(sweep, memory, journal, drive)
        known = _known_runs(sweep, memory, extended, journal, retry_failed=options.retry_failed)
        recorder = Recorder(open_tracker)
        records = SweepRecords(sweep, recorder.put)
        records.begin()

        memory = recall(sweep.files)  # Read again, because it now has the blocks of the extended sweep.
        searcher = searcher_of(sweep.spec, memory.blocks)
        for mix in memory.stopped:
            again = f"to train it again, start a new sweep with --extend {sweep.id}"
            log.info(f"{mix} was {BY_HAND} and stays stopped; {again}")
            searcher.stop(mix)
        plan = StudyPlan(sweep, searcher, journal, known=known, blocks=len(memory.blocks))
        if extended is not None:
            _continue_checkpoints(plan, extended)
        campaign = drive.campaign(plan)
        progress = Progress(campaign, plan, records, console, invocation.limit, lambda: recorder.warning)
        # Until the answer is printed: a second signal ends the process at once even then.
        blocks.enter_context(drive.stoppable(campaign))
        drive.run(campaign, plan, progress)
        if campaign.stopping:
            leave_resumable(campaign, plan, records, recorder, options, invocation.limit)
        result = finish(plan, records, recorder, console, options)
    keep_ended(sweep.files, can_wait=invocation.owns_process)  # Without the sweep's lock: it is not running any more.
    return result


def _create(spec: SweepSpec, home: Home, options: RunOptions, extended: Sweep | None) -> Sweep:
    """Create a sweep. Unless it trains every run again, count the earlier looks at its runs."""
    if not options.fresh:
        spec = _with_looks(spec, home, extended)
    sweep = create_sweep(spec, home, fresh=options.fresh)
    if extended is not None and extended.files.is_imported:  # Somebody else may have chosen its pairs.
        replace_whole(sweep.files.imported, b"")
        log.warning(f"{extended.id} came with an archive, so {sweep.id}, which extends it, is shown as imported, too")
    return sweep


def _update_settings(resumed: Sweep, spec: SweepSpec) -> Sweep:
    """Return a resumed sweep with those values of ``spec`` that do not change results."""
    current = resumed.spec.substitute(resources=spec.resources, probes=spec.probes, code=spec.code)
    if spec.script is not None:
        current = current.model_copy(update={"script": spec.script})
    return replace(resumed, spec=current)


def _remember_code(spec: SweepSpec) -> None:
    """Note the code that the user runs now: other commands may import its folders later, and run its script."""
    try:
        trust_code_of((spec.family, *spec.probes))
        if spec.script is not None:
            remember_script(spec.to_dict())
    except OSError as error:
        log.info(f"{list_path()} cannot be written ({error.strerror}), so `status` will not import {spec.family}")


def _with_looks(spec: SweepSpec, home: Home, extended: Sweep | None) -> SweepSpec:
    """Return a specification with the earlier analyses of its comparisons' runs, and log which they are. A sweep that
    extends another continues the tests that it can."""
    continued: dict[str, int] = {}
    if extended is not None:
        mixes = {block.mix for block in continued_blocks(spec, extended)}
        continued = {mix: extended.spec.looks.get(mix, 0) for mix in mixes}
    looks = {mix: own for mix, own in earlier_looks(spec, home).items() if mix not in continued}
    for mix, own in looks.items():
        shown = f" ({first_of(own.sweep_ids)})" if own.sweep_ids else ""
        log.info(f"{looks_words(mix, spec.baseline_of(spec.mix_named[mix]).name, own.count)}{shown}")
    counts = {mix: own.count for mix, own in looks.items()} | {mix: count for mix, count in continued.items() if count}
    return spec.checked().substitute(looks=counts)


def _open_record(home: Home, options: RunOptions, *, must_answer: bool) -> Callable[[], Tracker]:
    """Return a function that opens the home's record. If it does not respond, raise ``StoreError`` with
    ``must_answer``, otherwise log how to record the sweep later."""

    def warn(error: StoreError) -> None:
        log.warning(f"{error}; the sweep continues without a record. To add it later: `{options.sync_line}`")

    return opener(options.record, home.root, None if must_answer else warn)


def _engine_for(spec: SweepSpec, options: RunOptions, session: RaySession | None, shipment: Shipment | None) -> Engine:
    if options.local:
        from orchestrator.engine.local_engine import LocalEngine

        return LocalEngine()
    from orchestrator.engine.ray.engine import RayEngine  # Ray takes a second to import; local sweeps do not need it.
    from orchestrator.engine.ray.session import RaySession

    if shipment is not None:
        log.info(shipment.description)
    return RayEngine(
        spec.resources, session or RaySession(options.address, dashboard=options.dashboard), shipment or NOTHING
    )


def shipment_of(spec: SweepSpec, options: RunOptions) -> Shipment | None:
    """Return the user's code to send to the nodes of a cluster, or None without ``--ship``.

    Raises :class:`UserError` if there is no code to send, or more than :data:`orchestrator.engine.shipping.MOST_BYTES`.
    """
    if not options.ship:
        return None
    if spec.script is not None:
        raise UserError("--ship cannot ship a script, which runs by its path: put its folder on every node")
    return pack((spec.family, *spec.probes), leave_out=options.home)


@contextmanager
def one_ray(options: RunOptions, invocation: Invocation) -> Iterator[Invocation]:
    """Yield an invocation whose sweeps share one Ray. The first sweep starts it."""
    if options.local:
        yield invocation
        return
    from orchestrator.engine.ray.session import RaySession

    with RaySession(options.address, dashboard=options.dashboard, kept=True) as session:
        yield replace(invocation, session=session)


def _continue_checkpoints(plan: StudyPlan, extended: Sweep) -> None:
    """Copy the checkpoints of runs that the extended sweep began and did not need to end. Leave those of other code,
    and what a script of somebody else may have written."""
    sweep = plan.sweep
    if sweep.spec.script is None and extended.source == sweep.source and not extended.files.is_imported:
        Checkpoints(sweep.files.checkpoints).copy_from(Checkpoints(extended.files.checkpoints), plan.read)


def _known_runs(
    sweep: Sweep, memory: Memory, extended: Sweep | None, journal: Journal, *, retry_failed: bool
) -> list[Run]:
    """Return the runs that need no training: from ``memory``, from before a crash, or from another sweep."""
    known = [run for run in memory.ended if not (retry_failed and run.outcome.status is Status.FAILED)]
    known += adopt_outcomes(sweep, journal, [run.key for run in known])
    if extended is not None:
        for damage in recall_sweep(extended).damaged:
            log.warning(damage)
        known += reuse_runs(extended, sweep, journal)
    return known
