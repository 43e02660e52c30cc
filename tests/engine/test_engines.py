"""Every engine keeps the contract of engines, and the suite finds engines that do not."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from unittest.mock import patch

import pytest

from orchestrator.engine.engine import Engine
from orchestrator.engine.local_engine import LocalEngine
from orchestrator.engine.messages import StackReport
from orchestrator.engine.ray.engine import RayEngine
from orchestrator.engine.ray.session import RaySession
from orchestrator.engine.work import Work
from orchestrator.jobs.plan import Job
from orchestrator.jobs.resources import Resources
from tests.engine.processes import ProcessEngine, Reply, Worker
from tests.engine.suite import CHECKS, Bench
from tests.engine.threads import ThreadEngine
from tests.scripted import events

Check = Callable[[Bench], None]
every_check = pytest.mark.parametrize("check", CHECKS, ids=[check.__name__ for check in CHECKS])


def local(resources: Resources) -> LocalEngine:
    return LocalEngine()


@every_check
def test_the_local_engine_keeps_the_contract(check: Check, tmp_path: Path) -> None:
    check(Bench(local, tmp_path / "home", in_driver=True))


@pytest.mark.slow
@every_check
def test_the_ray_engine_keeps_the_contract(check: Check, tmp_path: Path, session: RaySession) -> None:
    check(Bench(lambda resources: RayEngine(session), tmp_path / "home"))


@pytest.mark.slow
def test_ray_keeps_the_processes_of_slots_that_wait(tmp_path: Path, session: RaySession) -> None:
    """A search that waits for both runs of a pair leaves all slots idle, and starting a process takes seconds."""
    bench = Bench(lambda resources: RayEngine(session), tmp_path / "home")
    campaign = bench.begin({"steps": 2, "meet": 2, "pace_s": 0.5}, sizes=[8, 16], seeds=4)
    ask = campaign.plan.ask
    idle_since = time.monotonic()

    def ask_in_pairs(room: int, ending: Collection[str] = ()) -> Sequence[Job]:
        nonlocal idle_since
        now = time.monotonic()
        if any(run.outcome is None for run in campaign.table.values()):
            idle_since = now
        return ask(room, ending) if now - idle_since > 0.5 else []

    with patch.object(campaign.plan, "ask", ask_in_pairs):
        bench.drive(campaign)
    seen = events(bench.log)
    both = {event.process for event in seen}
    assert len(both) == 2
    for seed in range(4):
        assert {event.process for event in seen if event.seed == seed} == both


def processes(resources: Resources) -> ProcessEngine:
    return ProcessEngine()


@every_check
def test_an_engine_from_outside_keeps_the_contract(check: Check, tmp_path: Path) -> None:
    check(Bench(processes, tmp_path / "home"))


class TakesOneStack(ProcessEngine):
    """It has two slots, and trains one stack after another."""

    def _fill(self, work: Work) -> None:
        if not self._workers and (stack := work.next_stack()) is not None:
            self._start(work, stack)


class ReturnsAtAStop(ProcessEngine):
    """When the campaign stops, it drops every stack except the one that reported last."""

    def _take(self, work: Work, worker: Worker) -> None:
        if worker in self._workers:
            super()._take(work, worker)
        if work.stopping:
            for other in self._workers:
                other.process.kill()
            self._workers.clear()


class TrainsAhead(ProcessEngine):
    """Its workers train to the next evaluation while the campaign takes in the last."""

    def _take(self, work: Work, worker: Worker) -> None:
        self._advance(worker)
        super()._take(work, worker)


class KillsWorkers(ProcessEngine):
    """It ends workers without closing them."""

    def _close(self, worker: Worker) -> None:
        worker.process.kill()
        super()._close(worker)


class CountsDeathsAsFailures(ProcessEngine):
    """A killed worker is a failed run to it."""

    def _died(self, work: Work, worker: Worker) -> None:
        work.stack_failed(worker.stack_id, "its process died")


class EndsTwice(ProcessEngine):
    """It reports the end of a stack that a report has ended already."""

    def _failed(self, work: Work, worker: Worker, reply: Reply) -> None:
        super()._failed(work, worker, reply)
        work.stack_ended(worker.stack_id)


class ForgetsTheEnd(ProcessEngine):
    """It does not report the end of a stack whose runs have ended."""

    def _close(self, worker: Worker) -> None:
        super()._close(worker)
        worker.stack_id = "another"


class NeverLooks(ProcessEngine):
    """It handles no stop while its slots are busy."""

    def execute(self, work: Work) -> None:
        with patch.object(work, "poll"):
            super().execute(work)


class TrainsOnUnwanted(ProcessEngine):
    """It does not ask whether a stack is still wanted."""

    def execute(self, work: Work) -> None:
        with patch.object(work, "should_end", return_value=False):
            super().execute(work)


class LosesReports(ProcessEngine):
    """It drops the reports of evaluations after which training goes on."""

    def execute(self, work: Work) -> None:
        handle_report = work.handle_report

        def drop(stack_id: str, report: StackReport) -> None:
            if any(run.outcome for run in report.runs):
                handle_report(stack_id, report)

        with patch.object(work, "handle_report", drop):
            super().execute(work)


class StartsBeforeTheEnd(ProcessEngine):
    """It takes the next stack while one that was left still awaits its end."""

    def _take(self, work: Work, worker: Worker) -> None:
        ended = work.stack_ended

        def later(stack_id: str) -> None:
            self._fill(work)
            ended(stack_id)

        with patch.object(work, "stack_ended", later):
            super()._take(work, worker)


class LeavesProcesses(ProcessEngine):
    """After an exception of the campaign, it leaves its workers alone."""

    def _end_all(self) -> None:
        self._workers.clear()


class SavesLostReports(ProcessEngine):
    """After an exception of the campaign, it closes its workers, which leave checkpoints."""

    def _end_all(self) -> None:
        for worker in list(self._workers):
            self._close(worker)


class IgnoresFailures(ProcessEngine):
    """It trains a stack that has raised an exception again and again."""

    def _failed(self, work: Work, worker: Worker, reply: Reply) -> None:
        work.stack_met_machine_error(worker.stack_id, reply.failed)


BROKEN: tuple[tuple[type[ThreadEngine | ProcessEngine], str], ...] = (
    (TakesOneStack, "fills_its_slots"),
    (ThreadEngine, "fills_its_slots"),
    (ReturnsAtAStop, "stops_at_the_next_evaluation"),
    (TrainsAhead, "stops_at_the_next_evaluation"),
    (KillsWorkers, "stops_at_the_next_evaluation"),
    (CountsDeathsAsFailures, "survives_a_killed_worker"),
    (EndsTwice, "keeps_a_failure_to_its_run"),
    (ForgetsTheEnd, "trains_every_run_once"),
    (NeverLooks, "stops_at_the_next_evaluation"),
    (TrainsOnUnwanted, "ends_a_stack_that_is_not_wanted"),
    (LosesReports, "trains_every_run_once"),
    (StartsBeforeTheEnd, "retries_after_a_full_disk"),
    (LeavesProcesses, "closes_workers_if_the_driver_fails"),
    (SavesLostReports, "saves_nothing_that_was_not_taken_in"),
    (IgnoresFailures, "keeps_a_failure_to_its_run"),
)
"""Engines with one bug each, and the check that finds it."""


@pytest.mark.parametrize(("engine", "name"), BROKEN, ids=[engine.__name__ for engine, _ in BROKEN])
def test_the_suite_finds_a_broken_engine(
    engine: Callable[[], Engine], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.engine.suite.LIMIT_S", 10.0)
    [check] = [check for check in CHECKS if check.__name__ == name]
    with pytest.raises((AssertionError, KeyError)):
        check(Bench(lambda resources: engine(), tmp_path / "home"))
