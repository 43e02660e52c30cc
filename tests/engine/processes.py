"""A third engine, written by the contract alone: each stack trains in a process of this machine.

It is the example for a new engine. The suite also runs copies of it, each with one bug (test_engines.py).
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING

from orchestrator.engine.engine import Engine
from orchestrator.engine.messages import DeviceLostError, StackJob, StackReport
from orchestrator.engine.work import Work
from orchestrator.jobs.plan import Stack
from orchestrator.jobs.resources import Resources

if TYPE_CHECKING:
    from orchestrator.engine.worker import StackWorker

WAIT_S = 0.02
"""Seconds to wait for reports before the campaign is asked again."""
CONTEXT = multiprocessing.get_context("forkserver")  # Its server imports torch once.
CONTEXT.set_forkserver_preload(["orchestrator.engine.worker", "tests.scripted"])


@dataclass(frozen=True)
class Reply:
    """A worker's answer: a report and whether the worker is ``done``, or how training ended."""

    report: StackReport | None = None
    done: bool = False
    failed: str = ""
    lost: str = ""


@dataclass
class Worker:
    """A process with a stack in training."""

    stack_id: str
    process: BaseProcess
    pipe: Connection


class ProcessEngine(Engine):
    """Trains up to ``slots`` stacks at once."""

    def __init__(self, slots: int = 2) -> None:
        self._slots = slots
        self._workers: list[Worker] = []

    def slots(self, resources: Resources) -> int:
        return self._slots

    def describe(self, resources: Resources) -> str:
        return f"{self._slots} processes"

    def execute(self, work: Work) -> None:
        try:
            while not work.done:
                work.poll()
                self._fill(work)
                self._take_replies(work)
            while self._workers:  # A campaign that stops is done at once: its stacks still train to an evaluation.
                self._take_replies(work)
        finally:
            self._end_all()

    def _fill(self, work: Work) -> None:
        while (stack := work.next_stack()) is not None:
            self._start(work, stack)

    def _start(self, work: Work, stack: Stack) -> None:
        here, there = CONTEXT.Pipe()
        process = CONTEXT.Process(target=train, args=(there, work.job(stack)), daemon=True)
        process.start()
        there.close()
        worker = Worker(stack.id, process, here)
        self._workers.append(worker)
        self._advance(worker)

    def _take_replies(self, work: Work) -> None:
        ready = wait([worker.pipe for worker in self._workers], WAIT_S)
        for worker in [worker for worker in self._workers if worker.pipe in ready]:
            self._take(work, worker)

    def _take(self, work: Work, worker: Worker) -> None:
        try:
            reply: Reply = worker.pipe.recv()
        except (EOFError, ConnectionError):
            self._close(worker)
            self._died(work, worker)
            return
        if reply.failed or reply.lost:
            self._close(worker)
            self._failed(work, worker, reply)
            return
        assert reply.report is not None
        work.handle_report(worker.stack_id, reply.report)
        work.poll()
        if reply.done or work.should_end(worker.stack_id):
            self._close(worker)
            work.stack_ended(worker.stack_id)
        else:
            self._advance(worker)

    def _died(self, work: Work, worker: Worker) -> None:
        work.stack_met_machine_error(worker.stack_id, "a training process died")

    def _failed(self, work: Work, worker: Worker, reply: Reply) -> None:
        if reply.lost:
            work.stack_met_machine_error(worker.stack_id, reply.lost)
        else:
            work.stack_failed(worker.stack_id, reply.failed, retries=1)

    def _advance(self, worker: Worker) -> None:
        with suppress(ConnectionError):  # If it died, reading from the pipe says so.
            worker.pipe.send("advance")

    def _end_all(self) -> None:
        """End the workers that are left after an exception of the work."""
        for worker in list(self._workers):
            worker.process.terminate()
            self._close(worker)

    def _close(self, worker: Worker) -> None:
        """End a worker, which leaves a checkpoint if its stack is unfinished."""
        self._workers.remove(worker)
        with suppress(ConnectionError):
            worker.pipe.send("close")
        worker.process.join()
        worker.pipe.close()


def train(pipe: Connection, job: StackJob) -> None:
    """Train a stack at the other end's command."""
    from orchestrator.engine.worker import StackWorker

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to handle.
    worker = StackWorker(job)
    signal.signal(signal.SIGTERM, lambda *_: _end(worker))
    while _receive(pipe) == "advance":
        try:
            report = worker.advance()
            reply = Reply(report, worker.done)
        except DeviceLostError as error:
            reply = Reply(lost=str(error))
        except Exception:  # noqa: BLE001 - training is foreign code and may raise anything
            reply = Reply(failed=traceback.format_exc())
        pipe.send(reply)
    worker.close()


def _end(worker: StackWorker) -> None:
    """End the process and whatever the learner started."""
    worker.end_learner()
    os._exit(1)


def _receive(pipe: Connection) -> str:
    """Return the next command, or "close" if the driver has ended."""
    try:
        return str(pipe.recv())
    except EOFError:
        return "close"
