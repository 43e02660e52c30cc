"""Runs a sweep from its specification to its answer."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.console import Console

from orchestrator.catalog.reading import find_sweep
from orchestrator.cost import run_seconds
from orchestrator.engine.campaign import Campaign
from orchestrator.engine.engine import Engine
from orchestrator.home.directories import Home
from orchestrator.home.earlier_looks import earlier_looks
from orchestrator.home.journal import Ended, Journal, Memory, recall
from orchestrator.home.known_code import check_resumed, check_reused
from orchestrator.home.known_runs import (
    adopt_outcomes,
    check_same,
    continued_blocks,
    find_unfinished,
    reusable,
    reuse_runs,
    whole_runs,
)
from orchestrator.home.new_home import make_home
from orchestrator.home.sweeps import Sweep, create_sweep, load_sweep
from orchestrator.record.choice import opener
from orchestrator.record.recorder import Recorder
from orchestrator.record.store import choose
from orchestrator.record.sweep_records import SweepRecords
from orchestrator.record.tracker import StoreError, Tracker
from orchestrator.report.answer import Answer
from orchestrator.report.words.findings import looks_words
from orchestrator.search.base import BY_HAND
from orchestrator.space.observations import searcher_of
from orchestrator.space.runs import Run
from orchestrator.space.spec import SweepSpec
from orchestrator.stacks import StackSizes, settled
from orchestrator.sweep.answering import finish, leave_resumable
from orchestrator.sweep.interruption import StopRequests, stop_on_interrupt, stop_on_machine_error
from orchestrator.sweep.invocation import Invocation, TimeLimit
from orchestrator.sweep.monitor import Monitor
from orchestrator.sweep.run_options import RunOptions
from orchestrator.sweep.study_plan import StudyPlan
from orchestrator.sweep.tuning_step import tuned
from orchestrator.system import hardware
from orchestrator.system.environment import scratch
from orchestrator.system.errors import SweepError, UserError, exception_line, first_of
from orchestrator.system.files import replace_whole
from orchestrator.system.hardware import Hardware, has_gpu_driver
from orchestrator.system.printing import clean
from orchestrator.terminal.live_view import LiveView
from orchestrator.terminal.output import is_closed
from orchestrator.trusted_code import is_known_sweep, list_path, remember_script, scripts_path, trust_code_of
from trainables.base import Status
from trainables.contract.sources import MAIN

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
        home = Home(options.home.resolve())
        machine = invocation.hardware or hardware.detect()
        _remember_code(spec)
        earlier = earlier_sweeps(spec, home, options, invocation.hardware)
        resumed, extended = earlier.resumed, earlier.extended
        if earlier.warning:
            log.warning(earlier.warning)
        if extended is not None:
            spec = _continuing(spec, extended)
        open_tracker = _open_record(home, options, must_answer=resumed is None)
        spec = settled(spec, machine)
        sizing = StackSizes(spec, machine)
        engine = blocks.enter_context(_engine_for(spec, options, invocation.session))
        log.info(engine.describe())

        if is_closed(console):
            raise SweepError("the program that reads this output ended before the sweep began: nothing was started")
        sweep = _created(spec, home, options, extended) if resumed is None else _as_now(resumed, spec)
        _remember_script(sweep)
        if invocation.begun is not None:
            invocation.begun(sweep)
        log.info(f"sweep {sweep.id}{', which trains every run again' if sweep.fresh else ''}")
        blocks.enter_context(stop_on_machine_error(sweep.files, options))
        blocks.enter_context(sweep.files.driving())
        journal = blocks.enter_context(Journal(sweep.files.journal))
        sweep.files.forget_stop_requests()
        memory = whole_runs(sweep)
        if sweep.spec.tune is not None and not sweep.spec.tuned:
            sweep = tuned(sweep, memory, journal, engine, sizing, options, invocation)
        known = _known_runs(sweep, memory, extended, journal, retry_failed=options.retry_failed)
        recorder = Recorder(open_tracker)
        records = SweepRecords(sweep, recorder.put)
        records.begin()

        memory = recall(sweep.files, runs=False)  # Includes the blocks of the extended sweep.
        searcher = searcher_of(sweep.spec, memory.blocks)
        for mix in memory.stopped:
            again = f"to train it again, start a new sweep with --extend {sweep.id}"
            log.info(f"{mix} was {BY_HAND} and stays stopped; {again}")
            searcher.stop(mix)
        plan = StudyPlan(sweep, searcher, journal, known=known, blocks=len(memory.blocks))
        campaign = Campaign(sweep.files, sweep.setup, plan, slots=engine.slots, sizing=sizing, known=plan.known)
        progress = _Progress(campaign, plan, records, console, invocation.limit, lambda: recorder.warning)
        campaign.observer = progress
        plan.on_ended = progress.ended
        blocks.enter_context(stop_on_interrupt(campaign, engine, options, invocation))
        if not campaign.done:
            with progress.view:
                engine.execute(campaign)
                progress.monitor.refresh()
        if campaign.stopping:
            leave_resumable(campaign, plan, records, recorder, options, invocation.limit)
        return finish(plan, records, recorder, console, options)


def _created(spec: SweepSpec, home: Home, options: RunOptions, extended: Sweep | None) -> Sweep:
    """Create a sweep. Unless it trains every run again, count the earlier looks at its runs."""
    if not options.fresh:
        spec = _with_looks(spec, home, extended)
    sweep = create_sweep(spec, home, fresh=options.fresh)
    if extended is not None and extended.files.is_imported:  # Somebody else may have chosen its pairs.
        replace_whole(sweep.files.imported, b"")
        log.warning(f"{extended.id} came with an archive, so {sweep.id}, which extends it, is shown as imported, too")
    return sweep


def _as_now(resumed: Sweep, spec: SweepSpec) -> Sweep:
    """Return a resumed sweep with those values of ``spec`` that do not change results."""
    current = resumed.spec.substitute(resources=spec.resources, probes=spec.probes, code=spec.code)
    if spec.script is not None:
        current = current.model_copy(update={"script": spec.script})
    return replace(resumed, spec=current)


def _remember_code(spec: SweepSpec) -> None:
    """Note the folders of the code that the user runs now, so that other commands may import it later."""
    try:
        trust_code_of((spec.family, *spec.probes))
    except OSError as error:
        log.info(f"{list_path()} cannot be written ({error.strerror}), so `status` will not import {spec.family}")


def _remember_script(sweep: Sweep) -> None:
    """Note the script that the user runs now, so that its sweep can be resumed."""
    if sweep.spec.script is None:
        return
    try:
        remember_script(sweep.spec.to_dict(), sweep.files.directory)
    except OSError as error:
        log.warning(f"{scripts_path()} cannot be written ({error.strerror}), so {sweep.id} cannot be resumed")


def _continuing(spec: SweepSpec, extended: Sweep) -> SweepSpec:
    """Return a specification with the salt of the sweep it extends and, if both tune alike, its tuned settings."""
    earlier = extended.spec
    spec = spec.substitute(salt=earlier.salt)
    tunes_alike = spec.tune is not None and spec.tune == earlier.tune and not spec.tuned
    if tunes_alike and spec.mix_named.keys() <= earlier.tuned.keys():
        return spec.model_copy(update={"tuned": {mix: earlier.tuned[mix] for mix in spec.mix_named}})
    return spec


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


def check_room(spec: SweepSpec, hardware: Hardware, address: str | None) -> None:
    """Raise :class:`UserError` if no machine has the cores or GPUs for a stack, or if this machine has no scratch
    directory, and ``SettingsError`` if the device of the stacks cannot train a mix with its settings."""
    resources, where = spec.resources, f"at {address}" if address else "here"
    if address is None:
        scratch(resources.scratch)
    if resources.gpu_per_stack and not hardware.gpus and not hardware.grows:
        share = resources.gpu_per_stack
        needs = "a share of a GPU" if isinstance(share, str) else f"{share:g} GPU"
        has_driver = address is None and has_gpu_driver()
        hint = " (a driver is installed, but torch cannot use it: see `doctor`)" if has_driver else ""
        raise UserError(
            f"each stack of this sweep needs {needs}, but no GPU was found {where}{hint}. Give the --address of a Ray "
            "cluster with GPUs, another --profile, or --set resources.gpu_per_stack=0 to train on the CPU, slowly."
        )
    for name, share, available, what, hint in (
        ("cpu_per_stack", resources.cpu_per_stack, hardware.cpus, "CPU cores", ""),
        ("gpu_per_stack", resources.gpu_per_stack, hardware.gpus, "GPUs", "; 0 trains on the CPU"),
    ):
        if isinstance(share, float) and share > available and not hardware.grows:
            raise UserError(
                f"resources.{name} is {share:g}, but only {available} {what} were found: set it to at most "
                f"{available}{hint}"
            )
    spec.check_device()


@dataclass(frozen=True)
class Earlier:
    """The sweeps that a sweep resumes and extends, and a warning if their runs were trained by other code, or ""."""

    resumed: Sweep | None
    extended: Sweep | None
    warning: str


def earlier_sweeps(spec: SweepSpec, home: Home, options: RunOptions, machine: Hardware | None = None) -> Earlier:
    """Return the sweeps that a sweep resumes (the newest unfinished one if the id is "") and extends, and create the
    home.

    ``machine`` is the hardware to check, by default this machine's; that of a cluster may be unknown. Raises
    :class:`UserError` if the machine lacks room, if workers cannot import the family, if a sweep is missing, too
    different or running, or if runs of other code are refused.
    """
    if spec.family.startswith(f"{MAIN}:") and not options.local:
        raise UserError(
            f"Ray's workers cannot import {spec.family} from a script or notebook: move the class into a file of its "
            "own next to it, and name that module, or train with --engine local"
        )
    spec.check_startable()
    if options.address is None or machine is not None:  # Otherwise the hardware is not known yet.
        check_room(spec, machine or hardware.detect(), options.address)
    resumed = extended = None
    warning = ""
    if options.resume:
        resumed = load_sweep(home, find_sweep(home, options.resume))
        check_same(spec, resumed)
    elif options.resume is not None:
        resumed = find_unfinished(spec, home)
    if resumed is not None:
        resumed.files.check_free()
        if spec.script is not None and not is_known_sweep(resumed.files.directory):
            raise UserError(
                f"{resumed.id} cannot be resumed: it was not started by you in {home.root}, and the files that its "
                "script left there may contain code. Leave --resume out: a new sweep reuses its finished runs"
            )
        current = replace(resumed, spec=resumed.spec.substitute(code=spec.code))
        warning = check_resumed(current, retry_failed=options.retry_failed)
    if options.extend is not None:
        extended = load_sweep(home, find_sweep(home, options.extend))
        continued = _continuing(spec, extended)
        reusable(continued, extended)
        continued_blocks(continued, extended)
        warning = check_reused(continued, home)
    elif resumed is None and not options.fresh:
        warning = check_reused(spec, home)
    if options.record == "mlflow":
        choose(home.root)  # A home that it refuses is not created.
    make_home(home.root)
    return Earlier(resumed, extended, warning)


def _open_record(home: Home, options: RunOptions, *, must_answer: bool) -> Callable[[], Tracker]:
    """Return a function that opens the home's record. If it does not respond, raise ``StoreError`` with
    ``must_answer``, otherwise log how to record the sweep later."""

    def warn(error: StoreError) -> None:
        log.warning(f"{error}; the sweep continues without a record. To add it later: `{options.sync_line}`")

    return opener(options.record, home.root, None if must_answer else warn)


def _engine_for(spec: SweepSpec, options: RunOptions, session: RaySession | None) -> Engine:
    if options.local:
        from orchestrator.engine.local_engine import LocalEngine

        return LocalEngine()
    from orchestrator.engine.ray.engine import RayEngine  # Ray takes a second to import; local sweeps do not need it.
    from orchestrator.engine.ray.session import RaySession

    return RayEngine(spec.resources, session or RaySession(options.address, dashboard=options.dashboard))


@contextmanager
def one_ray(options: RunOptions, invocation: Invocation) -> Iterator[Invocation]:
    """Yield an invocation whose sweeps share one Ray. The first sweep starts it."""
    if options.local:
        yield invocation
        return
    from orchestrator.engine.ray.session import RaySession

    with RaySession(options.address, dashboard=options.dashboard, kept=True) as session:
        yield replace(invocation, session=session)


def _known_runs(
    sweep: Sweep, memory: Memory, extended: Sweep | None, journal: Journal, *, retry_failed: bool
) -> list[Ended]:
    """Return the runs that need no training: from ``memory``, from before a crash, or from another sweep."""
    known = [entry for entry in memory.ended if not (retry_failed and entry.outcome.status is Status.FAILED)]
    known += adopt_outcomes(sweep, journal, [entry.key for entry in known])
    if extended is not None:
        for damage in recall(extended.files).damaged:
            log.warning(damage)
        known += reuse_runs(extended, sweep, journal)
    return known


class _Progress(StopRequests):
    """Shows and records a sweep while it trains, and handles stop requests."""

    def __init__(
        self,
        campaign: Campaign,
        plan: StudyPlan,
        records: SweepRecords,
        console: Console,
        limit: TimeLimit,
        warning: Callable[[], str],
    ) -> None:
        super().__init__(campaign, plan, limit)
        self._console = console
        self._sweep = plan.sweep
        self._records = records
        for record in plan.runs:
            records.run_ended(record)
        self.monitor = Monitor(campaign, plan, warning, run_seconds(self._sweep.spec))
        self.view = LiveView(console, self.monitor.snapshot)

    def look(self) -> None:
        super().look()
        self.monitor.look()
        if is_closed(self._console) and not self._campaign.stopping:
            log.warning("The program that reads this output has ended (such as `head`), so the sweep stops, too")
            self._stop()

    def ended(self, record: Run) -> None:
        self._records.run_ended(record)
        config, outcome = record.config, record.outcome
        if outcome.status is Status.FAILED:
            words = f"failed: {exception_line(outcome.error)}"
        else:
            is_phase = config.label not in self._sweep.spec.mix_named
            tasks = list(outcome.accuracy) if is_phase else [self._sweep.spec.target]
            accuracies = ", ".join(f"{task} {outcome.accuracy[task]:.2f}" for task in tasks)
            origin = f", trained for {record.found_in}" if record.found_in else ""
            words = f"{accuracies}, {outcome.status}, {outcome.steps} steps{origin}"
        self.view.run_ended(config.label, config.size, config.seed, words)


class _ConsoleHandler(logging.Handler):
    def __init__(self, console: Console) -> None:
        super().__init__(logging.INFO)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        if self._console.quiet and record.levelno >= logging.WARNING:
            sys.stderr.write(f"{clean(record.getMessage())}\n")
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
