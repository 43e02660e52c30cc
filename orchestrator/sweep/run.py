"""Runs a sweep from its specification to its answer."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from rich.console import Console

from orchestrator import supervisor
from orchestrator.commands import command_line
from orchestrator.cost import run_seconds
from orchestrator.engine.base import MachineError
from orchestrator.engine.campaign import Campaign, Observer
from orchestrator.engine.engine import Engine
from orchestrator.errors import SweepError
from orchestrator.home.checkpoints import Checkpoints
from orchestrator.home.driver_lock import driving
from orchestrator.home.files import Home
from orchestrator.home.journal import Answered, Ended, Journal, State, recall
from orchestrator.home.known_runs import whole_runs
from orchestrator.home.stop_requests import forget_stop_requests
from orchestrator.home.sweeps import FIGURE, REPORT, Sweep, create_sweep
from orchestrator.record.recorder import Recorder, recorder_of
from orchestrator.record.store import StoreError, check, choose
from orchestrator.report.answer import Answer, answer
from orchestrator.report.words.numbers import counted
from orchestrator.search.base import BY_HAND
from orchestrator.space import hardware
from orchestrator.space.evidence import searcher_of
from orchestrator.space.spec import SweepSpec
from orchestrator.stacks import StackSizes, settled
from orchestrator.sweep.answering import draw, print_answer, remarks
from orchestrator.sweep.beginning import (
    check_room,
    engine_for,
    extended_sweep,
    known_runs,
    on_these_devices,
    resumed_sweep,
)
from orchestrator.sweep.interruption import (
    StopRequests,
    stop_on_interrupt,
    stop_on_machine_error,
    stopped_words,
    stopper,
)
from orchestrator.sweep.monitor import Monitor
from orchestrator.sweep.run_options import RunOptions
from orchestrator.sweep.tuning import tuned
from orchestrator.terminal.live_view import LiveView
from trainables.base import Status

log = logging.getLogger(__name__)

RECORD_TIMEOUT_S, INTERRUPTED_TIMEOUT_S = 60.0, 10.0
"""Seconds that the end of a sweep, and an interruption, wait for the record; the rest stays in the journal."""


def run_sweep(spec: SweepSpec, options: RunOptions, console: Console) -> Answer:
    """Run a sweep, print its answer and return it.

    Raises :class:`UserError` for options that do not fit, :class:`SweepError` when a part fails, and
    ``KeyboardInterrupt`` after an interruption, which leaves a sweep that can be resumed.
    """
    with ExitStack() as blocks:
        blocks.enter_context(logged_to(console))
        home = Home(options.home.resolve())
        spec = spec.checked()
        here = options.hardware or hardware.detect()
        if options.address is None or options.hardware is not None:  # Else nothing is known yet of the cluster.
            check_room(spec, here, options.address)
        resumed = None if options.resume is None else resumed_sweep(spec, home, options.resume)
        extended = None if options.extend is None else extended_sweep(spec, home, options.extend)
        if extended is not None:
            spec = spec.model_copy(update={"salt": extended.spec.salt})
        store = choose(home.root)
        try:
            check(store)
        except StoreError as error:
            if resumed is None:
                raise
            later = command_line("sync", "--home", home.root)
            log.warning(f"{error}; the sweep continues, and `{later}` records it later")
        spec = settled(spec, here)
        sizing = StackSizes(spec, here)
        engine = blocks.enter_context(engine_for(spec, options))
        log.info(engine.describe())
        sweep = create_sweep(spec, home, fresh=options.fresh) if resumed is None else on_these_devices(resumed, spec)
        options.begun(sweep)
        supervisor.tell("sweep", "" if options.several else sweep.id)
        files = sweep.files
        log.info(f"sweep {sweep.id}{', every run is trained' if sweep.fresh else ''}")
        with (
            stop_on_machine_error(files, options),
            driving(files),
            Journal(files.journal) as journal,
        ):
            forget_stop_requests(files)
            memory = whole_runs(files)
            if sweep.spec.tune is not None and not sweep.spec.tuned:
                sweep = tuned(sweep, memory, journal, engine, sizing, options)
            known = known_runs(sweep, memory, extended, journal, retry_failed=options.retry_failed)
            recorder = recorder_of(store)
            recorder.begin(sweep)
            return _Drive(sweep, journal, recorder, sizing, console, options).run(engine, known)


class _ConsoleHandler(logging.Handler):
    """Prints each record as a line of a console."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.INFO)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        if self._console.quiet and record.levelno >= logging.WARNING:
            sys.stderr.write(f"{record.getMessage()}\n")
        self._console.print(record.getMessage(), markup=False, highlight=False, soft_wrap=True)


@contextmanager
def logged_to(console: Console) -> Iterator[None]:
    """A block in which the program's log goes to a console."""
    logger, handler = logging.getLogger("orchestrator"), _ConsoleHandler(console)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)


