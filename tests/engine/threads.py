"""An engine that keeps every demand except one: its slots are threads of a process, so two stacks share generators."""

from __future__ import annotations

import time
import traceback
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from orchestrator.engine.engine import Engine
from orchestrator.engine.messages import StackReport
from orchestrator.engine.work import Work
from orchestrator.engine.worker import StackWorker
from orchestrator.jobs.resources import Resources

WAIT_S = 0.02
"""Seconds to wait for reports before the campaign is asked again."""


class ThreadEngine(Engine):
    """Trains two stacks at once in threads of this process."""

    def __init__(self) -> None:
        self._training: dict[Future[StackReport], tuple[str, StackWorker]] = {}

    def slots(self, resources: Resources) -> int:
        return 2

    def describe(self, resources: Resources) -> str:
        return "two threads of this process"

    def execute(self, work: Work) -> None:
        with ThreadPoolExecutor(2) as pool:
            try:
                while self._training or not work.done:
                    self._fill(work, pool)
                    ready = wait(self._training, WAIT_S, FIRST_COMPLETED).done
                    if not self._training:
                        time.sleep(WAIT_S)
                    for future in ready:
                        self._take(work, pool, future)
                    work.poll()
            finally:
                wait(self._training)
                for _, worker in self._training.values():
                    worker.end_learner()

    def _fill(self, work: Work, pool: ThreadPoolExecutor) -> None:
        while (stack := work.next_stack()) is not None:
            worker = StackWorker(work.job(stack))
            self._training[pool.submit(worker.advance)] = stack.id, worker

    def _take(self, work: Work, pool: ThreadPoolExecutor, future: Future[StackReport]) -> None:
        stack_id, worker = self._training[future]
        if (error := future.exception()) is not None:
            del self._training[future]
            work.stack_failed(stack_id, "".join(traceback.format_exception(error)))
            return
        work.handle_report(stack_id, future.result())
        del self._training[future]
        if worker.done or work.should_end(stack_id):
            worker.close()
            work.stack_ended(stack_id)
        else:
            self._training[pool.submit(worker.advance)] = stack_id, worker
