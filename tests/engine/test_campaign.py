"""A campaign: the order of events, repeats, failures, and stacks that continue from a checkpoint."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from orchestrator.engine.campaign import Campaign
from orchestrator.engine.job_queue import failed
from orchestrator.engine.messages import RunReport, StackReport
from orchestrator.history.journal import Ended, Journal, Stopped, read_journal, read_request, recall
from orchestrator.history.sweeps import Sweep
from orchestrator.home.checkpoints import LEARNER_DIRECTORY, Checkpoints, read_members, read_progress
from orchestrator.home.directories import IMPORTED_MARK, Home, SweepDirectory
from orchestrator.home.run_files import WEIGHTS
from orchestrator.home.run_store import RunStore
from orchestrator.jobs.plan import Job, Stack
from orchestrator.search.base import Request
from orchestrator.space.problem import searcher_of
from orchestrator.space.runs import Run
from orchestrator.space.stack_sizes import StackSizes
from orchestrator.sweep.study_plan import StudyPlan
from orchestrator.system.errors import exception_line
from orchestrator.system.hardware import Hardware
from tests.sweep.sweeps import spec
from trainables.base import Evaluation, Outcome, Status

GOOD = Outcome(Status.FINISHED, 3, {"add": 0.9, "prod": 0.9}, {"add": 0.1, "prod": 0.1})


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return Home(tmp_path).sweep("logistic-1").journal


def make(path: Path, *, slots: int = 2, interrupted: list[Request] | None = None, **changes: object) -> Campaign:
    """Return a campaign of a sweep, which has a checkpoint of these runs."""
    wanted_spec = spec(**({"search": {"method": "grid"}, "sizes": [8, 16], "resources": {"max_stack": 4}} | changes))
    sweep = Sweep(SweepDirectory(path.parent), wanted_spec, "now", {})
    if interrupted:
        with Checkpoints(sweep.files.checkpoints).put("interrupted", list(map(asdict, interrupted))) as checkpoint:
            (checkpoint / LEARNER_DIRECTORY).mkdir()
    sizing = StackSizes(wanted_spec, Hardware(2, 16))
    plan = StudyPlan(sweep, searcher_of(wanted_spec), Journal(path))
    return Campaign(sweep.files, sweep.setup, plan, slots=lambda _: slots, sizing=sizing)


def plan_of(campaign: Campaign) -> StudyPlan:
    assert isinstance(campaign.plan, StudyPlan)
    return campaign.plan


def requests_of(campaign: Campaign, *jobs: Job) -> list[Request]:
    """Return the first request of each job."""
    return [plan_of(campaign).requests(job.key)[0] for job in jobs]


def stop_mix(campaign: Campaign, mix: str) -> None:
    plan_of(campaign).stop(mix)
    campaign.drop_unwanted()


def start(campaign: Campaign) -> Stack:
    stack = campaign.next_stack()
    assert stack is not None
    return stack


def finish(campaign: Campaign, stack: Stack) -> list[Request]:
    """End all runs of a stack, and the stack. Return its requests."""
    requests = requests_of(campaign, *stack.jobs)
    for job in stack.jobs:
        campaign.ended(job.key, GOOD)
    campaign.stack_ended(stack.id)
    return requests


def failures(files: Path) -> list[Outcome | None]:
    """Return the outcomes in the journal, which has those of failed runs."""
    return [entry.failure for entry in read_journal(files) if isinstance(entry, Ended)]


def report(campaign: Campaign, stack_id: str, key: str, evaluation: Evaluation) -> None:
    campaign.handle_report(stack_id, StackReport((RunReport(key, evaluation, None),)))


def test_an_ended_run_reaches_the_journal_then_the_searcher_then_the_observer(files: Path) -> None:
    campaign = make(files)
    stack = start(campaign)
    key = stack.jobs[0].key
    events: list[tuple[int, int]] = []

    def listen(record: Run) -> None:
        assert record.key == key
        events.append((len(list(read_journal(files))), len(plan_of(campaign).searcher.results)))

    plan_of(campaign).on_ended = listen
    campaign.ended(key, GOOD)
    campaign.ended(key, GOOD)
    assert events == [(2, 1)]  # The journal's first line records the requested blocks.


def test_a_failed_stack_is_retried_whole_then_run_by_run_and_a_run_that_fails_alone_is_failed(files: Path) -> None:
    campaign = make(files, slots=1, seeds=3, sizes=[8], mixes=["add"])
    stack = start(campaign)
    campaign.ended(stack.jobs[0].key, GOOD)
    campaign.stack_failed(stack.id, "boom", retries=1)
    again = start(campaign)
    assert again == stack
    assert campaign.job(again).wanted == (1, 2)
    campaign.stack_failed(again.id, "boom", retries=1)
    alone = start(campaign)
    assert alone.jobs == stack.jobs[1:2]
    campaign.stack_failed(alone.id, "Traceback: boom")
    last = start(campaign)
    assert last.jobs == stack.jobs[2:]
    finish(campaign, last)
    assert campaign.done
    assert failures(files) == [None, Outcome(Status.FAILED, 0, {}, {}, error="Traceback: boom"), None]


def test_the_middle_of_a_long_error_is_omitted() -> None:
    """A message may contain a whole batch, and every listing would read it again."""
    error = f"Traceback (most recent call last):\n  File 1\nValueError: bad batch {list(range(100_000))}\n"
    shortened = failed(error).error
    assert len(shortened) < 20_100
    assert shortened.startswith(error[:10_000])
    assert shortened.endswith(error[-10_000:])
    assert f"\n... ({len(error) - 20_000:,} characters) ...\n" in shortened
    assert exception_line(shortened).startswith("ValueError: bad batch [0, 1, 2")
    assert failed("short").error == "short"


def test_a_stack_that_fails_while_the_sweep_stops_is_not_counted_as_failed(files: Path) -> None:
    campaign = make(files, slots=1, seeds=1, sizes=[8], mixes=["add"])
    stack = start(campaign)
    campaign.stopping = True
    campaign.stack_failed(stack.id, "its process was asked to end as well")
    assert failures(files) == []
    assert campaign.next_stack() is None
    assert campaign.done


def test_an_interrupted_stack_is_restarted_whole(files: Path) -> None:
    members = [Request("add", 16, 1), Request("add+prod", 16, 0), Request("add", 16, 0)]
    campaign = make(files, slots=1, interrupted=members)
    stacks = []
    while not campaign.done:
        stacks.append(finish(campaign, start(campaign)))
    assert members in stacks
    trained = [request for stack in stacks for request in stack]
    assert len(trained) == len(set(trained)) == 8


def test_a_run_with_a_checkpoint_does_not_wait_for_its_earlier_phase(files: Path) -> None:
    """Its first phase has been lost since the checkpoint and is being trained again."""
    then = {"name": "then", "phases": [{"mix": "prod"}, {"mix": "add"}]}
    members = [Request("add", 16, 0), Request("then", 16, 0)]
    campaign = make(files, slots=2, interrupted=members, mixes=["add", then], sizes=[16], seeds=1)
    whole, first = start(campaign), start(campaign)
    assert requests_of(campaign, *whole.jobs) == members
    campaign.ended(first.jobs[0].key, GOOD, {WEIGHTS: b""})
    campaign.stack_ended(first.id)
    assert campaign.next_stack() is None
    assert len(campaign.training) == 2


def test_a_run_that_continues_an_imported_phase_is_marked(files: Path) -> None:
    """Another user may have trained the first phase on what the second is asked."""
    then = {"name": "then", "phases": [{"mix": "prod"}, {"mix": "add"}]}
    campaign = make(files, slots=1, mixes=["add", then], sizes=[16], seeds=1, resources={"max_stack": 1})
    store, ended = RunStore(Home(files.parents[2]), "other"), dict[str, str]()
    while (stack := campaign.next_stack()) is not None:
        [job] = stack.jobs
        campaign.ended(job.key, GOOD, {WEIGHTS: b""})
        campaign.stack_ended(stack.id)
        ended[job.key] = job.donor
        if not job.donor:
            (store.directory(job.key) / IMPORTED_MARK).touch()
    [second] = [key for key, donor in ended.items() if donor]
    assert store.is_imported(second)


def test_a_stack_whose_runs_have_ended_frees_its_slot(files: Path) -> None:
    """Three runs are spread over two slots although the last trial has not been cleaned up yet."""
    campaign = make(files, slots=2, seeds=3, sizes=[8, 16], mixes=["add"], search={"method": "bisection"})
    stacks = [start(campaign), start(campaign)]
    for stack in stacks:
        for job in stack.jobs:
            campaign.ended(job.key, GOOD)
    assert campaign.next_stack() is None
    campaign.stack_ended(stacks[0].id)
    assert len(start(campaign).jobs) == 2


def test_a_stack_too_large_for_memory_continues_as_two_and_limits_later_stacks(files: Path) -> None:
    campaign = make(files, slots=1, seeds=7, sizes=[8], mixes=["add"], resources={"max_stack": 4})
    stack = start(campaign)
    campaign.ended(stack.jobs[0].key, GOOD)
    left = requests_of(campaign, *stack.jobs[1:])
    keys = [job.key for job in stack.jobs[1:]]
    campaign.stack_halved(stack.id, [keys[:2], keys[2:]])
    assert [finish(campaign, start(campaign)) for _ in range(2)] == [left[:2], left[2:]]
    rest = start(campaign)
    assert {job.run.size for job in rest.jobs} == {8}
    assert len(rest.jobs) == 2
    assert campaign.limits == {8: 2}


def test_a_memory_limit_holds_for_larger_sizes(files: Path) -> None:
    method = {"method": "grid", "stack": 4}
    campaign = make(
        files, slots=1, seeds=12, sizes=[4, 8, 16], mixes=["add"], search=method, resources={"max_stack": 4}
    )
    largest: dict[int, int] = {}
    halved = False
    while (stack := campaign.next_stack()) is not None:
        size, runs = stack.jobs[0].run.size, len(stack.jobs)
        if size == 8 and runs == 4 and not halved:
            halved = True
            keys = [job.key for job in stack.jobs]
            campaign.stack_halved(stack.id, [keys[:2], keys[2:]])
            continue
        if halved:
            largest[size] = max(runs, largest.get(size, 0))
        finish(campaign, stack)
    assert largest == {4: 4, 8: 2, 16: 2}


def test_a_stack_shows_its_evaluations_and_keeps_its_checkpoint_until_its_runs_have_ended(files: Path) -> None:
    campaign, sweep = make(files), SweepDirectory(files.parent)
    stack = start(campaign)
    shown, checkpoints = sweep.stacks / stack.id, Checkpoints(sweep.checkpoints)
    with checkpoints.put(stack.id, campaign.job(stack).members):
        pass
    assert list(map(read_request, read_members(shown)[0])) == requests_of(campaign, *stack.jobs)
    curve = tuple(Evaluation(step, 1 / step, {"add": step / 10}) for step in (1, 2, 3))
    key = stack.jobs[0].key
    for evaluation in curve:
        report(campaign, stack.id, key, evaluation)
    assert read_progress(shown) == {key: curve}
    finish(campaign, stack)
    assert not shown.exists()
    assert checkpoints.stacks() == []


def test_a_run_reported_as_failed_by_its_family_is_not_stored(files: Path) -> None:
    campaign = make(files, slots=1, seeds=1, sizes=[8], mixes=["add"])
    stack = start(campaign)
    campaign.ended(stack.jobs[0].key, Outcome(Status.FAILED, 1, {}, {}, error="no data"), {})
    assert not list(Home(files.parents[2]).runs.glob("*"))


def test_a_run_with_two_checkpoints_trains_in_one_stack(files: Path) -> None:
    """A stack failed after a checkpoint, then one of its runs left a checkpoint alone, then the driver was killed."""
    one_size: dict[str, Any] = {"sizes": [8], "mixes": ["add"], "seeds": 4}
    campaign = make(files, slots=1, **one_size)
    whole = start(campaign)
    for _ in range(2):
        campaign.stack_failed(whole.id, "boom", retries=1)
        if campaign.table.busy == 0:
            again = start(campaign)
    alone = again if len(again.jobs) == 1 else start(campaign)
    checkpoints = Checkpoints(campaign.files.checkpoints)
    for stack in (whole, alone):
        with checkpoints.put(stack.id, list(map(asdict, requests_of(campaign, *stack.jobs)))) as checkpoint:
            (checkpoint / LEARNER_DIRECTORY).mkdir()
    resumed = make(files, slots=2, **one_size)
    first, second = start(resumed), start(resumed)
    trained = [resumed.job(stack).wanted for stack in (first, second)]
    seeds = [[stack.jobs[i].run.seed for i in wanted] for stack, wanted in zip((first, second), trained, strict=True)]
    assert sorted(seed for own in seeds for seed in own) == [0, 1, 2, 3]
    assert first.id != second.id


def test_a_run_of_an_interrupted_stack_is_reused_from_another_sweep(files: Path) -> None:
    members = [Request("add", 16, 0), Request("add", 16, 1)]
    one_at_a_time = {"max_stack": 1}
    campaign = make(files, slots=1, interrupted=members, sizes=[16], resources=one_at_a_time, mixes=["add"])
    other = Home(files.parents[2]).sweep("logistic-0")
    other.directory.mkdir(parents=True)
    existing = plan_of(campaign).job(members[1]).key
    RunStore(other.home, other.id).put(existing, GOOD, {})
    assert campaign.next_stack() is not None
    assert requests_of(campaign, *(run.job for run in campaign.training)) == members[:1]
    assert campaign.table.outcome(existing) == GOOD


def test_stopping_a_mix_drops_its_training_runs_and_keeps_ended_ones(files: Path) -> None:
    campaign = make(files, slots=4, resources={"max_stack": 1})
    stacks = [stack for _ in range(4) if (stack := campaign.next_stack()) is not None]
    of = {mix: [item for item in stacks if item.jobs[0].run.label == mix] for mix in ("add", "add+prod")}
    ended, given_up = of["add"][0], of["add"][1:]
    campaign.ended(ended.jobs[0].key, GOOD)
    claims = Home(files.parents[2]).claims
    before = len(list(claims.glob("*")))
    stop_mix(campaign, "add")
    stop_mix(campaign, "add")
    assert len(list(claims.glob("*"))) == before - len(given_up) > 0
    assert given_up
    assert all(campaign.should_end(item.id) for item in given_up)
    assert not any(campaign.should_end(item.id) for item in of["add+prod"])
    campaign.ended(given_up[0].jobs[0].key, GOOD)  # The worker had not received the stop yet.
    for item in of["add+prod"]:
        finish(campaign, item)
    while not campaign.done:
        assert {request.mix for request in finish(campaign, start(campaign))} == {"add+prod"}
    entries = list(read_journal(files))
    assert [entry.mix for entry in entries if isinstance(entry, Stopped)] == ["add"]
    known = [entry.key for entry in entries if isinstance(entry, Ended) and entry.request.mix == "add"]
    assert known == [ended.jobs[0].key]
    assert recall(SweepDirectory(files.parent)).stopped == {"add"}


PAIRS: dict[str, Any] = {
    "mixes": ["add", "add+prod"],
    "sizes": [32],
    "seeds": 40,
    "search": {"method": "pairs", "aim": "decide"},
    "resources": {"max_stack": 1},
}
"""A sweep of one size, in which ADD+PROD learns and ADD does not."""


def end(campaign: Campaign, stack: Stack) -> None:
    """End the run of a stack as it ends in :data:`PAIRS`, and the stack."""
    [job] = stack.jobs
    accuracy = 0.95 if job.run.label == "add+prod" else 0.2
    campaign.ended(job.key, Outcome(Status.FINISHED, 3, {"add": accuracy, "prod": 0.9}, {"add": 0.1, "prod": 0.1}))
    campaign.handle_report(stack.id, StackReport())
    campaign.stack_ended(stack.id)


def train_until_decided(campaign: Campaign) -> list[Stack]:
    """End the runs of a campaign one after the other until it is done. Return the stacks that still train."""
    training: list[Stack] = []
    while not campaign.done:
        while (stack := campaign.next_stack()) is not None:
            training.append(stack)
        end(campaign, training.pop(0))
    return training


def test_a_decision_stops_the_runs_that_it_does_not_need(files: Path) -> None:
    campaign = make(files, slots=64, **PAIRS)
    left = train_until_decided(campaign)
    assert len(left) >= 4
    assert all(campaign.should_end(stack.id) for stack in left)
    assert campaign.training == []
    claims = Home(files.parents[2]).claims
    assert list(claims.glob("*")) == []
    done = [entry.key for entry in read_journal(files) if isinstance(entry, Ended)]
    assert len(set(done)) == len(done)
    assert not {job.key for stack in left for job in stack.jobs} & set(done)
    for stack in left:
        campaign.stack_ended(stack.id)
    # A resumed sweep is done, too, and one that locates transitions asks for the same runs first.
    memory = recall(SweepDirectory(files.parent))
    for aim in ("decide", "locate"):
        plan = plan_of(make(files, **PAIRS | {"search": {"method": "pairs", "aim": aim}}))
        plan.searcher.restore(memory.blocks)
        for entry in read_journal(files):
            if isinstance(entry, Ended):
                plan.searcher.tell(entry.request, plan.point(plan_of(campaign).runs[done.index(entry.key)]))
        assert plan.done == (aim == "decide")
        wanted = {job.key for job in plan.ask(len(left))}
        assert wanted == ({job.key for stack in left for job in stack.jobs} if aim == "locate" else set())


def test_a_needless_run_that_ends_nevertheless_is_stored(files: Path) -> None:
    campaign = make(files, slots=64, **PAIRS)
    first, *others = train_until_decided(campaign)
    [job] = first.jobs
    assert not campaign.ended(job.key, GOOD), "it is not in training for the sweep"
    assert RunStore(Home(files.parents[2]), "another").find(job.key) == GOOD
    assert job.key not in {entry.key for entry in read_journal(files) if isinstance(entry, Ended)}
    campaign.stack_ended(first.id)
    assert not campaign.ended(job.key, GOOD)
    assert not campaign.ended(others[0].jobs[0].key, Outcome(Status.FAILED, 0, {}, {}, error="lost"))
    assert not RunStore(Home(files.parents[2]), "another").has(others[0].jobs[0].key)


def test_a_run_that_is_wanted_again_waits_for_its_worker_to_end(files: Path) -> None:
    campaign = make(files, slots=4, resources={"max_stack": 1})
    stacks = [stack for _ in range(4) if (stack := campaign.next_stack()) is not None]
    plan, dropped = plan_of(campaign), stacks[0]
    needed = False
    with patch.object(plan.searcher, "needs", lambda run: needed or run != plan.requests(dropped.jobs[0].key)[0]):
        campaign.ended(stacks[1].jobs[0].key, GOOD)
        campaign.handle_report(stacks[1].id, StackReport())
        assert campaign.should_end(dropped.id)
        needed = True
        campaign.slots = lambda _: 100
        again = [stack.id for _ in range(100) if (stack := campaign.next_stack()) is not None]
        assert dropped.id not in again
        campaign.stack_ended(dropped.id)
        assert start(campaign).id == dropped.id
