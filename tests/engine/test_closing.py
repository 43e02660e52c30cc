"""Every learner that the engine starts is closed once, however its stack ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from orchestrator.engine.worker import StackWorker
from orchestrator.history.sweeps import create_sweep
from orchestrator.home.checkpoints import Checkpoints
from orchestrator.home.directories import Home
from orchestrator.search.base import Request
from orchestrator.space.spec import SweepSpec
from orchestrator.system.errors import SweepError
from tests.engine.jobs import job_for
from tests.families import LogisticFamily, LogisticLearner
from tests.sweep.sweeps import only_sweep, run_here, spec
from trainables.base import Learner, Report, RunConfig
from trainables.contract.report_validator import BrokenFamilyError

pytestmark = pytest.mark.usefixtures("undrawn")

LOG = "CLOSING_LOG"
"""Environment variable with the file of events. Ray's workers inherit it."""


def note(event: str) -> None:
    with open(os.environ[LOG], "a", encoding="utf-8") as file:
        file.write(f"{event}\n")


def events(name: str = "") -> list[str]:
    lines = Path(os.environ[LOG]).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith(name)]


class ClosingLearner(LogisticLearner):
    """A learner that notes its start, its directory and its end, and fails in the way of its haste."""

    failure: ClassVar[Mapping[float, type[BaseException]]] = {
        31: ValueError,
        32: SystemExit,
        33: MemoryError,
        34: KeyboardInterrupt,
        35: BrokenFamilyError,
    }

    def __init__(self, runs: Sequence[RunConfig]) -> None:
        super().__init__(runs)
        note("start")

    def work_in(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "own").write_text("mine")
        note(f"work {directory}")

    def advance(self) -> list[Report]:
        kind = self.failure.get(self.runs[0].settings.haste)
        if kind is not None and self.step:
            raise kind("on purpose")
        return super().advance()

    def restore(self, directory: Path) -> None:
        if self.runs[0].settings.haste == 36:
            raise ValueError("cannot be restored")
        super().restore(directory)

    def close(self) -> None:
        note("close")
        if self.runs[0].settings.haste == 37:
            raise OSError("cannot end")


class ClosingFamily(LogisticFamily):
    """The logistic family with learners that must be closed."""

    name = "closing"

    def learner(self, runs: Sequence[RunConfig], *, device: str, cache: Path) -> Learner:
        return ClosingLearner(runs)


@pytest.fixture(autouse=True)
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOG, str(tmp_path / "events"))


def closing_spec(haste: float = 3.0, **changes: object) -> SweepSpec:
    fields: dict[str, object] = {"mixes": ["add"], "sizes": [16], "seeds": 1, "search": {"method": "grid"}}
    return spec(family=f"{__name__}:ClosingFamily", settings={"haste": haste}, **fields | changes)


def worker_of(home: Path, haste: float = 3.0, count: int = 1) -> StackWorker:
    wanted = closing_spec(haste, resources={"checkpoint_every_s": 1e9})
    sweep = create_sweep(wanted, Home(home))
    requests = [Request("add", 16, seed) for seed in range(count)]
    return StackWorker(job_for(sweep, requests))


def finish(worker: StackWorker) -> None:
    while not worker.done:
        worker.advance()
    worker.close()


def stop_early(worker: StackWorker) -> None:
    worker.advance()
    worker.close()


def fail(worker: StackWorker) -> None:
    worker.advance()
    with pytest.raises((ValueError, RuntimeError, KeyboardInterrupt)):
        worker.advance()


@pytest.mark.parametrize(
    ("haste", "end"),
    [
        (3, finish),
        (3, stop_early),
        (31, fail),
        (32, fail),
        (33, finish),  # A machine error.
        (34, fail),
        (35, finish),  # A broken family.
        (37, finish),  # It cannot be closed.
    ],
)
def test_a_learner_is_closed_once(haste: float, end: Callable[[StackWorker], Any], tmp_path: Path) -> None:
    worker = worker_of(tmp_path, haste)
    end(worker)
    worker.close()
    assert [event.split()[0] for event in events()] == ["start", "work", "close"]


def test_the_driver_hears_of_a_learner_that_cannot_end(tmp_path: Path) -> None:
    """The last report has the message: nobody reads what a worker says after it."""
    worker, messages = worker_of(tmp_path, 37), list[str]()
    while not worker.done:
        messages += worker.advance().messages
    assert [message for message in messages if "could not end its training (OSError: cannot end)" in message]


def test_a_halved_stack_closes_its_learner(tmp_path: Path) -> None:
    finish(worker_of(tmp_path, 33, count=2))
    assert events("start") + events("close") == ["start", "close"]


def test_a_learner_that_cannot_be_restored_is_closed(tmp_path: Path) -> None:
    wanted = closing_spec(36)
    sweep = create_sweep(wanted, Home(tmp_path))
    job = job_for(sweep, [Request("add", 16, 0)])
    stop_early(StackWorker(job))
    finish(StackWorker(job))
    assert events("start") + events("close") == ["start"] * 3 + ["close"] * 3


@pytest.mark.parametrize("haste", [3, 31, 33, 35])
def test_the_local_engine_closes_every_learner_and_removes_its_files(
    haste: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.engine.retries.WAITS_S", (0.0,))
    if haste == 3:
        run_here(closing_spec(haste), tmp_path)
    else:
        with pytest.raises(SweepError):
            run_here(closing_spec(haste), tmp_path)
    assert events("start")
    assert len(events("start")) == len(events("close"))
    work = Path(events("work")[0].removeprefix("work "))
    assert work.parent == Checkpoints(only_sweep(tmp_path).checkpoints).work(work.name).parent
    assert work.exists() == (haste in (33, 35))  # An interrupted sweep can still use them.


def test_an_error_of_the_driver_closes_the_learner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("of the driver")

    monkeypatch.setattr("orchestrator.engine.campaign.Campaign.handle_report", broken)
    with pytest.raises(RuntimeError, match="of the driver"):
        run_here(closing_spec(), tmp_path)
    assert events("close") == ["close"]
