"""Ways to stop a sweep so that it can be resumed: signals, the time limit, requests, machine errors, a dead engine."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from types import FrameType
from typing import NoReturn

from orchestrator.engine.campaign import Campaign, Observer
from orchestrator.engine.engine import Engine
from orchestrator.engine.group import Group
from orchestrator.home.directories import SweepDirectory
from orchestrator.search.base import BY_HAND
from orchestrator.space.runs import Run
from orchestrator.sweep.invocation import Invocation, TimeLimit
from orchestrator.sweep.run_options import RunOptions
from orchestrator.sweep.study_plan import StudyPlan
from orchestrator.system.errors import INTERRUPTED, SweepError
from orchestrator.system.machine_errors import machine_error_text

log = logging.getLogger(__name__)

AT_ONCE_S = 1.0
"""Signals within this many seconds count as one. A closed terminal, for example, sends two."""
POLL_EVERY_S = 0.5
"""Seconds between checks for requests from other processes, and for a dead engine."""
TERMINALS = [descriptor for descriptor in (1, 2) if os.isatty(descriptor)]
"""Which of stdout and stderr are terminals. This cannot be found after the terminal is lost."""


def stop_signals() -> list[signal.Signals]:
    """Return the signals that stop a sweep: Ctrl-C, a batch system's notice, and a lost terminal without ``nohup``."""
    lost = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGINT, signal.SIGTERM, *lost]


def _leave_terminal() -> None:
    """Discard further output to the terminal, because it is lost and writing would raise an error."""
    null = os.open(os.devnull, os.O_WRONLY)
    for descriptor in TERMINALS:
        os.dup2(null, descriptor)
    os.close(null)


def _end_process(message: str, code: int) -> NoReturn:
    """End the process, print a message, and show the cursor, which a live view hides."""
    cursor = "\x1b[?25h\n" if os.isatty(2) else ""
    # Not to sys.stderr, which rich replaces during a live view.
    with suppress(OSError):
        os.write(2, f"{cursor}error: {message}\n".encode())
    os._exit(code)


@contextmanager
def stop_on_interrupt(
    group: Group, engine: Engine, invocation: Invocation, stopped: Callable[[str], str]
) -> Iterator[None]:
    """Handle the signals of :func:`stop_signals` during the block.

    The first signal stops all campaigns: each stack trains to its next evaluation and saves a checkpoint. A second
    signal ends the process immediately, and so does a dead engine (on the command line). Finished runs are never lost:
    they are in the journal or on disk, and a resumed sweep adopts them. Python delivers signals only to the main
    thread, so in other threads this handles no signals.

    Args:
        group: The campaigns to stop.
        engine: The engine that trains them.
        invocation: The command. It specifies whether the process may be ended for a dead engine.
        stopped: Function that returns the last message of the process, given the reason.
    """
    interrupter = _Interrupter(group, engine, stopped)
    if invocation.owns_process:
        threading.Thread(target=interrupter.watch_engine, name="engine", daemon=True).start()
    in_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, interrupter.handle) for number in stop_signals()} if in_main else {}
    try:
        yield
    finally:
        interrupter.over.set()
        for number, handler in before.items():
            # None means that a C library set the handler, which Python cannot restore.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


