"""Contract of an engine, which trains the stacks of one or more campaigns."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager

from orchestrator.engine.work import Work
from orchestrator.jobs.resources import Resources


class Engine(AbstractContextManager["Engine"]):
    """Trains stacks. It is a context manager that acquires its resources on entry and releases them on exit.

    The :class:`Work` is a campaign or a group of campaigns. It decides which stack trains next and whether a stack is
    retried, and it stores results. The engine places stacks on machines. Without error handling, an engine with one
    slot in the driver's process is this loop::

        while not work.done:
            stack = work.next_stack()
            if stack is None:  # Nothing can start yet, for example during the pause before a retry.
                time.sleep(0.01)
                continue
            worker = StackWorker(work.job(stack))  # From engine/worker.py.
            while not (worker.done or work.should_end(stack.id)):
                work.handle_report(stack.id, worker.advance())
                work.poll()
            worker.close()
            work.stack_ended(stack.id)

    The work belongs to one thread of the driver. A worker may be in another process, even on another machine: its job
    and its reports can be pickled. A process that :mod:`multiprocessing` did not start calls
    :func:`trainables.contract.finder.serve` with the ``code`` of the setup before it opens a job. The work asks for
    the engine's :meth:`slots` whenever it chooses a stack, so their number may change. Every engine meets these
    demands:

    1. *Take reports in order.* Pass each report of ``StackWorker.advance`` to :meth:`Work.handle_report`, once, before
       the worker advances again. Checkpoints then never contain more than the campaign knows.
    2. *End every stack in exactly one way.* Every stack that was taken ends with one call, before its next stack is
       taken in the same slot:

       - ``stack_ended`` after the worker is ``done`` or was closed early. A report with ``halves``, ``needs_gpus``,
         ``machine_error`` or ``broken`` also makes the worker ``done``: the campaign has queued its runs again, and
         waits for this call to free the slot.
       - ``stack_moved`` if the worker saved a checkpoint and left (``StackWorker.leave``), for example before a
         preemption.
       - ``stack_failed``, with the traceback, if the worker raised an exception or its process exited on its own.
       - ``stack_met_machine_error`` if the process was killed, its node is lost, or it raised ``DeviceLostError``.
         These errors are not the run's fault, so they must not become failures.

       ``engine_met_machine_error`` ends all stacks at once.
    3. *End stacks that are not wanted.* After each report, end the stack early if :meth:`Work.should_end` is true.
    4. *Poll often.* Call :meth:`Work.poll` after each report and while no stack can start. It handles stops and the
       live view.
    5. *Fill the slots.* While stacks wait, as many train at once as there are :meth:`slots`: start each stack that
       :meth:`Work.next_stack` returns, until it returns None. The work counts the stacks that have not ended.
    6. *Close every worker before* :meth:`execute` *returns.* ``StackWorker.close`` saves the checkpoint of an
       unfinished stack. If it raises an exception, log it and end the stack as usual: the stack continues from an
       earlier checkpoint. Work that stops is ``done`` immediately, while its stacks still train: wait until the
       current ``advance`` of each worker returns (seconds later, or at the next evaluation), pass its report on, and
       close the worker. A stack without progress may be killed instead (:meth:`Work.may_be_killed`).
    7. *Leave no worker if the work raises an exception.* The work may not have handled the last reports, so save no
       checkpoint: call ``StackWorker.end_learner`` instead of ``close``, or terminate the process so that it does.
       Then let the exception leave :meth:`execute`.
    8. *Train one stack at a time in a process.* Families may seed global random generators, and a worker sets the
       threads and the GPU memory of its process. So slots cannot be threads.

    The suite tests/engine/suite.py checks these demands on any engine; tests/engine/processes.py is an example.
    """

    @abstractmethod
    def slots(self, resources: Resources) -> int:
        """Return the number of stacks with these resources that can train at the same time now, at least 1."""

    @abstractmethod
    def describe(self, resources: Resources) -> str:
        """Return a description of the machines that train stacks with these resources.

        Raises:
            UserError: if no machine has room for such a stack.
        """

    @abstractmethod
    def execute(self, work: Work) -> None:
        """Train until ``work.done`` is true and all stacks have ended. The demands of this class apply.

        Raises:
            SweepError: if the engine itself fails.
        """

    def death(self) -> str:
        """Return how the engine died, or an empty string while it lives. Any thread may call this method.

        It exists because :meth:`execute` may wait for minutes before it notices that the engine died.
        """
        return ""

    def __exit__(self, *raised: object) -> None:
        return
