"""Compile the steps of the next sizes in another process, so that a GPU does not wait for the compiler.

The compiler's cache passes the result to the training process. A separate program compiles because threads of the same
process cannot use the device while a training step is recorded as a CUDA graph.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from contextlib import AbstractContextManager, suppress

from orchestrator.engine.work import Work
from orchestrator.jobs.plan import Job, Setup, Stack
from orchestrator.jobs.resources import FULL
from orchestrator.system.environment import scratch
from trainables.contract.finder import serve
from trainables.contract.user_code import path_of_children

NICENESS = 5
"""Niceness of the compiling process. Delaying training costs more than compiling a step later."""


class CompilesAhead(AbstractContextManager["CompilesAhead"]):
    """Compiles the steps of a sweep one at a time: waiting runs first, then the nearest sizes. The context manager
    ends the process on exit. It does nothing for a family that does not compile."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._compiling: dict[str, bool] = {}
        """Whether the family of a sweep compiles, by the sweep's id."""
        self._shapes: set[tuple[str, str]] = set()
        """Families and shapes that trained here or were compiled ahead."""
        self._process: subprocess.Popen[bytes] | None = None

    def __exit__(self, *raised: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def compile_next(self, stack: Stack, setup: Setup) -> None:
        """Start the next compilation if none is running. ``stack`` is the stack in training, and ``setup`` of its job.

        If a size cannot be compiled, it is compiled again when it trains, and any error is raised there.
        """
        family = setup.family.name
        self._shapes.add((family, stack.jobs[0].shape))
        if not self._compiles(setup) or (self._process is not None and self._process.poll() is None):
            return
        self._process = None
        job = next((one for one in self._work.foresee(stack) if (family, one.shape) not in self._shapes), None)
        if job is not None:
            self._shapes.add((family, job.shape))
            with suppress(OSError):  # Without it, the size is compiled when it trains.
                self._process = self._started(job, setup)

    def _compiles(self, setup: Setup) -> bool:
        if setup.sweep_id not in self._compiling:
            self._compiling[setup.sweep_id] = setup.family.make().compiles(setup.resources.device)
        return self._compiling[setup.sweep_id]

    def _started(self, job: Job, setup: Setup) -> subprocess.Popen[bytes]:
        """Compile the step of a job in a new process. Its new session keeps the terminal's Ctrl-C away."""
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__],
            env={**os.environ, "PYTHONPATH": path_of_children()},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert process.stdin is not None
        with process.stdin as pipe, suppress(BrokenPipeError):
            pipe.write(pickle.dumps(setup.code) + pickle.dumps((setup, job.run)))
        return process


def main() -> None:
    """Compile the step of a run by making its learner. The process that started this one writes to its stdin."""
    import torch

    os.nice(NICENESS)
    serve(pickle.load(sys.stdin.buffer))
    setup, run = pickle.load(sys.stdin.buffer)
    resources = setup.resources
    torch.set_num_threads(1)
    if resources.device == "cuda":  # The share of memory that stacks do not use.
        torch.cuda.set_per_process_memory_fraction(1 - FULL)
    setup.family.make().learner([run, run], device=resources.device, cache=scratch(resources.scratch))


if __name__ == "__main__":
    main()
