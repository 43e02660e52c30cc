"""Ways to end a sweep that can be resumed: Ctrl-C (a second one ends the process), the end of its time, a request from
elsewhere, a machine error."""

from __future__ import annotations

import os
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from orchestrator.engine.base import Engine, MachineError
from orchestrator.engine.campaign import Campaign
from orchestrator.errors import SweepError
from orchestrator.home.driving import check_held
from orchestrator.home.files import SweepFiles
from orchestrator.home.machine import trouble_words
from orchestrator.home.notes import StopRequest, asked_to_stop
from orchestrator.report.words.numbers import duration
from orchestrator.search.base import BY_HAND
from orchestrator.supervisor import INTERRUPTED

AT_ONCE_S = 1.0
"""A signal that is sent to all processes comes twice: directly, and through the parent."""


class TimeLimit:
    """The time that a sweep may take from now on: ``seconds``, or None without a limit."""

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds
        self.reached = False

    @property
    def said(self) -> str:
        """A sentence if the sweep has stopped for this, else ``""``."""
        return f"the {duration(self._seconds)} that it was given are over" if self.reached and self._seconds else ""

    def timer(self) -> threading.Timer | None:
        """A timer that sends this process SIGTERM, for the main thread to handle, when the time is over."""
        if self._end is None:
            return None

        def over() -> None:
            self.reached = True
            os.kill(os.getpid(), signal.SIGTERM)

        timer = threading.Timer(max(0.0, self._end - time.monotonic()), over)
        timer.daemon = True
        timer.start()
        return timer


@contextmanager
def stop_on_interrupt(stop: Callable[[], None], limit: TimeLimit) -> Iterator[None]:
    """While the block runs, SIGINT and SIGTERM call ``stop``, and so does the end of the time limit; a second one ends
    the process at once. Those within :data:`AT_ONCE_S` count as one.

    Even then no finished run is lost: it is in the journal, or on disk beside it.
    """
    last = -AT_ONCE_S
    stopping = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal last, stopping
        before, last = last, time.monotonic()
        if last - before < AT_ONCE_S:
            return
        if stopping:
            os._exit(INTERRUPTED)
        stopping = True
        stop()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    timer = limit.timer()
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)


def stopper(campaign: Campaign, engine: Engine, say: Callable[[str], object]) -> Callable[[], None]:
    """A function that stops a campaign for an interruption: each stack comes to its next evaluation and leaves a
    checkpoint there. ``say`` is called in a thread of its own: a signal may come in the middle of a line."""

    def stop() -> None:
        campaign.stopping = True
        stacks = len({each.stack_id for each in campaign.training.values()})
        if stacks:
            threading.Thread(target=say, args=(_stopping_words(stacks),), daemon=True).start()
        engine.interrupted()

    return stop


def _stopping_words(stacks: int) -> str:
    many = f"{stacks} stacks leave checkpoints at their next evaluations"
    what = many if stacks > 1 else "the stack in training leaves a checkpoint at its next evaluation"
    return f"Stopping: {what}; Ctrl-C again ends at once, and costs what was trained since the last checkpoints"


@contextmanager
def stop_on_trouble(files: SweepFiles, again: Command) -> Iterator[None]:
    """A block that turns a machine error, of the driver or of an engine, into a :class:`SweepError` with the command
    that resumes the sweep."""
    try:
        yield
    except MachineError as error:
        raise SweepError(stopped_words(files.directory.name, f"{error}. What finished is kept", again)) from error
    except OSError as error:
        trouble = trouble_words(error, files.directory)
        if not trouble:
            raise
        raise SweepError(stopped_words(files.directory.name, f"{trouble}. What finished is kept", again)) from error


@dataclass(frozen=True)
class Command:
    """The command that began a sweep, for a person to repeat: its line, or words in its place. ``several``: it asks for
    the variants of a space, which are resumed together."""

    line: str = "the same command and"
    several: bool = False

    def resumed(self, sweep_id: str) -> str:
        """The command that continues the sweep."""
        return f"{self.line} --resume" if self.several else f"{self.line} --resume {sweep_id}"

    def asking(self, variant: str, overrides: Sequence[str], extended: str = "") -> str:
        """The same with other values; with the id of a sweep it begins with that sweep's runs."""
        chosen = ["--variant", variant] if self.several else []
        changed = [word for override in overrides for word in ("--set", override)]
        reused = ["--extend", extended] if extended else []
        return f"{self.line} {shlex.join([*chosen, *changed, *reused])}"


def stopped_words(sweep_id: str, why: str, again: Command) -> str:
    """A sentence that a sweep has stopped, with the reason and the command that resumes it."""
    return f"{sweep_id} has stopped: {why}; continue then with\n{again.resumed(sweep_id)}"


LOOK_EVERY_S = 0.5
"""Seconds between two looks for requests from elsewhere."""


class StopRequests:
    """Carries out what people ask of a sweep that is driven here (:mod:`orchestrator.home.notes`), each once.

    ``stop`` stops the whole campaign. While a sweep's settings are tuned nothing less can be stopped (``whole``): what
    is asked of a mix or run is done when the sweep begins.
    """

    def __init__(
        self, campaign: Campaign, stop: Callable[[], None], say: Callable[[str], object], *, whole: bool = False
    ) -> None:
        self._campaign = campaign
        self._files = SweepFiles(campaign.sweep.directory)
        self._stop = stop
        self._say = say
        self._whole = whole
        self._done = 0
        self._looked_at = -LOOK_EVERY_S

    def look(self) -> None:
        """Called often, from the driver's thread. Raises ``OSError`` (a machine error) if another machine has taken the
        sweep over."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_EVERY_S or self._campaign.stopping:
            return
        self._looked_at = now
        check_held(self._files)
        asked = asked_to_stop(self._files)
        for each in asked[self._done :]:
            self._carry_out(each)
        self._done = len(asked)

    def _carry_out(self, asked: StopRequest) -> None:
        if not (asked.mix or asked.key):
            self._say("Asked to stop")
            self._stop()
        elif self._whole:
            return
        elif asked.mix:
            self._say(f"{asked.mix} is {BY_HAND}: no more of its runs are trained; those that ended stay")
            self._campaign.stop_mix(asked.mix)
        elif not self._campaign.stop_run(asked.key):
            self._say(f"run {asked.key} was to stop, and is not in training")
