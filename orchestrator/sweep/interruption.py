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
from orchestrator.system.machine_errors import trouble_words

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


def _end_at_once(message: str, code: int) -> NoReturn:
    """End the process, print a message, and show the cursor, which a live view hides."""
    cursor = "\x1b[?25h\n" if os.isatty(2) else ""  # A live view of rich replaces sys.stderr.
    with suppress(OSError):
        os.write(2, f"{cursor}error: {message}\n".encode())
    os._exit(code)


@contextmanager
def stop_on_interrupt(
    group: Group, engine: Engine, invocation: Invocation, words: Callable[[str], str]
) -> Iterator[None]:
    """During the block, stop all campaigns on the signals of :func:`stop_signals`: each stack trains to its next
    evaluation and leaves a checkpoint. A second signal ends the process at once. On the command line, a dead engine
    also ends the process. ``words`` returns a message with how to resume each sweep, given why they stopped.

    Even then, finished runs are kept, in the journal or on disk, where a resumed sweep adopts them. Outside the main
    thread signals are not handled, because Python does not allow it.
    """
    last = -AT_ONCE_S
    stopping = False
    left = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal last, stopping
        if number == signal.SIGHUP:
            _leave_terminal()
        before, last = last, time.monotonic()
        if last - before < AT_ONCE_S:
            return
        campaigns = group.campaigns
        # A user who presses Ctrl-C while all sweeps stop does not want to wait for them.
        if stopping or (group.stopping and not any(campaign.machine_error for campaign in campaigns)):
            _end_at_once(words("it was interrupted twice"), INTERRUPTED)
        stopping = True
        group.interrupt()
        if line := _stopping_words(*campaigns):
            # In another thread, because the signal may arrive while a line is being printed.
            threading.Thread(target=log.info, args=(line,), daemon=True).start()

    def watch() -> None:
        while not left.wait(POLL_EVERY_S):
            if (died := engine.death()) and not left.is_set():  # After the block, Ray is ended on purpose.
                _end_at_once(words(died), INTERRUPTED if stopping else 1)

    if invocation.owns_process:
        threading.Thread(target=watch, name="engine", daemon=True).start()
    in_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, handle) for number in stop_signals()} if in_main else {}
    try:
        yield
    finally:
        left.set()
        for number, handler in before.items():
            # None means that a C library set the handler, which Python cannot restore.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _stopping_words(*campaigns: Campaign) -> str:
    """Return what a stop of these campaigns means for the stacks in training, or "" if there are none."""
    stacks = sum(campaign.table.busy for campaign in campaigns)
    if not stacks:
        return ""
    if not all(campaign.runs_resume for campaign in campaigns):
        what = f"{stacks} runs in training end" if stacks > 1 else "the run in training ends"
        their = "their next evaluations and begin" if stacks > 1 else "its next evaluation and begins"
        return f"Stopping: {what} at {their} again when the sweep continues; press Ctrl-C again to end at once"
    many = f"{stacks} stacks will write checkpoints, at their next evaluations at the latest"
    what = many if stacks > 1 else "the stack in training will write a checkpoint, at its next evaluation at the latest"
    return f"Stopping: {what}; press Ctrl-C again to end at once and lose the training since the last checkpoints"


@contextmanager
def stop_on_machine_error(files: SweepDirectory, options: RunOptions) -> Iterator[None]:
    """Turn a disk error of this machine into a :class:`SweepError` with the command that resumes the sweep."""
    try:
        yield
    except OSError as error:
        message = trouble_words(error, files.directory)
        if not message:
            raise
        raise SweepError(stopped_words(files.id, f"{message}. Finished runs are kept", options)) from error


def stopped_words(sweep_id: str, why: str, options: RunOptions) -> str:
    """Return a message that a sweep has stopped, with the reason and the command that resumes it."""
    return f"{sweep_id} has stopped: {why}. Continue with\n{options.resumed(sweep_id)}"


class SweepObserver(Observer):
    """Follows the campaign of a sweep. Stops it, or one of its mixes, at the time limit or if another process asks.

    Subclasses show the campaign. With ``only_whole``, during tuning, requests to stop a mix wait until the sweep
    starts.
    """

    def __init__(self, campaign: Campaign, plan: StudyPlan, limit: TimeLimit, *, only_whole: bool = False) -> None:
        self._campaign = campaign
        self._plan = plan
        self._limit = limit
        self._only_whole = only_whole
        self._done = 0
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
        for mix in requests[self._done :]:
            if not mix:
                log.info(f"A stop of {self._campaign.files.id} was requested")
                self._stop()
            elif not self._only_whole:
                log.info(f"{mix} was {BY_HAND}: it gets no more runs, and its finished runs are kept")
                self._plan.stop(mix)
                self._campaign.drop_unwanted()
        self._done = len(requests)

    def ended(self, run: Run) -> None:
        """Handle a run that ended and was stored. This base class does nothing."""

    def shown(self) -> AbstractContextManager[object]:
        """Return a context in which the campaign is shown while it trains. This base class shows nothing."""
        return nullcontext()

    def _stop(self) -> None:
        self._campaign.stopping = True
        if line := _stopping_words(self._campaign):
            log.info(line)
