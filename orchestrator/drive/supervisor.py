"""Watches over the program that drives a sweep: says what died, and goes on by itself where that can be.

The driver may be killed for want of memory; Ray's core ends its process when the cluster's head, or the node's own
daemon, no longer answers. The journal is safe whatever dies, so all that is left to do is to resume.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from orchestrator.errors import SweepError
from orchestrator.store.files import Home
from orchestrator.supervised import LINE
from orchestrator.terminal.outcry import INTERRUPTED

STARTS = 3
"""How often a sweep is gone on with by itself."""
READ_S = 2.0
"""How long the last words of a program that has ended are waited for."""
SHOW_CURSOR = "\x1b[?25h"
"""A live view that was killed has left it hidden."""


@dataclass
class Ending:
    """How a program ended: its exit code, negative for a signal, and all that it told (``orchestrator.supervised``).
    ``asked`` is whether somebody had asked it to stop."""

    code: int
    asked: bool
    told: dict[str, Any] = field(default_factory=dict)

    @property
    def regular(self) -> bool:
        """Whether it came to its own end, or was asked to stop."""
        return "ended" in self.told or self.asked

    @property
    def drove(self) -> bool:
        """Whether it came so far as to drive a sweep."""
        return "sweep" in self.told

    @property
    def cut_short(self) -> bool:
        """Whether it was asked to stop, and has said nothing of a sweep: it was asked twice, or Ray, asked as well, was
        gone first, or it had not come to the sweep."""
        return self.asked and not (self.drove and "ended" in self.told)

    @property
    def failed_before_it_drove(self) -> bool:
        """Whether it failed by itself on the way there: a new Ray may not start on a machine that is still busy with
        what killed the last one."""
        return self.told.get("ended") == 1 and not self.drove and not self.asked

    @property
    def exit_code(self) -> int:
        """Its own, where it came to its own end; else as shells have it."""
        if "ended" in self.told:
            return int(self.told["ended"])
        if self.asked:
            return INTERRUPTED
        return self.code if self.code >= 0 else 128 - self.code

    @property
    def cause(self) -> str:
        """What died."""
        if "died" in self.told:
            return str(self.told["died"])
        if "ended" in self.told:
            return "the new start failed, as said above"
        if self.code < 0:
            return f"the program that drives the sweep was killed ({signal.Signals(-self.code).name})"
        return f"Ray ended the program that drives the sweep (exit code {self.code}): its cluster no longer answers"


def supervise(arguments: Sequence[str], say: Callable[[str], object]) -> int:
    """Run the program with these arguments in a process of its own; its exit code.

    Where it dies, ``say`` is told what did and how many runs are kept. On the machine's own Ray the sweep goes on with
    a new one, up to :data:`STARTS` times; on a cluster (``--address``) only what to do is said.
    """
    given = list(arguments)
    sweep: dict[str, Any] = {}
    with _asks() as asks:
        for start in range(STARTS + 1):
            if asks.numbers:
                if sweep:
                    say(f"asked to stop before the new start; {_kept_words(sweep)}. {_again(sweep)}")
                return INTERRUPTED
            ending = _run(given, asks)
            failed_again = bool(sweep) and ending.failed_before_it_drove
            sweep = ending.told if ending.drove else sweep
            if ending.regular and not failed_again:
                if sweep and ending.cut_short:
                    say(f"asked to stop, the sweep has ended at once; {_kept_words(sweep)}. {_again(sweep)}")
                return ending.exit_code
            if sys.stderr.isatty():
                sys.stderr.write(SHOW_CURSOR)
            if not sweep:
                say(f"{ending.cause}, before a sweep was begun: start it again")
                return 1
            kept = f"{ending.cause}; {_kept_words(sweep)}"
            if _on_cluster(given) or start == STARTS:
                why = "" if start < STARTS else f" It has died {start + 1} times."
                say(f"{kept}.{why} {_again(sweep)}")
                return 1
            say(f"{kept}. Going on with a new Ray ({start + 1} of {STARTS}).")
            given = resuming(arguments, "" if sweep.get("several") else sweep["sweep"])
    raise AssertionError("the last start returns")


def resuming(arguments: Sequence[str], sweep_id: str) -> list[str]:
    """The same arguments with ``--resume``, without what only a new sweep can be asked."""
    kept: list[str] = []
    words = iter(arguments)
    for word in words:
        if word in ("--extend", "--resume"):
            following = next(words, "")
            if following.startswith("-"):  # --resume alone
                kept.append(following)
        elif word != "--fresh" and not word.startswith(("--extend=", "--resume=")):
            kept.append(word)
    return [*kept, f"--resume={sweep_id}"]


def _run(arguments: Sequence[str], asks: Asks) -> Ending:
    """Run this very program with these arguments, to its end."""
    ours, theirs = socket.socketpair()
    program = sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv) + 1]
    with theirs:
        # A group of its own: what is typed at the terminal reaches it once, through this process.
        child = subprocess.Popen(
            [sys.executable, *program, *arguments],
            env=os.environ | {LINE: str(theirs.fileno())},
            pass_fds=[theirs.fileno()],
            process_group=0,
        )
    told: dict[str, Any] = {}
    listener = threading.Thread(target=_listen, args=(ours, told), daemon=True)
    listener.start()
    with asks.handed_to(ours):
        code = child.wait()
    listener.join(READ_S)
    ours.close()
    return Ending(code, bool(asks.numbers), dict(told))


def _listen(line: socket.socket, told: dict[str, Any]) -> None:
    """Remember all that is told; of the same thing, the later word."""
    with line.makefile("r", encoding="utf-8") as lines:
        for each in lines:
            told.update(json.loads(each))


class Asks:
    """What asks this process to stop, ``numbers`` of signals. Each is handed, once, to the program that it watches
    over, as soon as there is one: not as a signal, which may have reached that as well
    (:func:`orchestrator.supervised.asked`)."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self._waiting: deque[int] = deque()
        self._line: socket.socket | None = None

    def handle(self, number: int, frame: FrameType | None) -> None:
        """The handler of these signals."""
        self.numbers.append(number)
        self._waiting.append(number)
        self._hand_on()

    @contextmanager
    def handed_to(self, line: socket.socket) -> Iterator[None]:
        """A block in which the program at the other end of a line lives."""
        self._line = line
        self._hand_on()
        try:
            yield
        finally:
            self._line = None

    def _hand_on(self) -> None:
        """A signal may come in the middle of this, and then hand on what this was about to."""
        with suppress(IndexError, OSError):  # All are handed on; the program has ended.
            while self._line is not None:
                self._line.sendall(bytes([self._waiting.popleft()]))


@contextmanager
def _asks() -> Iterator[Asks]:
    """A block in which this process does not end when it is asked to stop."""
    asks = Asks()
    before = {number: signal.signal(number, asks.handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asks
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _kept_words(sweep: Mapping[str, Any]) -> str:
    """How many runs of a sweep are kept."""
    return f"{_kept(Path(sweep['home']), sweep['sweep'])} runs of {sweep['sweep']} are kept"


def _again(sweep: Mapping[str, Any]) -> str:
    """How to go on with a sweep."""
    return f"Continue with the same command and --resume {sweep['sweep']}"


def _kept(home: Path, sweep_id: str) -> int:
    """The runs in a sweep's journal; 0 where it cannot be read."""
    from orchestrator.store import lifecycle  # A second, in which a program that nothing happens to would wait.

    try:
        return len(lifecycle.recall(Home(home).sweep(sweep_id)).ended)
    except (OSError, SweepError):
        return 0


def _on_cluster(arguments: Sequence[str]) -> bool:
    return any(word == "--address" or word.startswith("--address=") for word in arguments)
