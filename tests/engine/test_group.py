"""Several campaigns share the slots of an engine."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from orchestrator.engine.campaign import Campaign
from orchestrator.engine.engine import Engine
from orchestrator.engine.group import Group, SweepCampaigns
from orchestrator.engine.job_queue import OneByOne
from orchestrator.engine.local_engine import LocalEngine
from orchestrator.engine.messages import RunReport, StackReport
from orchestrator.engine.ray.engine import RayEngine
from orchestrator.engine.ray.session import RaySession
from orchestrator.engine.work import Work
from orchestrator.history.sweeps import create_sweep
from orchestrator.home.directories import Home
from orchestrator.jobs.job_list import JobList
from orchestrator.jobs.plan import Job, Stack, SweepSetup, job_of
from orchestrator.jobs.resources import Resources
from tests.engine.processes import ProcessEngine
from tests.engine.suite import CHECKS, Bench, campaign_of
from tests.engine.test_campaign import GOOD
from tests.scripted import FAMILY, ScriptedFamily, ScriptedSettings, trained
from tests.sweep.sweeps import scripted
from trainables.base import Arm, Status
from trainables.families import FamilySource

every_check = pytest.mark.parametrize("check", CHECKS, ids=[check.__name__ for check in CHECKS])


class InGroup(Engine):
    """An engine that trains each campaign in a group, after the first stacks of another campaign."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __enter__(self) -> InGroup:
        self._engine.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._engine.__exit__(*raised)

    def slots(self, resources: Resources) -> int:
        return self._engine.slots(resources)

    def describe(self, resources: Resources) -> str:
        return self._engine.describe(resources)

    def execute(self, work: Work) -> None:
        assert isinstance(work, Campaign)
        home = Path(tempfile.mkdtemp())
        other = campaign_of(create_sweep(scripted(home / "log", {"steps": 3}), Home(home)))
        group = Group([only(other), only(work)], self.slots)
        while group.begin():
            self._engine.execute(group)
        assert other.flaws == []
        assert trained(home / "log") == {"add 8 0": 1, "add 16 0": 1}


def only(campaign: Campaign) -> SweepCampaigns:
    """Return a sweep with one campaign."""
    yield campaign


def local(resources: Resources) -> Engine:
    return InGroup(LocalEngine())


@every_check
def test_the_local_engine_keeps_the_contract_with_a_group(check: Callable[[Bench], None], tmp_path: Path) -> None:
    check(Bench(local, tmp_path / "home", in_driver=True))


@every_check
def test_processes_keep_the_contract_with_a_group(check: Callable[[Bench], None], tmp_path: Path) -> None:
    check(Bench(lambda _: InGroup(ProcessEngine()), tmp_path / "home"))


@pytest.mark.night
@every_check
def test_ray_keeps_the_contract_with_a_group(
    check: Callable[[Bench], None], tmp_path: Path, session: RaySession
) -> None:
    check(Bench(lambda _: InGroup(RayEngine(session)), tmp_path / "home"))


@pytest.mark.slow
def test_idle_processes_of_one_sweep_do_not_keep_another_waiting(tmp_path: Path, session: RaySession) -> None:
    """The second sweep needs all cores for each of its stacks, and the first has processes that hold one each."""
    sweeps = []
    with RayEngine(session) as engine:
        cores = engine.slots(Resources(cpu_per_stack=1))
        for name, cpus in (("narrow", 1), ("wide", cores), ("narrow again", 1)):
            space = scripted(tmp_path / name, {"steps": 2}, resources={"max_stack": 1, "cpu_per_stack": cpus})
            sweeps.append(campaign_of(create_sweep(space, Home(tmp_path / "home"))))
        group = Group([only(campaign) for campaign in sweeps], engine.slots)
        while group.begin():
            engine.execute(group)
    for campaign in sweeps:
        assert campaign.flaws == []
        assert {run.outcome.status for run in campaign.table.values() if run.outcome} == {Status.FINISHED}


class Narrow(JobList):
    """A list that wants at most ``width`` jobs at the same time."""

    width = 99

    def ask(self, room: int, ending: Collection[str] = ()) -> list[Job]:
        given = len(self._jobs) - len(self._next)
        return super().ask(min(room, self.width - (given - len(self.outcomes))))


