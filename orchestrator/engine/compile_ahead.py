"""Compile the steps of the next sizes in another process, so that a GPU does not wait for the compiler.

The compiler's cache passes the result to the training process. A separate program compiles because threads of the same
process cannot use the device while a training step is recorded as a CUDA graph.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict
from pathlib import Path

from orchestrator.engine.campaign import Campaign
from orchestrator.engine.run_table import RunState
from orchestrator.home.directories import SweepDirectory
from orchestrator.home.sweeps import load_sweep
from orchestrator.machine.resources import FULL
from orchestrator.search.base import Request
from orchestrator.stacks import Stack, Ticket
from orchestrator.system.environment import scratch

NICENESS = 5
"""Niceness of the compiling process. Delaying training costs more than compiling a step later."""


class CompilesAhead(AbstractContextManager["CompilesAhead"]):
    """Compiles the steps of a campaign one at a time: waiting runs first, then the nearest sizes. The context manager
    ends the process on exit. It does nothing for a family that does not compile."""

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        spec = campaign.sweep.spec
        self._compiles = spec.make_family().compiles(spec.resources.device)
        self._shapes: set[str] = set()
        """Shapes that trained here or were compiled ahead."""
        self._process: subprocess.Popen[bytes] | None = None

    def __exit__(self, *raised: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def look(self, stack: Stack) -> None:
        """Start the next compilation if none is running. ``stack`` is the stack in training.

        If a size cannot be compiled, it is compiled again when it trains, and any error is raised there.
        """
        self._shapes.add(stack.tickets[0].shape)
        if not self._compiles or (self._process is not None and self._process.poll() is None):
            return
        self._process = None
        ticket = next((one for one in self._tickets(stack) if one.shape not in self._shapes), None)
        if ticket is not None:
            self._shapes.add(ticket.shape)
            with suppress(OSError):  # Without it, the size is compiled when it trains.
                self._process = self._started(ticket)

    def _tickets(self, stack: Stack) -> Iterator[Ticket]:
        """Yield runs of other sizes, most likely to train first. Sizes that train one run at a time are skipped,
        because a single run uses a different compiled step."""
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

    def _started(self, ticket: Ticket) -> subprocess.Popen[bytes]:
        """Compile the step of a run in a new process. Its new session keeps the terminal's Ctrl-C away."""
        words = [str(self._campaign.sweep.files.directory), json.dumps(asdict(ticket.request))]
        return subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, *words],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def main(arguments: Sequence[str]) -> None:
    """Compile the step of a run by making its learner. Arguments are the sweep's directory and the request (JSON)."""
    import torch

    os.nice(NICENESS)
    files = SweepDirectory(Path(arguments[0]))
    spec = load_sweep(files.home, files.id).spec
    config = spec.config(Request.from_json(json.loads(arguments[1])))
    torch.set_num_threads(1)
    if spec.resources.device == "cuda":  # The share of memory that stacks do not use.
        torch.cuda.set_per_process_memory_fraction(1 - FULL)
    spec.make_family().learner([config, config], device=spec.resources.device, cache=scratch(spec.resources.scratch))


if __name__ == "__main__":
    main(sys.argv[1:])
