"""Contract of an engine, which trains the stacks of a campaign."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager

from orchestrator.engine.campaign import Campaign


class Engine(AbstractContextManager["Engine"]):
    """Trains stacks. It is a context manager that acquires its resources on entry and releases them on exit.

    The campaign decides what trains, stores results and retries. The engine places stacks on machines: it takes a stack
    with :meth:`Campaign.next_stack` when a slot is idle, and trains it with a ``StackWorker`` (engine/worker.py) made
    from :attr:`Campaign.setup` and :meth:`Campaign.job`, in any process. The campaign itself is used in one thread of
    the driver only.

    1. *Take reports in order.* Pass each report of ``StackWorker.advance`` to :meth:`Campaign.take_in`, once, before
       the worker advances again. Checkpoints then never contain more than the campaign knows.
    2. *End every stack in exactly one way.* Every stack that was taken ends with one call, before its next stack is
       taken in the same slot:

       - ``stack_ended`` after the worker is ``done`` or was closed early. Call it, too, after a report with ``halves``,
         ``machine_error`` or ``broken``: the campaign has queued the runs again, but waits for the slot.
       - ``stack_failed`` if the worker raised an exception or its process exited by itself, with the traceback.
       - ``stack_met_machine_error`` if the process was killed, its node is lost, or it raised ``DeviceLostError``.
         These say nothing about a run, and must not become failures.

       ``engine_met_machine_error`` ends all stacks at once.
    3. *Ask what is still wanted.* After each report, end the stack early if :meth:`Campaign.is_over` is true.
    4. *Look often.* Call :meth:`Campaign.look` after each report and while no stack can start. It handles stops and the
       live view.
    5. *Fill the slots.* While stacks wait, as many train at once as there are :attr:`slots`.
    6. *Close every worker before* :meth:`execute` *returns or raises.* ``StackWorker.close`` saves the checkpoint of an
       unfinished stack. A campaign that stops is ``done`` at once, while its stacks still train: each trains to its
       next evaluation, which is taken in, and is closed. A stack without progress may be killed instead.

    The suite tests/engine/suite.py checks these demands on any engine.
    """

    @property
    @abstractmethod
    def slots(self) -> int:
        """Number of stacks that can train at the same time, at least 1."""

    @abstractmethod
    def describe(self) -> str:
        """Return a description of the machines that train the stacks."""

    @abstractmethod
    def execute(self, campaign: Campaign) -> None:
        """Train until ``campaign.done`` and all stacks have ended, as the demands of this class say.

        Raises:
            SweepError: if the engine itself fails.
        """

    def death(self) -> str:
        """Return how the engine died, because :meth:`execute` may then wait for minutes, or "" while it lives. This
        method may be called in any thread."""
        return ""

    def __exit__(self, *raised: object) -> None:
        return