class Sweeps:
    """Sweeps of a home, each a list of runs, and a group of them whose workers are this test.

    Attributes:
        campaigns: Campaigns that have begun, by the id of the sweep.
        ended: Ids of the sweeps that have ended, in this order.
    """

    def __init__(self, home: Path, slots: Callable[[Resources], int]) -> None:
        self._home = Home(home)
        self._slots = slots
        self._sweeps: list[SweepCampaigns] = []
        self.campaigns: dict[str, Campaign] = {}
        self.plans: dict[str, Narrow] = {}
        self.ended: list[str] = []

    def add(
        self, name: str, *, seeds: int = 20, first: int = 0, width: int = 99, cpus: float = 1, log: str = ""
    ) -> None:
        """Add a sweep of runs with some seeds, from ``first`` on."""
        settings = ScriptedSettings(log=log, steps=2)
        family = ScriptedFamily(settings)
        runs = [family.config(Arm.parse("add"), 8, seed) for seed in range(first, first + seeds)]
        plan = self.plans[name] = Narrow(job_of(family, run) for run in runs)
        plan.width = width
        files = self._home.sweep(name)
        source = FamilySource(FAMILY, settings)
        resources = Resources(cpu_per_stack=cpus)
        setup = SweepSetup(name, str(files.directory), source, family.version, "", False, (), resources)

        def sweep() -> SweepCampaigns:
            with files.driving():
                files.journal.touch()
                campaign = Campaign(files, setup, plan, slots=self._slots, sizing=OneByOne())
                self.campaigns[name] = campaign
                yield campaign
            self.ended.append(name)

        self._sweeps.append(sweep())

    def group(self) -> Group:
        group = Group(self._sweeps, self._slots)
        assert group.begin()
        return group


def fill(group: Group) -> list[Stack]:
    """Start stacks until no slot is idle."""
    started = []
    while (stack := group.next_stack()) is not None:
        started.append(stack)
    return started


def owners(stacks: list[Stack]) -> Counter[str]:
    return Counter(stack.id.partition("/")[0] for stack in stacks)


def end(group: Group, stack: Stack) -> None:
    """Report the end of the only run of a stack, and of the stack."""
    group.handle_report(stack.id, StackReport((RunReport(stack.jobs[0].key, None, GOOD),)))
    group.stack_ended(stack.id)


def test_a_sweep_begins_when_those_before_it_leave_a_slot_idle(tmp_path: Path) -> None:
    sweeps = Sweeps(tmp_path, lambda _: 6)
    sweeps.add("a", width=2)
    sweeps.add("b", first=100)
    sweeps.add("c", first=200)
    assert owners(fill(sweeps.group())) == {"a": 2, "b": 4}
    assert sweeps.campaigns.keys() == {"a", "b"}
    assert {name: campaign.at_once for name, campaign in sweeps.campaigns.items()} == {"a": 2, "b": 4}


def test_an_idle_slot_goes_to_the_sweep_with_the_fewest(tmp_path: Path) -> None:
    sweeps = Sweeps(tmp_path, lambda _: 6)
    sweeps.add("a", width=1)
    sweeps.add("b", first=100)
    started = fill(group := sweeps.group())
    assert owners(started) == {"a": 1, "b": 5}
    sweeps.plans["a"].width = 99
    for stack in [stack for stack in started if stack.id.startswith("b/")]:
        assert owners(fill(group)) == {}
        end(group, stack)
        assert sweeps.campaigns["a"].at_once == len(sweeps.campaigns["a"].stacks) + 1
        started += fill(group)
    assert len(sweeps.campaigns["a"].stacks) == len(sweeps.campaigns["b"].stacks) == 3


def test_sweeps_take_turns_on_one_slot(tmp_path: Path) -> None:
    sweeps = Sweeps(tmp_path, lambda _: 1)
    sweeps.add("a", width=0, seeds=4)
    sweeps.add("b", first=100, seeds=6)
    group = sweeps.group()
    order = ""
    while (stacks := fill(group)) or not group.done:
        [stack] = stacks
        order += stack.id[0]
        end(group, stack)
        if order == "bb":
            sweeps.plans["a"].width = 1
    assert order == "bbabababab"
    assert sweeps.ended == ["a", "b"]


def test_stacks_of_several_kinds_share_the_machine_by_what_they_use(tmp_path: Path) -> None:
    sweeps = Sweeps(tmp_path, lambda resources: int(8 / resources.cpu_per_stack))
    sweeps.add("small", width=5)
    sweeps.add("large", first=100, cpus=2)
    sweeps.add("last", first=200)
    assert owners(fill(sweeps.group())) == {"small": 5, "large": 1, "last": 1}
    assert {name: campaign.at_once for name, campaign in sweeps.campaigns.items()} == {
        "small": 5,
        "large": 1,
        "last": 1,
    }


