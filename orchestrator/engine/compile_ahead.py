"""Compiles the steps of the next sizes in another process, so that a GPU does not wait for the compiler.

The training process finds the result in the compiler's cache. Compiling needs a separate process, because threads of
the training process cannot use the device while a training step is recorded as a CUDA graph.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from contextlib import AbstractContextManager, suppress

from orchestrator.engine.work import Work
from orchestrator.jobs.plan import Job, Stack, SweepSetup
from orchestrator.jobs.resources import FULL
from orchestrator.system.environment import scratch
from trainables.contract.finder import serve
from trainables.contract.user_code import path_of_children

NICENESS = 5
"""Niceness of the compiling process. A delay of training would cost more than a step that is compiled later."""


class AheadCompiler(AbstractContextManager["AheadCompiler"]):
    """Compiles the steps of a sweep one at a time: first for waiting runs, then for the nearest sizes.

    The context manager ends the process on exit. It does nothing for a family that does not compile.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._compiling: dict[str, bool] = {}
        """True if the family of a sweep compiles, by the sweep's id."""
        self._shapes: set[tuple[str, str]] = set()
        """Families and shapes that were trained here or compiled ahead."""
        self._process: subprocess.Popen[bytes] | None = None

    def __exit__(self, *raised: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def compile_next(self, stack: Stack, setup: SweepSetup) -> None:
        """Start the next compilation if none is running. If it fails, the size is compiled again when it trains, and
        any error is raised there.

        Args:
            stack: The stack in training.
            setup: Setup of the stack's sweep.
        """
        family = setup.family.name
        self._shapes.add((family, stack.jobs[0].shape))
        if not self._compiles(setup) or (self._process is not None and self._process.poll() is None):
            return
        self._process = None
        job = next((job for job in self._work.likely_next(stack) if (family, job.shape) not in self._shapes), None)
        if job is not None:
            self._shapes.add((family, job.shape))
            with suppress(OSError):  # If the process cannot start, the size is compiled when it trains.
                self._process = self._start(job, setup)

    def _compiles(self, setup: SweepSetup) -> bool:
        """Return True if the family of a sweep compiles its steps."""
        if setup.sweep_id not in self._compiling:
            self._compiling[setup.sweep_id] = setup.family.make().compiles(setup.resources.device)
        return self._compiling[setup.sweep_id]

    def _start(self, job: Job, setup: SweepSetup) -> subprocess.Popen[bytes]:
        """Start a process that compiles the step of a job, and return it."""
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__],
            env={**os.environ, "PYTHONPATH": path_of_children()},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # So that the terminal's Ctrl-C does not reach it.
        )
        assert process.stdin is not None
        with process.stdin as pipe, suppress(BrokenPipeError):
            pipe.write(pickle.dumps(setup.code) + pickle.dumps((setup, job.run)))
        return process


def main() -> None:
    """Compile the step of a run by making its learner. The parent process writes the setup and the run to stdin."""
    import torch

    os.nice(NICENESS)
    # The code comes first and separately, because the rest can only be unpickled once the family can be imported.
    serve(pickle.load(sys.stdin.buffer))
    setup, run = pickle.load(sys.stdin.buffer)
    resources = setup.resources
    torch.set_num_threads(1)
    if resources.device == "cuda":  # Stacks leave this share of the memory unused.
        torch.cuda.set_per_process_memory_fraction(1 - FULL)
    # Two runs, because a single run uses a different step.
    setup.family.make().learner([run, run], device=resources.device, cache=scratch(resources.scratch))


if __name__ == "__main__":
    main()
