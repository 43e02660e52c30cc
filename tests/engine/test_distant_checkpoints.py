"""A machine without the sweep's directory copies its checkpoints to the driver's, and others continue from them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.engine.distant_checkpoints import DepotError
from orchestrator.engine.messages import FarewellError, StackJob, StackReport
from orchestrator.engine.worker import StackWorker
from orchestrator.history.sweeps import create_sweep
from orchestrator.home.checkpoints import Checkpoints, PackedCheckpoint
from orchestrator.home.directories import Home
from orchestrator.jobs.plan import stack_id
from orchestrator.search.base import Request
from orchestrator.space.spaces import load_space
from tests.engine.jobs import job_for
from tests.sweep.sweeps import scripted, spec

PAIR = (Request("add", 16, 0), Request("add+prod", 16, 1))
ELSEWHERE = {"directory": "/nowhere", "sweep_id": "sweep"}
"""Values of a setup on a machine that does not have the sweep's directory."""


class Depot:
    """The depot of a driver on this machine. It can be out of reach."""

    def __init__(self, root: Path) -> None:
        self.checkpoints = Checkpoints(root)
        self.is_reached = True

    def fetch(self, stack_id: str) -> PackedCheckpoint | None:
        self._reach()
        return self.checkpoints.pack(stack_id)

    def store(self, stack_id: str, packed: PackedCheckpoint) -> None:
        self._reach()
        self.checkpoints.unpack(stack_id, packed)

    def _reach(self) -> None:
        if not self.is_reached:
            raise DepotError("no answer")


@pytest.fixture(name="depot")
def depot_of(tmp_path: Path) -> Depot:
    return Depot(tmp_path / "depot")


def stack_on(machine: Path, *, every_s: float = 1e-9, steps: int = 6) -> StackJob:
    """Return a stack on a machine with a scratch of its own that does not have the sweep's directory."""
    resources = {"checkpoint_every_s": every_s, "scratch": str(machine)}
    sweep = create_sweep(spec(settings={"steps": steps}, resources=resources), Home(machine / "home"))
    return job_for(sweep, PAIR, **ELSEWHERE)


def steps_of(report: StackReport) -> list[int]:
    return [run.evaluation.step for run in report.runs if run.evaluation is not None]


def test_a_stack_of_a_lost_machine_continues_on_another(tmp_path: Path, depot: Depot) -> None:
    lost = StackWorker(stack_on(tmp_path / "1"), depot)
    for _ in range(3):
        lost.advance()
    other = StackWorker(stack_on(tmp_path / "2"), depot)
    assert steps_of(other.advance()) == [3, 3]
    assert steps_of(other.advance()) == [4, 4]
    alone = StackWorker(stack_on(tmp_path / "3"))
    assert steps_of(alone.advance()) == [1, 1]


def test_the_newest_copy_counts(tmp_path: Path, depot: Depot) -> None:
    first, second = stack_on(tmp_path / "1"), stack_on(tmp_path / "2")
    for stack, reached in ((first, 2), (second, 4), (first, 6)):  # It comes back to where an older copy is.
        worker = StackWorker(stack, depot)
        while steps_of(worker.advance()) != [reached, reached]:
            pass
        worker.close()
    depot.is_reached = False
    worker = StackWorker(stack_on(tmp_path / "2"), depot)
    report = worker.advance()
    assert steps_of(report) == [5, 5]  # Its own copy is better than none.
    assert report.messages[0] == "could not fetch the checkpoint of stack-1 from the driver's machine: no answer"


def test_without_the_driver_training_goes_on(tmp_path: Path, depot: Depot) -> None:
    worker = StackWorker(stack_on(tmp_path / "1"), depot)
    worker.advance()
    depot.is_reached = False
    report = worker.advance()
    assert steps_of(report) == [2, 2]
    assert report.messages == (
        "could not copy a checkpoint to the driver's machine (no answer). If this machine is lost, its runs continue "
        "from an earlier checkpoint",
    )
    depot.is_reached = True
    assert worker.advance().messages == ()
    assert steps_of(StackWorker(stack_on(tmp_path / "2"), depot).advance()) == [3, 3]