class _Interrupter:
    """Handles signals and watches the engine during :func:`stop_on_interrupt`.

    Attributes:
        over: Set at the end of the block. Ray is then ended on purpose, so its end is no longer an error.
    """

    def __init__(self, group: Group, engine: Engine, stopped: Callable[[str], str]) -> None:
        self.over = threading.Event()
        self._group = group
        self._engine = engine
        self._stopped = stopped
        self._signaled_at = -AT_ONCE_S
        self._stopping = False
        """True after the first signal."""

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: stop all campaigns, or end the process at the second signal."""
        if number == signal.SIGHUP:
            _leave_terminal()
        before = self._signaled_at
        self._signaled_at = time.monotonic()
        if self._signaled_at - before < AT_ONCE_S:
            return
        campaigns = self._group.campaigns
        # A user who presses Ctrl-C while all sweeps stop for another reason does not want to wait. After a machine
        # error, the stop may have begun without the user's knowledge, so the first signal stops as usual.
        if self._stopping or (self._group.stopping and not any(campaign.machine_error for campaign in campaigns)):
            _end_process(self._stopped("it was interrupted twice"), INTERRUPTED)
        self._stopping = True
        self._group.interrupt()
        if message := _stopping_text(*campaigns):
            # In another thread, because the signal may arrive while a line is being printed.
            threading.Thread(target=log.info, args=(message,), daemon=True).start()

    def watch_engine(self) -> None:
        """End the process if the engine dies. The main thread could wait for a dead engine for minutes."""
        while not self.over.wait(POLL_EVERY_S):
            if (death := self._engine.death()) and not self.over.is_set():
                _end_process(self._stopped(death), INTERRUPTED if self._stopping else 1)


def _stopping_text(*campaigns: Campaign) -> str:
    """Return what a stop of these campaigns means for the stacks in training, or an empty string if there are none."""
    stacks = sum(campaign.table.busy for campaign in campaigns)
    if not stacks:
        return ""
    if not all(campaign.runs_resume for campaign in campaigns):
        ends = f"{stacks} runs end at their next evaluations" if stacks > 1 else "the run ends at its next evaluation"
        begins = "They begin" if stacks > 1 else "It begins"
        return f"Stopping: {ends}. {begins} again when the sweep continues. Press Ctrl-C again to stop now."
    saves = (
        f"{stacks} stacks will save checkpoints by their next evaluations"
        if stacks > 1
        else "the stack in training will save a checkpoint by its next evaluation"
    )
    return f"Stopping: {saves}. Press Ctrl-C again to stop now and lose the training since the last checkpoint."


@contextmanager
def stop_on_machine_error(files: SweepDirectory, options: RunOptions) -> Iterator[None]:
    """Convert a disk error of this machine to a :class:`SweepError` with the command that resumes the sweep."""
    try:
        yield
    except OSError as error:
        message = machine_error_text(error, files.directory)
        if not message:
            raise
        raise SweepError(stopped_text(files.id, f"{message}. Finished runs are kept", options)) from error


def stopped_text(sweep_id: str, reason: str, options: RunOptions, *, is_refused: bool = False) -> str:
    """Return a message that a sweep has stopped, with the reason and the command that resumes it.

    If the resumed sweep ``is_refused``, because the script's code has changed, return the command of a new sweep.
    """
    stopped = f"{sweep_id} has stopped: {reason}."
    if not is_refused:
        return f"{stopped} Continue with\n{options.resumed(sweep_id)}"
    line = f" with\n{options.line}" if options.space else ""
    return f"{stopped} With the present code, --resume would be refused. Begin a new sweep{line}"


class SweepObserver(Observer):
    """Stops the campaign of a sweep, or one of its mixes, at the time limit or if another process asks for it.

    Subclasses show the campaign.
    """

    def __init__(self, campaign: Campaign, plan: StudyPlan, limit: TimeLimit, *, only_whole: bool = False) -> None:
        """Follow a campaign. With ``only_whole``, during tuning, requests to stop a mix wait until the search."""
        self._campaign = campaign
        self._plan = plan
        self._limit = limit
        self._only_whole = only_whole
        self._handled = 0
        """Number of stop requests that were handled."""
        self._polled_at = -POLL_EVERY_S

    def poll(self) -> None:
        now = time.monotonic()
        if now - self._polled_at < POLL_EVERY_S or self._campaign.stopping:
            return
        self._polled_at = now
        if self._limit.is_over:
            self._limit.stopped = True
            self._stop()
        requests = self._campaign.files.stop_requests()
        for mix in requests[self._handled :]:
            if not mix:
                log.info(f"A stop of {self._campaign.files.id} was requested")
                self._stop()
            elif not self._only_whole:
                log.info(f"{mix} was {BY_HAND}: it gets no more runs, and its finished runs are kept")
                self._plan.stop(mix)
                self._campaign.drop_unwanted()
        self._handled = len(requests)

    def ended(self, run: Run) -> None:
        """Handle a run that ended and was stored. This base class does nothing."""

    def shown(self) -> AbstractContextManager[object]:
        """Return a context in which the campaign is shown while it trains. This base class shows nothing."""
        return nullcontext()

    def _stop(self) -> None:
        self._campaign.stopping = True
        if message := _stopping_text(self._campaign):
            log.info(message)
