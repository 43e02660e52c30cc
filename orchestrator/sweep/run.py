"""Runs a sweep from its specification to its answer."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from rich.console import Console

from orchestrator import supervisor
from orchestrator.cost import run_seconds
from orchestrator.engine.campaign import Campaign, Observer
from orchestrator.home.files import Home, make_home
from orchestrator.home.journal import Journal
from orchestrator.home.known_runs import whole_runs
from orchestrator.home.sweeps import RunRecord, create_sweep
from orchestrator.record.recorder import Recorder, open_mlflow
from orchestrator.report.answer import Answer
from orchestrator.space import hardware
from orchestrator.space.spec import SweepSpec
from orchestrator.stacks import StackSizes, settled
from orchestrator.sweep.answering import finish, leave_resumable
from orchestrator.sweep.beginning import (
    campaign_of,
    check_room,
    choose_store,
    engine_for,
    extended_sweep,
    known_runs,
    on_these_devices,
    resumed_sweep,
)
from orchestrator.sweep.interruption import StopRequests, stop_on_interrupt, stop_on_machine_error, stopper
from orchestrator.sweep.monitor import Monitor
from orchestrator.sweep.run_options import RunOptions, TimeLimit
from orchestrator.sweep.tuning import tuned
from orchestrator.terminal.live_view import LiveView
from trainables.base import Status

log = logging.getLogger(__name__)


def run_sweep(spec: SweepSpec, options: RunOptions, console: Console) -> Answer:
    """Run a sweep, print its answer and return it.

    Raises:
        UserError: for invalid options.
        SweepError: if a part fails.
        KeyboardInterrupt: after an interruption. The sweep can be resumed.
    """
    with ExitStack() as blocks:
        blocks.enter_context(logged_to(console))
        home, spec, machine = Home(options.home.resolve()), spec.checked(), options.hardware or hardware.detect()
        if options.address is None or options.hardware is not None:  # Otherwise the hardware is not known yet.
            check_room(spec, machine, options.address)
        make_home(home.root)
        resumed = None if options.resume is None else resumed_sweep(spec, home, options.resume)
        extended = None if options.extend is None else extended_sweep(spec, home, options.extend)
        if extended is not None:
            spec = spec.model_copy(update={"salt": extended.spec.salt})
        store = choose_store(home, must_answer=resumed is None)
        spec = settled(spec, machine)
        sizing = StackSizes(spec, machine)
        engine = blocks.enter_context(engine_for(spec, options))
        log.info(engine.describe())

        sweep = create_sweep(spec, home, fresh=options.fresh) if resumed is None else on_these_devices(resumed, spec)
        options.begun(sweep)
        supervisor.tell("sweep", "" if options.several else sweep.id)
        log.info(f"sweep {sweep.id}{', which trains every run again' if sweep.fresh else ''}")
        blocks.enter_context(stop_on_machine_error(sweep.files, options))
        blocks.enter_context(sweep.files.driving())
        journal = blocks.enter_context(Journal(sweep.files.journal))
        sweep.files.forget_stop_requests()
        memory = whole_runs(sweep.files)
        if sweep.spec.tune is not None and not sweep.spec.tuned:
            sweep = tuned(sweep, memory, journal, engine, sizing, options)
        known = known_runs(sweep, memory, extended, journal, retry_failed=options.retry_failed)
        recorder = Recorder(partial(open_mlflow, store))
        recorder.begin(sweep)

        campaign = campaign_of(sweep, journal, known, slots=engine.slots, sizing=sizing)
        progress = _Progress(campaign, recorder, console, options.limit)
        blocks.enter_context(stop_on_interrupt(stopper(campaign, engine)))
        if not campaign.done:
            with progress.view:
                engine.execute(campaign)
                progress.monitor.refresh()
        if campaign.stopping:
            leave_resumable(campaign, recorder, options)
        return finish(campaign, recorder, console, options)


class _Progress(Observer):
    """Shows and records a sweep while it trains, and handles stop requests."""

    def __init__(self, campaign: Campaign, recorder: Recorder, console: Console, limit: TimeLimit) -> None:
        self._sweep = campaign.sweep
        self._recorder = recorder
        for record in campaign.records:
            recorder.run_ended(self._sweep, record)
        self.monitor = Monitor(campaign, lambda: recorder.warning, run_seconds(self._sweep.spec))
        self.view = LiveView(console, self.monitor.snapshot)
        self._stop_requests = StopRequests(campaign, limit)
        campaign.observer = self

    @property
    def behind(self) -> bool:
        return self._recorder.behind

    def look(self) -> None:
        self._stop_requests.look()
        self.monitor.look()

    def ended(self, record: RunRecord) -> None:
        self._recorder.run_ended(self._sweep, record)
        config, is_phase = record.config, record.config.label not in self._sweep.spec.mix_named
        tasks = list(record.outcome.accuracy) if is_phase else [self._sweep.spec.target]
        self.view.run_ended(config.label, config.size, config.seed, ended_words(record, tasks))


def ended_words(record: RunRecord, tasks: list[str]) -> str:
    """Return the end of a run with its accuracy on these tasks, such as ``add 0.95, finished, 400 steps``."""
    outcome = record.outcome
    if outcome.status is Status.FAILED:
        lines = outcome.error.strip().splitlines()
        return f"failed: {lines[-1] if lines else ''}"
    accuracies = ", ".join(f"{task} {outcome.accuracy[task]:.2f}" for task in tasks)
    origin = f", trained for {record.found_in}" if record.found_in else ""
    return f"{accuracies}, {outcome.status}, {outcome.steps} steps{origin}"


class _ConsoleHandler(logging.Handler):
    def __init__(self, console: Console) -> None:
        super().__init__(logging.INFO)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        if self._console.quiet and record.levelno >= logging.WARNING:
            sys.stderr.write(f"{record.getMessage()}\n")
        self._console.print(record.getMessage(), markup=False, highlight=False, soft_wrap=True)


@contextmanager
def logged_to(console: Console) -> Iterator[None]:
    """Print the program's log on a console during the block."""
    logger, handler = logging.getLogger("orchestrator"), _ConsoleHandler(console)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)
