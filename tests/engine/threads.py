"""An engine that keeps every demand except one: its slots are threads of a process, so two stacks share generators."""

from __future__ import annotations

import time
import traceback
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from orchestrator.engine.campaign import Campaign
from orchestrator.engine.engine import Engine
from orchestrator.engine.messages import StackReport
from orchestrator.engine.worker import StackWorker

WAIT_S = 0.02
"""Seconds to wait for reports before the campaign is asked again."""


class ThreadEngine(Engine):
    """Trains two stacks at once in threads of this process."""

    slots = 2

    def __init__(self) -> None:
        self._training: dict[Future[StackReport], tuple[str, StackWorker]] = {}

    def describe(self) -> str:
        return "two threads of this process"

    def execute(self, campaign: Campaign) -> None:
        with ThreadPoolExecutor(self.slots) as pool:
            try:
                while self._training or not campaign.done:
                    self._fill(campaign, pool)
                    ready = wait(self._training, WAIT_S, FIRST_COMPLETED).done
                    if not self._training:
                        time.sleep(WAIT_S)
                    for future in ready:
                        self._take(campaign, pool, future)
                    campaign.look()
            finally:
                wait(self._training)
                for _, worker in self._training.values():
                    worker.end_learner()

    def _fill(self, campaign: Campaign, pool: ThreadPoolExecutor) -> None:
        while len(self._training) < self.slots and (stack := campaign.next_stack()) is not None:
            worker = StackWorker(campaign.setup, campaign.job(stack))
            self._training[pool.submit(worker.advance)] = stack.id, worker

    def _take(self, campaign: Campaign, pool: ThreadPoolExecutor, future: Future[StackReport]) -> None:
        stack_id, worker = self._training[future]
        if (error := future.exception()) is not None:
            del self._training[future]
            campaign.stack_failed(stack_id, "".join(traceback.format_exception(error)))
            return
        campaign.take_in(stack_id, future.result())
        del self._training[future]
        if worker.done or campaign.is_over(stack_id):
            worker.close()
            campaign.stack_ended(stack_id)
        else:
            self._training[pool.submit(worker.advance)] = stack_id, worker
