"""An engine without Ray: one stack after another in this very process, for stepping through with a debugger."""

from __future__ import annotations

import logging
import threading
import time
import traceback

from orchestrator.engine.base import StackJob
from orchestrator.engine.campaign import Campaign
from orchestrator.engine.engine import Engine
from orchestrator.engine.worker import StackWorker

log = logging.getLogger(__name__)

WAIT_S = 0.01
"""Between two questions for a stack, when there is none to start yet."""


class LocalEngine(Engine):
    """One slot: this process. A stack that raises fails at once, without a retry."""

    def __init__(self) -> None:
        self._beginning = False
        """True while a stack is on its way to its first evaluation: data are made, or loaded."""
        self._thread = 0
        """The thread that trains."""

    @property
    def slots(self) -> int:
        return 1

    def describe(self) -> str:
        return "this process alone (--engine local), without Ray"

    def execute(self, campaign: Campaign) -> None:
        self._thread = threading.get_ident()
        while not campaign.done:
            stack = campaign.next_stack()
            if stack is None:
                time.sleep(WAIT_S)
                continue
            error = self._train(campaign, campaign.job(stack))
            if error:
                campaign.stack_failed(stack.id, error)
            else:
                campaign.stack_ended(stack.id)
        campaign.check_machine()

    def interrupted(self) -> None:
        """Leave a stack that has nothing to keep, wherever it is: making its data may take minutes."""
        if self._beginning and threading.get_ident() == self._thread:
            raise KeyboardInterrupt

    def _train(self, campaign: Campaign, job: StackJob) -> str:
        """Train a stack to its end, or until the campaign stops, and leave a checkpoint then; the traceback of what its
        family raised, or ``""``."""
        worker: StackWorker | None = None
        while not campaign.stopping and not campaign.given_up(job.stack_id) and not (worker and worker.done):
            try:
                worker = worker or StackWorker(campaign.sweep.spec, job)
                self._beginning = not campaign.state.has_shown(job.stack_id)
                report = worker.advance()
            except KeyboardInterrupt:
                if not campaign.stopping:
                    raise
                return ""  # Wherever it was: nothing of it is whole.
            except Exception:  # noqa: BLE001 - in a process of its own it would be that process's failure, too
                return traceback.format_exc()
            finally:
                self._beginning = False
            campaign.take_in(job.stack_id, report)
            campaign.look()
        if worker:
            _close(worker)
        return ""


def _close(worker: StackWorker) -> None:
    try:
        worker.close()
    except Exception as error:  # noqa: BLE001 - the sweep stops whatever a family raises here, or a full disk
        log.warning(f"no checkpoint could be written, so that its runs go on from an earlier one: {error}")
