"""Engine without Ray, for a single GPU or a debugger. It trains one stack after another in this process.

On a GPU, another process compiles the steps of the next sizes in the meantime (compile_ahead.py).
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable

from orchestrator.engine.compile_ahead import AheadCompiler
from orchestrator.engine.device_errors import ends_device
from orchestrator.engine.engine import Engine
from orchestrator.engine.messages import DeviceLostError
from orchestrator.engine.work import Work
from orchestrator.engine.worker import StackWorker
from orchestrator.jobs.plan import Stack
from orchestrator.jobs.resources import Resources

log = logging.getLogger(__name__)

WAIT_S = 0.01
"""Seconds to wait before asking for a stack again."""


class LocalEngine(Engine):
    """Trains in this process, which is the only slot. A stack that raises an exception is not retried."""

    def slots(self, resources: Resources) -> int:
        return 1

    def describe(self, resources: Resources) -> str:
        return "this process alone (--engine local), without Ray"

    def execute(self, work: Work) -> None:
        with AheadCompiler(work) as ahead:
            while not work.done:
                stack = work.next_stack()
                if stack is None:
                    time.sleep(WAIT_S)
                else:
                    self._train(work, stack, ahead)

    def _train(self, work: Work, stack: Stack, ahead: AheadCompiler) -> None:
        job = work.job(stack)
        worker = StackWorker(job)
        try:
            self._train_with(worker, work, stack, lambda: ahead.compile_next(stack, job.setup))
        except BaseException:  # For example a second Ctrl-C. Processes of the learner must not outlive the sweep.
            worker.end_learner()
            raise

    def _train_with(self, worker: StackWorker, work: Work, stack: Stack, prepare: Callable[[], None]) -> None:
        """Train a stack to its end. ``prepare`` is called before each step."""
        while not (work.should_end(stack.id) or worker.done):
            prepare()
            try:
                report = worker.advance()
            except DeviceLostError as error:
                # A retry would need a new process.
                work.stack_met_machine_error(stack.id, str(error), can_retry=False)
                return
            except Exception as error:  # noqa: BLE001 - a separate process would fail in the same way
                work.stack_failed(stack.id, traceback.format_exc())
                # The failure is the run's, but no other run can train in this process after it.
                if ends_device(error):
                    work.engine_met_machine_error(f"after the error of a run, this process lost its GPU ({error})")
                return
            work.handle_report(stack.id, report)
            work.poll()
        try:
            worker.close()
        except Exception as error:  # noqa: BLE001 - the stack ends anyway, and continues from an earlier checkpoint
            log.warning(f"could not write a checkpoint, so this stack will resume from an earlier one: {error}")
        work.stack_ended(stack.id)
