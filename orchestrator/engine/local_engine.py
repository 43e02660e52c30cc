"""Engine without Ray for a single GPU or a debugger. It trains one stack after another in this process.

On a GPU, another process compiles the next sizes in the meantime (compile_ahead.py).
"""

from __future__ import annotations

import logging
import time
import traceback

from orchestrator.engine.campaign import Campaign
from orchestrator.engine.compile_ahead import CompilesAhead
from orchestrator.engine.device_errors import ends_device
from orchestrator.engine.engine import Engine
from orchestrator.engine.messages import DeviceLostError
from orchestrator.engine.worker import StackWorker
from orchestrator.jobs.plan import Stack

log = logging.getLogger(__name__)

WAIT_S = 0.01
"""Seconds before asking the campaign again for a stack."""


class LocalEngine(Engine):
    """Trains in this process, which is the only slot. A stack that raises an exception fails without a retry."""

    slots = 1

    def describe(self) -> str:
        return "this process alone (--engine local), without Ray"

    def execute(self, campaign: Campaign) -> None:
        with CompilesAhead(campaign) as ahead:
            while not campaign.done:
                stack = campaign.next_stack()
                if stack is None:
                    time.sleep(WAIT_S)
                else:
                    self._train(campaign, stack, ahead)

    def _train(self, campaign: Campaign, stack: Stack, ahead: CompilesAhead) -> None:
        worker = StackWorker(campaign.setup, campaign.job(stack))
        try:
            self._train_with(worker, campaign, stack, ahead)
        except BaseException:  # Of the driver: nothing that a learner started may outlive the sweep.
            worker.end_learner()
            raise

    def _train_with(self, worker: StackWorker, campaign: Campaign, stack: Stack, ahead: CompilesAhead) -> None:
        while not (campaign.is_over(stack.id) or worker.done):
            ahead.look(stack)
            try:
                report = worker.advance()
            except DeviceLostError as error:
                campaign.stack_met_machine_error(stack.id, str(error), can_retry=False)
                return
            except Exception as error:  # noqa: BLE001 - a separate process would fail in the same way
                campaign.stack_failed(stack.id, traceback.format_exc())
                if ends_device(error):
                    campaign.engine_met_machine_error(f"after the error of a run, this process lost its GPU ({error})")
                return
            campaign.take_in(stack.id, report)
            campaign.look()
        try:
            worker.close()
        except Exception as error:  # noqa: BLE001 - the sweep stops although a family or a full disk raises here
            log.warning(f"could not write a checkpoint, so this stack will resume from an earlier one: {error}")
        campaign.stack_ended(stack.id)
