"""Ways to end a sweep that can be resumed: Ctrl-C (a second one ends the process), a lost terminal, the end of its
time, a request from elsewhere, a machine error."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

from orchestrator.engine.base import MachineError
from orchestrator.engine.campaign import Campaign
from orchestrator.engine.engine import Engine
from orchestrator.errors import SweepError
from orchestrator.home.files import SweepFiles
from orchestrator.home.machine_errors import trouble_words
from orchestrator.home.stop_requests import StopRequest, asked_to_stop
from orchestrator.search.base import BY_HAND
from orchestrator.signals import leave_terminal, stop_signals, terminal_outputs
from orchestrator.supervisor import INTERRUPTED
from orchestrator.sweep.run_options import RunOptions, TimeLimit

log = logging.getLogger(__name__)

AT_ONCE_S = 1.0
"""A signal that is sent to all processes comes twice: directly, and through the parent."""


@contextmanager
def stop_on_interrupt(stop: Callable[[], None], limit: TimeLimit) -> Iterator[None]:
    """A block during which :func:`stop_signals` and the end of the time limit call ``stop``.

    A second signal ends the process at once; signals within :data:`AT_ONCE_S` count as one. In a thread no signal is
    handled: Python allows that in the main thread alone.

    Even then no finished run is lost: it is in the journal, or on disk, where a resumed sweep adopts it.
    """
    last = -AT_ONCE_S
    stopping = False
    terminals = terminal_outputs()

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal last, stopping
        if number == signal.SIGHUP:
            leave_terminal(terminals)
        before, last = last, time.monotonic()
        if last - before < AT_ONCE_S:
            return
        if stopping:
            os._exit(INTERRUPTED)
        stopping = True
        limit.stopping = True
        stop()

    in_main = threading.current_thread() is threading.main_thread()
    timer = limit.timer(partial(os.kill, os.getpid(), signal.SIGTERM) if in_main else stop)
    before = {number: signal.signal(number, handle) for number in stop_signals()} if in_main else {}
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        for number, handler in before.items():
            # None: a library in C has set it, and only it could do so again.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def stopper(campaign: Campaign, engine: Engine) -> Callable[[], None]:
    """A function that stops a campaign for an interruption: each stack comes to its next evaluation and leaves a
    checkpoint there."""

    def stop() -> None:
        campaign.stopping = True
        stacks = len({each.stack_id for each in campaign.training.values()})
        if stacks:
            # In a thread of its own: a signal may come in the middle of a line.
            threading.Thread(target=log.info, args=(_stopping_words(stacks),), daemon=True).start()
        engine.interrupted()

    return stop


def _stopping_words(stacks: int) -> str:
    many = f"{stacks} stacks leave checkpoints at their next evaluations"
    what = many if stacks > 1 else "the stack in training leaves a checkpoint at its next evaluation"
    return f"Stopping: {what}; the next Ctrl-C ends at once, and costs what was trained since the last checkpoints"


@contextmanager
def stop_on_machine_error(files: SweepFiles, options: RunOptions) -> Iterator[None]:
    """A block that turns a machine error, of the driver or of an engine, into a :class:`SweepError` with the command
    that resumes the sweep."""
    try:
        yield
    except MachineError as error:
        raise SweepError(stopped_words(files.id, f"{error}. What finished is kept", options)) from error
    except OSError as error:
        said = trouble_words(error, files.directory)
        if not said:
            raise
        raise SweepError(stopped_words(files.id, f"{said}. What finished is kept", options)) from error


def stopped_words(sweep_id: str, why: str, options: RunOptions) -> str:
    """A sentence that a sweep has stopped, with the reason and the command that resumes it."""
    return f"{sweep_id} has stopped: {why}; continue then with\n{options.resumed(sweep_id)}"


LOOK_EVERY_S = 0.5
"""Seconds between two looks for requests from elsewhere."""


class StopRequests:
    """Carries out what people ask of a sweep that is driven here (:mod:`orchestrator.home.stop_requests`), each once.

    The whole sweep is stopped as by a signal, so that the next Ctrl-C ends it at once. While a sweep's settings are
    tuned nothing less can be stopped (``whole``): what is asked of a mix or run is done when the sweep begins.
    """

    def __init__(self, campaign: Campaign, *, whole: bool = False) -> None:
        self._campaign = campaign
        self._files = campaign.sweep.files
        self._whole = whole
        self._done = 0
        self._looked_at = -LOOK_EVERY_S

    def look(self) -> None:
        """Carry out new requests. Called often, from the driver's thread."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_EVERY_S or self._campaign.stopping:
            return
        self._looked_at = now
        asked = asked_to_stop(self._files)
        for each in asked[self._done :]:
            self._carry_out(each)
        self._done = len(asked)

    def _carry_out(self, asked: StopRequest) -> None:
        if not (asked.mix or asked.key):
            log.info("Asked to stop")
            if threading.current_thread() is threading.main_thread():
                signal.raise_signal(signal.SIGTERM)
            else:
                self._campaign.stopping = True
        elif self._whole:
            return
        elif asked.mix:
            log.info(f"{asked.mix} is {BY_HAND}: no more of its runs are trained; those that ended stay")
            self._campaign.stop_mix(asked.mix)
        elif not self._campaign.stop_run(asked.key):
            log.info(f"run {asked.key} was to stop, and is not in training")
