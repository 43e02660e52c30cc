"""An engine without Ray: one stack after another in this very process, for stepping through with a debugger."""

from __future__ import annotations

import traceback
from types import TracebackType
from typing import Self

from orchestrator.engine.base import Engine, job_of, take_in
from orchestrator.engine.campaign import Campaign
from orchestrator.engine.worker import StackWorker


class LocalEngine(Engine):
    """One slot: this process. A stack that raises fails at once, without a retry."""

    def __init__(self, home: str) -> None:
        self._home = home

    @property
    def slots(self) -> int:
        return 1

    def describe(self) -> str:
        return "this process alone (--local-debug), without Ray"

    def execute(self, campaign: Campaign) -> None:
        while not campaign.done:
            stack = campaign.next_stack()
            if stack is None:
                continue
            requests = tuple(ticket.request for ticket in stack.tickets)
            try:
                worker = StackWorker(job_of(campaign.sweep, self._home, stack.id, requests))
                while not worker.done and not campaign.stopping:
                    for report in worker.advance():
                        take_in(campaign, report)
            except Exception:  # Whatever a trainable raises is its failure, as it would be in another process.
                campaign.stack_failed(stack.id, traceback.format_exc())
            else:
                campaign.stack_ended(stack.id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None
