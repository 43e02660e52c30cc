"""Compiles the steps of the next sizes in another process while this one trains, so that a GPU does not wait for them.

The result reaches this process through the compiler's cache. Compilation runs in a separate program, because
other threads cannot use the device while a step is recorded.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from orchestrator.engine.campaign import Campaign
from orchestrator.engine.runs import RunState
from orchestrator.home.files import SweepDirectory, scratch
from orchestrator.home.sweeps import load_sweep
from orchestrator.search.base import Request
from orchestrator.stacks import FULL, Stack, Ticket

log = logging.getLogger(__name__)

NICENESS = 5
"""Training comes first: a GPU that waits for its process costs more than a step that is compiled later."""
STOP_S = 5.0
"""Seconds for the process to end once it is asked to."""


class CompilesAhead:
    """Has the steps of a campaign compiled one after the other, those of waiting runs first, then of the nearest sizes.

    A context manager: the process ends with the block. It does nothing for a family that does not compile.
    """

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        spec = campaign.sweep.spec
        self._compiles = spec.make_family().compiles(spec.resources.device)
        self._shapes: set[str] = set()
        """Shapes that trained here or were compiled ahead."""
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = scratch(spec.resources.scratch) / f"ahead-{os.getpid()}.txt"
        self._size = 0
        """The size that is being compiled, or was last."""

    def __enter__(self) -> CompilesAhead:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_S)
            self._process.kill()
            self._process.wait()
        self._errors.unlink(missing_ok=True)

    def look(self, stack: Stack) -> None:
        """Start the next compilation if none is under way. ``stack`` is the one in training."""
        self._shapes.add(stack.tickets[0].shape)
        if not self._compiles or (self._process is not None and self._process.poll() is None):
            return
        self._warn()
        ticket = next((one for one in self._tickets(stack) if one.shape not in self._shapes), None)
        if ticket is not None:
            self._shapes.add(ticket.shape)
            try:
                self._start(ticket)
            except OSError as error:
                log.warning(f"no size can be compiled ahead, so first stacks start later: {error}")
                self._compiles = False

    def _tickets(self, stack: Stack) -> Iterator[Ticket]:
        """Yield runs of other sizes in the order in which they are likely to train.

        Only stacks are compiled ahead: a run that trains alone has a version of its own.
        """
        campaign, spec = self._campaign, self._campaign.sweep.spec
        waiting = [run.ticket for run in campaign.table.in_state(RunState.WAITING)]
        sizes = list(spec.sizes)
        here = stack.tickets[0].config.size
        place = sizes.index(here) if here in sizes else 0
        nearest = sorted(sizes, key=lambda size: abs(sizes.index(size) - place))
        others = (campaign.ticket(Request(spec.baseline.name, size, spec.seed)) for size in nearest)
        for ticket in (*waiting, *others):
            if campaign.sizing.most(ticket.config.size) > 1:
                yield ticket

    def _start(self, ticket: Ticket) -> None:
        """Start a process that compiles the step of a run. A session of its own keeps the terminal's Ctrl-C from it."""
        self._size = ticket.config.size
        words = [str(self._campaign.sweep.files.directory), json.dumps(asdict(ticket.request))]
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, *words],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )

    def _warn(self) -> None:
        """Report a compilation that failed. Its size is compiled when it trains, and fails there if it cannot be."""
        if self._process is not None and self._process.returncode:
            lines = self._errors.read_text(errors="replace").strip().splitlines() or ["no output"]
            log.warning(f"size {self._size} could not be compiled ahead, so its first stack starts later: {lines[-1]}")
        self._process = None


def main(arguments: Sequence[str]) -> None:
    """Compile the step of a run: its sweep's directory and its request. To make its learner is to compile it."""
    import torch

    os.nice(NICENESS)
    files = SweepDirectory(Path(arguments[0]))
    spec = load_sweep(files.home, files.id).spec
    config = spec.config(Request.from_json(json.loads(arguments[1])))
    torch.set_num_threads(1)
    if spec.resources.device == "cuda":  # Stacks leave this much of the memory.
        torch.cuda.set_per_process_memory_fraction(1 - FULL)
    spec.make_family().learner([config, config], device=spec.resources.device, cache=scratch(spec.resources.scratch))


if __name__ == "__main__":
    main(sys.argv[1:])
