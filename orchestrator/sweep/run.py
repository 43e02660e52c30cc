"""Runs a sweep from its specification to its answer."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from rich.console import Console

from orchestrator import supervisor
from orchestrator.cost import run_seconds
from orchestrator.engine.base import Engine, MachineError
from orchestrator.engine.campaign import Campaign, Observer
from orchestrator.errors import SweepError
from orchestrator.home import lifecycle
from orchestrator.home.bucket_home import home_words
from orchestrator.home.files import Home, SweepFiles
from orchestrator.home.journal import Answered, Ended, Journal, recall
from orchestrator.home.notes import forget_stop_requests
from orchestrator.home.records import FIGURE, REPORT, RunRecord, Sweep
from orchestrator.record.recorder import Ending, Recorder, recorder_of
from orchestrator.record.store import StoreError, check, choose
from orchestrator.report.answer import Answer, answer
from orchestrator.search.base import BY_HAND
from orchestrator.space import hardware
from orchestrator.space.evidence import searcher_of
from orchestrator.space.spec import SweepSpec
from orchestrator.stacks import StackSizes, settled
from orchestrator.sweep import tuning
from orchestrator.sweep.answering import draw, ended_words, print_answer, remarks
from orchestrator.sweep.beginning import (
    check_room,
    engine_for,
    extended_sweep,
    known_runs,
    on_these_devices,
    resumed_sweep,
)
from orchestrator.sweep.monitor import Monitor
from orchestrator.sweep.options import RunOptions
from orchestrator.sweep.stopping import (
    StopRequests,
    stop_on_interrupt,
    stop_on_trouble,
    stopped_words,
    stopper,
)
from orchestrator.terminal.live_view import LiveView
from trainables.base import Outcome, RunConfig, Status

RECORD_TIMEOUT_S, INTERRUPTED_TIMEOUT_S = 60.0, 10.0
"""Seconds that the end of a sweep, and an interruption, wait for the record; the rest stays in the journal."""


def run_sweep(spec: SweepSpec, options: RunOptions, console: Console) -> Answer:
    """Run a sweep, print its answer and return it.

    Raises :class:`UserError` for options that do not fit, :class:`SweepError` when a part fails, and
    ``KeyboardInterrupt`` after an interruption, which leaves a sweep that can be resumed.
    """
    say = partial(console.print, markup=False, highlight=False, soft_wrap=True)
    home = Home(options.home.resolve())
    here = options.hardware or hardware.detect()
    if options.address is None or options.hardware is not None:  # Else nothing is known yet of the cluster.
        check_room(spec, here)
    resumed = None if options.resume is None else resumed_sweep(spec, home, options.resume, say)
    extended = None if options.extend is None else extended_sweep(spec, home, options.extend)
    if extended is not None:
        spec = spec.model_copy(update={"salt": extended.spec.salt})
    store = choose(home.root)
    try:
        check(store)
    except StoreError as error:
        if resumed is None:
            raise
        say(f"{error}; the sweep goes on, and `sync` records it later")
    spec = settled(spec, here)
    sizing = StackSizes(spec, here)
    engine_of = partial(
        engine_for,
        local_debug=options.local_debug,
        address=options.address,
        dashboard=options.dashboard,
        session=options.session,
    )
    with engine_of(spec) as engine:
        console.print(engine.describe(), markup=False, highlight=False, soft_wrap=True)
        if resumed is None:
            sweep = lifecycle.create(spec, home, fresh=options.fresh)
        else:
            sweep = on_these_devices(resumed, spec)
        options.sweep_begun(sweep)
        supervisor.tell("sweep", "" if options.several else sweep.id)
        files = home.sweep(sweep.id)
        anew = ", every run trained anew" if sweep.fresh else ""
        console.print(f"sweep {sweep.id}{anew}", highlight=False, soft_wrap=True)
        with (
            stop_on_trouble(files, options),
            lifecycle.driving(files),
            Journal(files.journal) as journal,
        ):
            forget_stop_requests(files)
            memory = lifecycle.whole_runs(files, say)
            sweep = tuning.tuned(sweep, memory, journal, engine, sizing, say, options)
            known = known_runs(sweep, home, memory, extended, journal, say, retry_failed=options.retry_failed)
            recorder = recorder_of(store)
            recorder.begin(sweep)
            return _Drive(sweep, files, journal, recorder, sizing, console, options).run(engine, known)


class _Drive(Observer):
    """One process's part of a sweep: from the known runs to the answer, or to an interruption."""

    def __init__(
        self,
        sweep: Sweep,
        files: SweepFiles,
        journal: Journal,
        recorder: Recorder,
        sizing: StackSizes,
        console: Console,
        options: RunOptions,
    ) -> None:
        self._options = options
        self._sweep = sweep
        self._files = files
        self._journal = journal
        self._recorder = recorder
        self._sizing = sizing
        self._console = console
        self._ended: list[Ended] = []
        self._records: list[RunRecord] = []
        """The same for reports, made once: the provisional answers ask for all of them every minute."""

    def run(self, engine: Engine, known: Sequence[Ended]) -> Answer:
        campaign = self._campaign(engine, known)
        self._monitor = monitor = Monitor(campaign, lambda: self._recorder.warning, run_seconds(self._sweep.spec))
        for entry in known:
            self._note(entry)
        self._view = view = LiveView(self._console, monitor.snapshot)
        stop = stopper(campaign, engine, self._say)
        self._stop_requests = StopRequests(campaign, stop, self._say)
        campaign.observer = self
        monitor.refresh()
        with stop_on_interrupt(stop, self._options.limit):
            if not campaign.done:
                with view, engine.exporting(self._sweep.id, monitor.snapshot):
                    with suppress(MachineError):  # It is said when all that finished is in the record.
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
        self._note(entry)
        request = entry.request
        arm = f"{request.mix}, phase {request.phase}" if request.phase else request.mix
        self._view.run_ended(arm, request.size, request.seed, ended_words(entry, self._sweep.spec.target))
        self._recorder.so_far(self._sweep, self._outcomes)

    def _campaign(self, engine: Engine, known: Sequence[Ended]) -> Campaign:
        searcher = searcher_of(self._sweep.spec, [(entry.request, entry.outcome) for entry in known])
        for mix in recall(self._files, runs=False).stopped:
            self._say(f"{mix} was {BY_HAND} and stays so; a new sweep with --extend {self._sweep.id} asks for it again")
            searcher.stop(mix)
        interrupted = lifecycle.interrupted_stacks(self._files, self._say)
        return Campaign(
            self._sweep,
            searcher,
            self._journal,
            slots=engine.slots,
            sizing=self._sizing,
            interrupted=interrupted,
            known=known,
            say=self._say,
        )

    def _note(self, entry: Ended) -> None:
        """Keep a run for the answer and the live view, and queue its record."""
        record = lifecycle.record_of(self._sweep, self._files, entry)
        self._ended.append(entry)
        self._records.append(record)
        self._recorder.run_ended(self._sweep, record)
        self._monitor.ended(entry)

    def _leave_resumable(self, why: str) -> None:
        self._recorder.end(self._sweep, self._answer(), Ending.INTERRUPTED)
        left = self._close_record(INTERRUPTED_TIMEOUT_S)
        if why:
            raise SweepError(
                stopped_words(self._sweep.id, f"{why}. {len(self._ended)} runs are kept{left}", self._options)
            )
        self._say(f"Stopped; {len(self._ended)} runs are kept{left}. Continue with")
        self._say(self._options.resumed(self._sweep.id))
        raise KeyboardInterrupt

    def _finish(self) -> Answer:
        failed = [entry.outcome.error for entry in self._ended if entry.outcome.status is Status.FAILED]
        found = self._answer()
        if failed and len(failed) == len(self._ended):
            self._recorder.end(self._sweep, found, Ending.FAILED)
            self._close_record(RECORD_TIMEOUT_S)
            raise SweepError(f"every run failed; the first one with:\n{failed[0].strip()}")
        records = self._records
        self._recorder.end(self._sweep, found, Ending.FINISHED, draw(self._sweep, found, records))
        self._journal.append(Answered())
        lifecycle.drop_checkpoints(self._files)
        print_answer(found, self._console)
        for said in remarks(self._sweep, found, self._ended, records, self._options):
            self._say(said)
        left = self._close_record(RECORD_TIMEOUT_S)
        self._say(f"figure  {self._files.directory / FIGURE}")
        self._say(f"report  {self._files.directory / REPORT}")
        self._say(f"record  python -m orchestrator ui --home {home_words(self._files.home.root)}{left}")
        return found

    def _answer(self) -> Answer:
        """The answer of the runs that have ended so far."""
        return answer(self._sweep.spec, self._outcomes(), recall(self._files, runs=False).stopped)

    def _outcomes(self) -> list[tuple[RunConfig, Outcome]]:
        return [(record.config, record.outcome) for record in self._records]

    def _close_record(self, timeout_s: float) -> str:
        """Wait for the record; a clause about the records that are not in the store, ``""`` if all are."""
        left = self._recorder.close(timeout_s)
        if self._recorder.warning:
            self._say(self._recorder.warning)
        return f"; {left} records wait for `python -m orchestrator sync`" if left else ""

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)
