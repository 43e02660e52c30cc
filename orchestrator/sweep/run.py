"""Runs sweeps from their specifications to their answers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from operator import attrgetter

from rich.console import Console

from orchestrator.catalog.summary_cache import keep_ended
from orchestrator.engine.campaign import Campaign
from orchestrator.engine.engine import Engine
from orchestrator.engine.group import Course, Group
from orchestrator.engine.shipping import NOTHING, Shipment, pack
from orchestrator.history.earlier_looks import count_earlier_looks
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
from orchestrator.report.sentences.findings import looks_text
from orchestrator.search.base import BY_HAND
from orchestrator.space.problem import searcher_of
from orchestrator.space.runs import Run
from orchestrator.space.spec import SweepSpec
from orchestrator.space.stack_sizes import StackSizes, choose_stacks
from orchestrator.sweep.answering import finish, leave_resumable
from orchestrator.sweep.driving import Drive
from orchestrator.sweep.interruption import stop_on_interrupt, stop_on_machine_error, stopped_words
from orchestrator.sweep.invocation import Invocation
from orchestrator.sweep.progress import Progress
from orchestrator.sweep.run_options import RunOptions
from orchestrator.sweep.starting import earlier_sweeps
from orchestrator.sweep.study_plan import StudyPlan
from orchestrator.sweep.tuning import tune
from orchestrator.system import hardware
from orchestrator.system.errors import SweepError, UserError
from orchestrator.system.files import remove_tree, replace_whole
from orchestrator.system.text import counted, first_of
from orchestrator.terminal.console_log import logged_to
from orchestrator.terminal.live_view import LiveView
from orchestrator.terminal.output import is_closed
from trainables.base import Status

log = logging.getLogger(__name__)


def _nothing() -> None:
    """Announce nothing."""


@dataclass(eq=False, kw_only=True)
class Attempt:
    """A sweep that a command runs, and its result.

    Attributes:
        announce: Called when the sweep begins.
        ended: Called with this object when the sweep has ended, with an answer or an error.
        sweep: The sweep, or None before it has a directory.
        answer: The answer, or None without one.
        error: Why the sweep has no answer, or None: a ``KeyboardInterrupt`` if it was interrupted.
    """

    spec: SweepSpec
    options: RunOptions
    announce: Callable[[], object] = _nothing
    ended: Callable[[Attempt], object] | None = None
    sweep: Sweep | None = None
    answer: Answer | None = None
    error: Exception | KeyboardInterrupt | None = None

    @property
    def is_live(self) -> bool:
        """True if the sweep has begun and not ended."""
        return self.sweep is not None and self.answer is None and self.error is None


def run_sweep(spec: SweepSpec, options: RunOptions, console: Console, invocation: Invocation | None = None) -> Answer:
    """Run a sweep, print its answer and return it.

    Raises:
        UserError: for invalid options.
        SweepError: if a part fails.
        KeyboardInterrupt: after an interruption. The sweep can be resumed.
    """
    attempt = Attempt(spec=spec, options=options)
    run_sweeps([attempt], console, invocation)
    check_answered([attempt])
    assert attempt.answer is not None
    return attempt.answer


def run_sweeps(attempts: Sequence[Attempt], console: Console, invocation: Invocation | None = None) -> None:
    """Run sweeps on the slots of one engine. Each begins when no sweep before it can use an idle slot, and prints its
    answer when it ends. After an interruption, some may not have begun.

    The options that say where sweeps train are the same for all. The result of each sweep, even an exception, is in its
    :class:`Attempt`.

    Raises:
        UserError: if their code cannot be shipped.
    """
    with logged_to(console):
        _Sweeps(attempts, console, invocation or Invocation()).run()


def check_answered(attempts: Sequence[Attempt]) -> None:
    """Raise the error of the only sweep, or one that says which of several sweeps have no answer.

    Raises:
        SweepError: if a sweep failed. It is a ``UserError`` if one was refused.
        KeyboardInterrupt: if a sweep was interrupted.
    """
    missing = [attempt for attempt in attempts if attempt.answer is None]
    errors = [attempt.error for attempt in missing if attempt.error is not None]
    known = [error for error in errors if isinstance(error, SweepError)]
    for error in errors:
        if len(attempts) == 1 or not isinstance(error, SweepError):
            raise error
    if known:
        worst = max(known, key=attrgetter("exit_code"))
        names = first_of([attempt.spec.title for attempt in missing])
        raise type(worst)(f"{len(missing)} of {counted(len(attempts), 'sweep')} have no answer: {names}")
    if missing:
        raise KeyboardInterrupt


class _Sweeps:
    """The sweeps of a command, and the engine that they share."""

    def __init__(self, attempts: Sequence[Attempt], console: Console, invocation: Invocation) -> None:
        self._attempts = attempts
        self._console = console
        self._invocation = invocation
        self._machine = invocation.hardware or hardware.detect()
        options = attempts[0].options
        self._engine = _engine_for(options, shipment_of([attempt.spec for attempt in attempts], options))
        self._blocks = ExitStack()
        self._is_engine_on = False
        self._described = ""
        """What was last said about the engine."""
        self._view = LiveView(console, named=len(attempts) > 1)

    def run(self) -> None:
        with self._blocks:
            group = Group(map(self._course, self._attempts), self._engine.slots)
            if group.begin():
                # Until the last answer is printed: a second signal ends the process at once even then.
                with stop_on_interrupt(group, self._engine, self._invocation, self._stopped_words):
                    self._train(group)
        for attempt in self._attempts:
            if attempt.sweep is not None and attempt.answer is not None:
                keep_ended(attempt.sweep.files, can_wait=self._invocation.owns_process)

    def _train(self, group: Group) -> None:
        while group.begin():
            try:
                self._engine.execute(group)
            except Exception as error:
                if not group.throw(error):
                    raise

    def _course(self, attempt: Attempt) -> Course:
        """Run a sweep from its specification to its answer, and yield what it needs trained."""
        try:
            attempt.answer = yield from self._sweep(attempt)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the other sweeps go on, and it is raised later
            attempt.error = error
        if attempt.ended is not None:
            attempt.ended(attempt)

    def _sweep(self, attempt: Attempt) -> Generator[Campaign, None, Answer]:
        options, invocation = attempt.options, self._invocation
        if invocation.limit.is_over:
            raise SweepError("not started: the command reached its time limit")
        attempt.announce()
        spec = attempt.spec.refreshed()
        home = Home(options.home.resolve())
        _remember_code(spec)
        earlier = earlier_sweeps(spec, home, options, invocation.hardware)
        resumed, extended = earlier.resumed, earlier.extended
        if earlier.warning:
            log.warning(earlier.warning)
        if extended is not None:
            spec = continued_spec(spec, extended)
        open_tracker = _open_record(home, options, must_answer=resumed is None)
        spec = choose_stacks(spec, self._machine)
        self._begin_engine(spec)
        if is_closed(self._console):
            raise SweepError("the program that reads this output ended before the sweep began: nothing was started")
        sweep = _create(spec, home, options, extended) if resumed is None else _update_settings(resumed, spec)
        attempt.sweep = sweep
        if invocation.begun is not None:
            invocation.begun(sweep)
        log.info(f"sweep {sweep.id}{', which trains every run again' if sweep.fresh else ''}")
        drive = Drive(self._engine, StackSizes(spec, self._machine), options, invocation.limit, self._view)
        return (yield from _drive(sweep, extended, drive, open_tracker))

    def _begin_engine(self, spec: SweepSpec) -> None:
        """Start the engine with the first sweep, and say where stacks like those of a sweep train. Raises
        ``UserError`` if they have no room."""
        if not self._is_engine_on:
            self._blocks.enter_context(self._engine)
            self._is_engine_on = True
        described = self._engine.describe(spec.resources)
        if described != self._described:
            log.info(described)
        self._described = described

    def _stopped_words(self, why: str) -> str:
        live = [(one.sweep, one.options) for one in self._attempts if one.sweep is not None and one.is_live]
        return "\n".join(stopped_words(sweep.id, f"{why}. Finished runs are kept", options) for sweep, options in live)


def _drive(
    sweep: Sweep, extended: Sweep | None, drive: Drive, open_tracker: Callable[[], Tracker]
) -> Generator[Campaign, None, Answer]:
    """Train a sweep that has its directory, print its answer and return it, as :func:`run_sweep`. A resumed sweep
    also comes here. Yield the campaigns of its tuning and of its search."""
    options = drive.options
    with ExitStack() as blocks:
        blocks.enter_context(stop_on_machine_error(sweep.files, options))
        blocks.enter_context(sweep.files.driving())
        journal = blocks.enter_context(Journal(sweep.files.journal))
        sweep.files.forget_stop_requests()
        remove_tree(sweep.files.tune)
        memory = whole_runs(sweep)
        if sweep.spec.tune is not None and not sweep.spec.tuned:
            sweep = yield from tune(sweep, memory, journal, drive)
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
        progress = Progress(campaign, plan, records, drive.view, drive.limit, lambda: recorder.warning)
        yield from drive.run(campaign, plan, progress)
        if campaign.stopping:
            leave_resumable(campaign, plan, records, recorder, drive)
        return finish(plan, records, recorder, drive)


def _create(spec: SweepSpec, home: Home, options: RunOptions, extended: Sweep | None) -> Sweep:
    """Create a sweep. Unless it trains every run again, count the earlier looks at its runs."""
    if not options.fresh:
        spec = _with_looks(spec, home, extended)
    sweep = create_sweep(spec, home, fresh=options.fresh)
    if extended is not None and extended.files.is_imported:  # Another user may have chosen its pairs.
        replace_whole(sweep.files.imported, b"")
        log.warning(f"{extended.id} came with an archive. {sweep.id} extends it, so it is also shown as imported")
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
    looks = {mix: own for mix, own in count_earlier_looks(spec, home).items() if mix not in continued}
    for mix, own in looks.items():
        shown = f" ({first_of(own.sweep_ids)})" if own.sweep_ids else ""
        log.info(f"{looks_text(mix, spec.baseline_of(spec.mix_named[mix]).name, own.count)}{shown}")
    counts = {mix: own.count for mix, own in looks.items()} | {mix: count for mix, count in continued.items() if count}
    return spec.checked().substitute(looks=counts)


def _open_record(home: Home, options: RunOptions, *, must_answer: bool) -> Callable[[], Tracker]:
    """Return a function that opens the home's record. If it does not respond, raise ``StoreError`` with
    ``must_answer``, otherwise log how to record the sweep later."""

    def warn(error: StoreError) -> None:
        log.warning(f"{error}; the sweep continues without a record. To add it later: `{options.sync_line}`")

    return opener(options.record, home.root, None if must_answer else warn)


def _engine_for(options: RunOptions, shipment: Shipment | None) -> Engine:
    if options.local:
        from orchestrator.engine.local_engine import LocalEngine

        return LocalEngine()
    from orchestrator.engine.ray.engine import RayEngine  # Ray takes a second to import; local sweeps do not need it.
    from orchestrator.engine.ray.session import RaySession

    if shipment is not None:
        log.info(shipment.description)
    return RayEngine(RaySession(options.address, dashboard=options.dashboard), shipment or NOTHING)


def shipment_of(specs: Sequence[SweepSpec], options: RunOptions) -> Shipment | None:
    """Return the user's code to send to the nodes of a cluster, or None without ``--ship``.

    Raises :class:`UserError` if there is no code to send, or more than :data:`orchestrator.engine.shipping.MOST_BYTES`.
    """
    if not options.ship:
        return None
    if any(spec.script is not None for spec in specs):
        raise UserError("--ship cannot ship a script, which runs by its path: put its folder on every node")
    return pack([name for spec in specs for name in (spec.family, *spec.probes)], leave_out=options.home)


def _continue_checkpoints(plan: StudyPlan, extended: Sweep) -> None:
    """Copy the checkpoints of runs that the extended sweep began and did not need to end. Leave those of other
    code, and files that another user's script may have written."""
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