class _Drive(Observer):
    """One process's part of a sweep: from the known runs to the answer, or to an interruption."""

    def __init__(
        self,
        sweep: Sweep,
        journal: Journal,
        recorder: Recorder,
        sizing: StackSizes,
        console: Console,
        options: RunOptions,
    ) -> None:
        self._options = options
        self._sweep = sweep
        self._files = sweep.files
        self._journal = journal
        self._recorder = recorder
        self._sizing = sizing
        self._console = console

    def run(self, engine: Engine, known: Sequence[Ended]) -> Answer:
        campaign = self._campaign(engine, known)
        self._state = campaign.state
        for record in self._state.records:
            self._recorder.run_ended(self._sweep, record)
        self._monitor = monitor = Monitor(campaign, lambda: self._recorder.warning, run_seconds(self._sweep.spec))
        self._view = view = LiveView(self._console, monitor.snapshot)
        self._stop_requests = StopRequests(campaign)
        campaign.observer = self
        with stop_on_interrupt(stopper(campaign, engine), self._options.limit):
            if not campaign.done:
                with view:
                    with suppress(MachineError):  # Raised below, when all that finished is in the record.
                        engine.execute(campaign)
                    monitor.refresh()
            if campaign.stopping:
                self._leave_resumable(campaign.machine_error or self._options.limit.said)
            return self._finish()

    @property
    def behind(self) -> bool:
        return self._recorder.behind

    def look(self) -> None:
        self._stop_requests.look()

    def changed(self) -> None:
        self._monitor.changed()

    def ended(self, entry: Ended) -> None:
        self._recorder.run_ended(self._sweep, self._state.records[-1])
        request = entry.request
        arm = f"{request.mix}, phase {request.phase}" if request.phase else request.mix
        self._view.run_ended(arm, request.size, request.seed, ended_words(entry, self._sweep.spec.target))

    def _campaign(self, engine: Engine, known: Sequence[Ended]) -> Campaign:
        memory = recall(self._files, runs=False)
        searcher = searcher_of(self._sweep.spec, [(entry.request, entry.outcome) for entry in known], memory.blocks)
        for mix in memory.stopped:
            log.info(f"{mix} was {BY_HAND} and stays so; a new sweep with --extend {self._sweep.id} asks for it again")
            searcher.stop(mix)
        interrupted = Checkpoints(self._files.checkpoints).interrupted()
        return Campaign(
            self._sweep,
            searcher,
            self._journal,
            slots=engine.slots,
            sizing=self._sizing,
            interrupted=interrupted,
            known=known,
            blocks=len(memory.blocks),
        )

    def _leave_resumable(self, why: str) -> None:
        self._recorder.end(self._sweep, self._answer(), State.INTERRUPTED)
        left = self._close_record(INTERRUPTED_TIMEOUT_S)
        stacks = len(Checkpoints(self._files.checkpoints).stacks())
        checkpoints = f", and {counted(stacks, 'checkpoint')} of runs in training" if stacks else ""
        kept = f"{counted(len(self._state.entries), 'run')} kept{checkpoints}{left}"
        if why:
            raise SweepError(stopped_words(self._sweep.id, f"{why}. {kept}", self._options))
        log.info(f"Stopped; {kept}. Continue with")
        log.info(self._options.resumed(self._sweep.id))
        raise KeyboardInterrupt

    def _finish(self) -> Answer:
        failed = [entry.outcome.error for entry in self._state.entries if entry.outcome.status is Status.FAILED]
        found = self._answer()
        if failed and len(failed) == len(self._state.entries):
            self._recorder.end(self._sweep, found, State.FAILED)
            self._close_record(RECORD_TIMEOUT_S)
            raise SweepError(f"every run failed; the first one with:\n{failed[0].strip()}")
        records = self._state.records
        self._recorder.end(self._sweep, found, State.FINISHED)
        self._journal.append(Answered())
        print_answer(found, self._console)
        if files := draw(self._sweep, found, records):
            self._recorder.end(self._sweep, found, State.FINISHED, files)
        Checkpoints(self._files.checkpoints).clear()
        for said in remarks(self._sweep, found, self._state.entries, records, self._options):
            log.info(said)
        left = self._close_record(RECORD_TIMEOUT_S)
        for name, path in (("figure", self._files.directory / FIGURE), ("report", self._files.directory / REPORT)):
            if path in files:
                log.info(f"{name}  {path}")
        log.info(f"record  {command_line('ui', '--home', self._files.home.root)}{left}")
        return found

    def _answer(self) -> Answer:
        """The answer of the runs that have ended so far."""
        outcomes = [(record.config, record.outcome) for record in self._state.records]
        memory = recall(self._files, runs=False)
        return answer(self._sweep.spec, outcomes, memory.stopped, memory.blocks)

    def _close_record(self, timeout_s: float) -> str:
        """Wait for the record; a clause about the records that are not in the store, ``""`` if all are."""
        left = self._recorder.close(timeout_s)
        if self._recorder.warning:
            log.warning(self._recorder.warning)
        sync = command_line("sync", "--home", self._files.home.root)
        return f"; {counted(left, 'record')} not in MLflow yet: `{sync}`" if left else ""


def ended_words(entry: Ended, target: str) -> str:
    """End of a run: ``add 0.95, finished, 400 steps``. A phase names all its tasks, a run the ``target``."""
    outcome = entry.outcome
    if outcome.status is Status.FAILED:
        lines = outcome.error.strip().splitlines()
        return f"failed: {lines[-1] if lines else ''}"
    tasks = outcome.accuracy if entry.request.phase else [target]
    said = ", ".join(f"{task} {outcome.accuracy[task]:.2f}" for task in tasks)
    there = f", trained for {entry.reused_from}" if entry.reused_from else ""
    return f"{said}, {outcome.status}, {outcome.steps} steps{there}"