def test_a_stack_leaves_a_machine_that_goes_away(tmp_path: Path, depot: Depot) -> None:
    worker = StackWorker(stack_on(tmp_path / "1", every_s=1e9), depot)
    for _ in range(2):
        worker.advance()
    with pytest.raises(FarewellError, match="the node is about to go away"):
        worker.leave("the node is about to go away")
    assert worker.done
    worker.close()
    assert steps_of(StackWorker(stack_on(tmp_path / "2"), depot).advance()) == [3, 3]


def test_halves_continue_on_other_machines(tmp_path: Path, depot: Depot) -> None:
    (tmp_path / "1").mkdir()
    script = {"room": 1, "grows_at": 3, "steps": 6}
    resources = {"checkpoint_every_s": 1e-9, "scratch": str(tmp_path / "1")}
    wanted = scripted(tmp_path / "log", script, seeds=2, resources=resources)
    sweep = create_sweep(wanted, Home(tmp_path / "home"))
    job = job_for(sweep, (Request("add", 16, 0), Request("add", 16, 1)), **ELSEWHERE)
    worker = StackWorker(job, depot)
    while not (halves := worker.advance().halves):
        pass
    worker.close()
    assert halves == [[key] for key in job.keys]
    other = sweep.spec.resources.model_copy(update={"scratch": str(tmp_path / "2")})
    elsewhere = replace(job.setup, resources=other)
    for place, [key] in enumerate(halves):
        name = stack_id(elsewhere.family.make().shape(job.runs[place]), [key])
        half = replace(
            job, setup=elsewhere, stack_id=name, runs=(job.runs[place],), keys=(key,), members=(job.members[place],),
            wanted=(0,), resources=other,
        )  # fmt: skip
        assert steps_of(StackWorker(half, depot).advance()) == [3]


def test_checkpoints_are_written_between_evaluations_that_are_far_apart(tmp_path: Path, depot: Depot) -> None:
    sets = ["mixes=[add]", "probes=[]", "settings.training.steps=4000", "settings.training.evaluate_every=4000"]
    sets += ["resources.checkpoint_every_s=0.1", f"resources.scratch={tmp_path}/1"]
    sweep = create_sweep(load_space("add_vs_add_prod", "smoke", sets), Home(tmp_path / "home"))
    job = job_for(sweep, (Request("add", 8, 0),), **ELSEWHERE)
    worker = StackWorker(job, depot)
    while not depot.checkpoints.stacks():
        early = worker.advance()
        assert early == StackReport(steps=early.steps)
        assert early.steps < 4000
    other = StackWorker(replace(job, resources=sweep.spec.resources), depot)
    ended = {}
    for name, one in (("first", worker), ("other", other)):
        while not one.done:
            report = one.advance()
        [ended[name]] = [run.outcome for run in report.runs]
    first, second = ended["first"], ended["other"]
    assert first is not None
    assert second is not None
    assert (first.steps, first.curve, first.accuracy) == (4000, second.curve, second.accuracy)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"../victim": b"x"}, "is not the path of a file in this directory"),
        ({"/victim": b"x"}, "is not the path of a file in this directory"),
        ({"checkpoint/a": b"x", "contents.json": b'{"checkpoint/b": 1}'}, "did not arrive whole"),
        ({"checkpoint/a": b"x", "contents.json": b'{"checkpoint/a": 1}'}, "does not match its checksum"),
        ({}, "did not arrive whole"),
    ],
)
def test_a_copy_that_is_wrong_is_refused(files: dict[str, bytes], message: str, tmp_path: Path, depot: Depot) -> None:
    with pytest.raises(ValueError, match=message):
        depot.checkpoints.unpack("stack-1", PackedCheckpoint(7, files))
    assert not list(tmp_path.rglob("victim"))
    assert not list((tmp_path / "depot").glob("*.7"))
