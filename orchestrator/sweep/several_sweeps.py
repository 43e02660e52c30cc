"""Runs sweeps from their specifications to their answers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from operator import attrgetter

from rich.console import Console

from orchestrator.catalog.summary_cache import keep_ended
from orchestrator.engine.campaign import Campaign
from orchestrator.engine.group import Group, SweepCampaigns
from orchestrator.history.extend import continued_spec
from orchestrator.history.sweeps import Sweep
from orchestrator.home.directories import Home
from orchestrator.report.answer import Answer
from orchestrator.space.spec import SweepSpec
from orchestrator.space.stack_sizes import StackSizes, choose_stacks
from orchestrator.sweep.driving import Drive
from orchestrator.sweep.engine_choice import make_engine, shipment_of
from orchestrator.sweep.interruption import stop_on_interrupt, stopped_text
from orchestrator.sweep.invocation import Invocation
from orchestrator.sweep.one_sweep import create, drive_sweep, open_record, remember_code, update_settings
from orchestrator.sweep.run_options import RunOptions
from orchestrator.sweep.starting import check_startable, find_earlier, prepare_home
from orchestrator.system import hardware
from orchestrator.system.errors import SweepError
from orchestrator.system.text import counted, first_of
from orchestrator.terminal.console_log import logged_to
from orchestrator.terminal.live_view import LiveView
from orchestrator.terminal.output import is_closed
from trainables.contract.present_code import LOCK
from trainables.contract.sources import sweep_of

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
        answer: The answer, or None if the sweep has none (yet).
        error: The exception that ended the sweep without an answer, or None. It is a ``KeyboardInterrupt`` if the sweep
            was interrupted.
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
    """Run sweeps on the slots of one engine.

    Each sweep begins when no sweep before it can use an idle slot, and prints its answer when it ends. After an
    interruption, some sweeps may not have begun. The options that specify where runs are trained and kept must be the
    same for all sweeps. The result of each sweep, even an exception, is in its :class:`Attempt`.

    Raises:
        UserError: if the code of the sweeps cannot be shipped.
    """
    with logged_to(console):
        _Sweeps(attempts, console, invocation or Invocation()).run()


def check_answered(attempts: Sequence[Attempt]) -> None:
    """Raise an exception unless every sweep has an answer. For a single sweep, it is the sweep's own exception. For
    several, it lists the sweeps without an answer.

    Raises:
        SweepError: if a sweep failed. It is a ``UserError`` if a sweep was refused.
        KeyboardInterrupt: if a sweep was interrupted.
    """
    missing = [attempt for attempt in attempts if attempt.answer is None]
    errors = [attempt.error for attempt in missing if attempt.error is not None]
    sweep_errors = [error for error in errors if isinstance(error, SweepError)]
    for error in errors:
        # An interruption or a bug is raised as it is, even if other sweeps failed, too.
        if len(attempts) == 1 or not isinstance(error, SweepError):
            raise error
    if sweep_errors:
        worst = max(sweep_errors, key=attrgetter("exit_code"))
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
        self._engine = make_engine(options, shipment_of([attempt.spec for attempt in attempts], options))
        self._cleanup = ExitStack()
        self._is_engine_on = False
        self._described = ""
        """The last description of the engine that was logged."""
        self._view = LiveView(console, named=len(attempts) > 1)

    def run(self) -> None:
        """Run all sweeps, one after the other or side by side."""
        with self._cleanup:
            group = Group(map(self._campaigns, self._attempts), self._engine.slots)
            if group.begin():
                # This block lasts until the last answer is printed, so that a second signal always ends the process.
                with stop_on_interrupt(group, self._engine, self._invocation, self._stopped_text):
                    self._train(group)
        for attempt in self._attempts:
            if attempt.sweep is not None and attempt.answer is not None:
                keep_ended(attempt.sweep.files, can_wait=self._invocation.owns_process)

    def _train(self, group: Group) -> None:
        """Train until all sweeps have ended. An exception of the engine ends every sweep that has begun, and so does a
        ``KeyboardInterrupt`` that training itself raises."""
        while group.begin():
            try:
                self._engine.execute(group)
            except (Exception, KeyboardInterrupt) as error:
                if not group.throw(error):
                    raise

    def _campaigns(self, attempt: Attempt) -> SweepCampaigns:
        """Run a sweep from its specification to its answer, and yield its campaigns."""
        try:
            attempt.answer = yield from self._answer(attempt)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001
            # Keep the other sweeps running. check_answered raises this exception later.
            attempt.error = _error_of_gone_directory(attempt, error) or error
        if attempt.ended is not None:
            attempt.ended(attempt)

    def _answer(self, attempt: Attempt) -> Generator[Campaign, None, Answer]:
        """Run a sweep with the present code, which is held until its end, and return its answer."""
        if self._invocation.limit.is_over:
            raise SweepError("not started: the command reached its time limit")
        attempt.announce()
        with LOCK, ExitStack() as code:
            spec = attempt.spec.refreshed()
            code.enter_context(sweep_of((spec.family, *spec.probes)))
            held = code.pop_all()
        with held:
            return (yield from self._answer_with(spec, attempt))

    def _answer_with(self, spec: SweepSpec, attempt: Attempt) -> Generator[Campaign, None, Answer]:
        """Create a sweep of the present code, or find the sweep to resume. Then train it and return its answer."""
        options = attempt.options
        invocation = self._invocation
        home = Home(options.home.resolve())
        remember_code(spec)
        # The command line has checked all sweeps before the first began. That may be days ago.
        check_startable(spec, options, invocation.hardware)
        earlier = find_earlier(spec, home, options)
        prepare_home(spec, home, options)
        resumed = earlier.resumed
        extended = earlier.extended
        if earlier.warning:
            log.warning(earlier.warning)
        if extended is not None:
            spec = continued_spec(spec, extended)
        # A resumed sweep has run for some time, so it does not stop because of its record.
        open_tracker = open_record(home, options, must_answer=resumed is None)
        spec = choose_stacks(spec, self._machine)
        self._begin_engine(spec)
        if is_closed(self._console):
            raise SweepError("the program that reads this output ended before the sweep began: nothing was started")
        sweep = create(spec, home, options, extended) if resumed is None else update_settings(resumed, spec)
        attempt.sweep = sweep
        if invocation.begun is not None:
            invocation.begun(sweep)
        log.info(f"sweep {sweep.id}{', which trains every run again' if sweep.fresh else ''}")
        drive = Drive(self._engine, StackSizes(spec, self._machine), options, invocation.limit, self._view)
        return (yield from drive_sweep(sweep, extended, drive, open_tracker))

    def _begin_engine(self, spec: SweepSpec) -> None:
        """Start the engine unless it has started, and log where the stacks of a sweep will train. Raises ``UserError``
        if no machine has room for them."""
        if not self._is_engine_on:
            self._cleanup.enter_context(self._engine)
            self._is_engine_on = True
        described = self._engine.describe(spec.resources)
        if described != self._described:
            log.info(described)
        self._described = described

    def _stopped_text(self, reason: str) -> str:
        """Return a message that the sweeps have stopped, with the commands that resume them."""
        messages = [
            stopped_text(attempt.sweep.id, f"{reason}. Finished runs are kept", attempt.options)
            for attempt in self._attempts
            if attempt.sweep is not None and attempt.is_live
        ]
        return "\n".join(messages)


def _error_of_gone_directory(attempt: Attempt, error: BaseException) -> SweepError | None:
    """Return an error that says that a sweep's directory is gone, or None if it is still there. What failed first
    depends on the engine and the moment."""
    if attempt.sweep is None or isinstance(error, (SweepError, KeyboardInterrupt)):
        return None
    directory = attempt.sweep.files.directory
    if directory.is_dir():
        return None
    gone = SweepError(
        f"{directory} was moved or removed while its sweep trained. Move it back, and continue with --resume"
    )
    gone.__cause__ = error
    return gone
