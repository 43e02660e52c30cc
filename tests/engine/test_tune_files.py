"""Tune's own files: it reads some with pickle and writes through links, so they are where no other user can write."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from orchestrator.home.directories import Home
from tests.engine.test_trouble import troubled_spec
from tests.sweep.sweeps import run_here

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]


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
def test_tune_reads_and_writes_nothing_in_a_home(trouble: str, tmp_path: Path) -> None:
    """A stack fails, and Tune reads its error again when it ends."""
    run, victim = tmp_path / "it-ran", tmp_path / "victim"
    victim.write_text("precious")
    wanted = troubled_spec(tmp_path, times=100, trouble=trouble)
    with owner(tmp_path / "home", pickle.dumps(Planted(run)), victim):
        run_here(wanted, tmp_path / "home", engine="ray")
    assert not run.exists()
    assert victim.read_text() == "precious"
    assert Home(tmp_path / "home").sweep_ids()
