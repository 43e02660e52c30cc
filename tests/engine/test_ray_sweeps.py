"""Whole sweeps on one Ray, since starting one takes ten seconds of a core."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from orchestrator.engine.ray.session import RaySession
from orchestrator.home.directories import Home
from orchestrator.space.spec import SweepSpec
from tests.engine.test_closing import LOG, closing_spec, events
from tests.engine.test_slugs import HiddenFamily, SlashedFamily
from tests.engine.test_trouble import troubled_spec
from tests.sweep.sweeps import ended, run_here, spec

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]
RunOnRay = Callable[[SweepSpec, Path], object]


@pytest.fixture(scope="module")
def run_on_ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunOnRay]:
    """A function that runs a sweep with a home on the Ray of this module, whose workers know the log of closings."""
    with pytest.MonkeyPatch.context() as patch, RaySession(keeps_running=True) as session:
        patch.setenv(LOG, str(tmp_path_factory.mktemp("closings") / "events"))
        patch.setattr("orchestrator.engine.ray.session.RaySession", lambda *_, **__: session)
        yield lambda wanted, home: run_here(wanted, home, engine="ray")


def test_ray_closes_every_learner(run_on_ray: RunOnRay, tmp_path: Path) -> None:
    run_on_ray(closing_spec(sizes=[8, 16], seeds=2), tmp_path)
    assert events("start")
    assert len(events("start")) == len(events("close"))
    assert not Path(events("work")[0].removeprefix("work ")).exists()


@pytest.mark.parametrize("family", [SlashedFamily, HiddenFamily])
def test_ray_trains_a_family_whose_sizes_are_named_by_a_path(
    family: type[SlashedFamily], run_on_ray: RunOnRay, tmp_path: Path
) -> None:
    name = f"{family.__module__}:{family.__name__}"
    run_on_ray(spec(family=name, sizes=[8, 16], seeds=1, search={"method": "grid"}), tmp_path)
    assert {entry.outcome.status for entry in ended(tmp_path)} == {"finished"}
    assert Home(tmp_path).sweep_ids()


class Planted:
    """A pickle that makes a directory when it is read."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def __reduce__(self) -> tuple[object, ...]:
        return os.makedirs, (str(self._place), 0o777, True)


@contextmanager
def owner(home: Path, content: bytes, victim: Path) -> Iterator[None]:
    """During the block, act as the owner of the home: put a pickle in place of Tune's errors, and links to another file
    in place of what it writes, as soon as a sweep and its stacks are there."""
    over = threading.Event()

    def plant() -> None:
        while not over.wait(0.005):
            for stack in home.glob("sweeps/*/stacks/*"):
                tune = stack.parents[1] / "tune"
                with suppress(OSError):
                    (tune / stack.name).mkdir(parents=True, exist_ok=True)
                    error = tune / stack.name / "error.pkl"
                    if not error.exists() or error.read_bytes() != content:
                        error.unlink(missing_ok=True)
                        error.write_bytes(content)
                for name in (".validate_storage_marker", "tuner.pkl", f"{stack.name}/error.txt"):
                    if not (tune / name).is_symlink():
                        with suppress(OSError):
                            (tune / name).unlink(missing_ok=True)
                            (tune / name).symlink_to(victim)

    thread = threading.Thread(target=plant)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("trouble", ["bug", "exit"])
def test_tune_reads_and_writes_nothing_in_a_home(trouble: str, run_on_ray: RunOnRay, tmp_path: Path) -> None:
    """Tune reads some of its files with pickle and writes through links, so they are where no other user can write. A
    stack fails, and Tune reads its error again when it ends."""
    run, victim = tmp_path / "it-ran", tmp_path / "victim"
    victim.write_text("precious")
    wanted = troubled_spec(tmp_path, times=100, trouble=trouble)
    with owner(tmp_path / "home", pickle.dumps(Planted(run)), victim):
        run_on_ray(wanted, tmp_path / "home")
    assert not run.exists()
    assert victim.read_text() == "precious"
    assert Home(tmp_path / "home").sweep_ids()