def test_a_broken_sweep_ends_alone_and_after_its_workers(tmp_path: Path) -> None:
    sweeps = Sweeps(tmp_path, lambda _: 2)
    sweeps.add("a", width=1, seeds=3)
    sweeps.add("b", first=100, seeds=3)
    first, second = fill(group := sweeps.group())
    group.handle_report(first.id, StackReport(broken="the family broke its contract"))
    group.poll()
    assert sweeps.ended == []
    assert group.should_end(first.id)
    assert not group.should_end(second.id)
    group.stack_ended(first.id)
    group.poll()
    assert sweeps.ended == ["a"]
    assert not group.done
    end(group, second)
    assert owners(fill(group)) == {"b": 2}
    assert (sweeps.campaigns["b"].broken, sweeps.campaigns["b"].machine_error) == ("", "")


def test_what_stops_the_engine_stops_all_sweeps_and_no_other_begins(tmp_path: Path) -> None:
    sweeps = Sweeps(tmp_path, lambda _: 2)
    sweeps.add("a", width=1)
    sweeps.add("b", first=100)
    sweeps.add("c", first=200)
    stacks = fill(group := sweeps.group())
    group.stop("Ray died")
    assert group.done
    assert group.machine_error == "Ray died"
    assert all(map(group.should_end, group.stacks))
    assert all(map(group.may_be_killed, group.stacks))
    for stack in stacks:
        group.stack_ended(stack.id)
    assert not group.begin()
    assert sweeps.ended == ["a", "b"]
    assert {campaign.machine_error for campaign in sweeps.campaigns.values()} == {"Ray died"}


def test_a_failure_of_the_engine_retries_the_stacks_that_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.engine.retries.WAITS_S", (0.0,))
    sweeps = Sweeps(tmp_path, lambda _: 2)
    sweeps.add("a", width=1)
    sweeps.add("b", first=100)
    stacks = fill(group := sweeps.group())
    group.engine_met_machine_error("a worker ran short of memory")
    assert group.stacks == []
    assert {stack.id for stack in fill(group)} == {stack.id for stack in stacks}
    group.engine_met_machine_error("again")
    assert group.done
    assert not group.begin()


def test_an_exception_of_the_engine_is_raised_in_every_sweep(tmp_path: Path) -> None:
    raised: list[Exception] = []

    def sweep(campaign: Campaign) -> SweepCampaigns:
        try:
            yield campaign
        except LookupError as error:
            raised.append(error)

    sweeps = Sweeps(tmp_path, lambda _: 2)
    sweeps.add("a", width=1)
    sweeps.add("b", first=100)
    fill(sweeps.group())
    campaigns = sweeps.campaigns.values()
    group = Group(map(sweep, campaigns), lambda _: 99)
    group.begin()
    assert not raised
    assert group.throw(error := LookupError("of the engine"))
    assert raised == [error]
    assert group.done
    assert not group.throw(error)


@pytest.mark.parametrize("engine", [LocalEngine(), ProcessEngine()], ids=["local", "processes"])
def test_sweeps_that_want_the_same_runs_train_each_once(engine: Engine, tmp_path: Path) -> None:
    """While one sweep trains a run, the others wait for its result. They do not wait for each other."""
    sweeps = Sweeps(tmp_path, engine.slots)
    log = tmp_path / "log"
    sweeps.add("a", width=1, seeds=6, log=str(log))
    sweeps.add("b", first=2, seeds=6, log=str(log))
    sweeps.add("c", first=0, seeds=8, log=str(log))
    group = sweeps.group()
    while group.begin():
        engine.execute(group)
    assert trained(log) == {f"add 8 {seed}": 1 for seed in range(8)}
    assert {name: len(plan.outcomes) for name, plan in sweeps.plans.items()} == {"a": 6, "b": 6, "c": 8}
    statuses = {outcome.status for plan in sweeps.plans.values() for outcome in plan.outcomes.values()}
    assert statuses == {Status.FINISHED}


def test_a_run_of_a_sweep_that_stops_is_trained_by_another(tmp_path: Path) -> None:
    sweeps = Sweeps(tmp_path, lambda _: 2)
    sweeps.add("a", width=1, seeds=1)
    sweeps.add("b", seeds=1)
    [stack] = fill(group := sweeps.group())
    group.handle_report(stack.id, StackReport(broken="the family broke its contract"))
    group.stack_ended(stack.id)
    [again] = fill(group)
    assert (stack.jobs, again.jobs) == (again.jobs, stack.jobs)
    assert owners([stack, again]) == {"a": 1, "b": 1}
