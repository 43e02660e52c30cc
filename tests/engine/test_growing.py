"""A sweep on a cluster with an autoscaler: it asks for what it can use, uses it, and takes back what it asked for."""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrator.engine.ray.cluster import cluster_hardware
from orchestrator.engine.ray.starting import PATIENT
from tests.chaos.paced import RUNS, write_space
from tests.chaos.program import ENVIRONMENT, Program, journalled
from tests.engine.growing import CORES, growing_cluster, seen
from tests.engine.sleepers import FAMILY, turns

pytestmark = pytest.mark.cluster
"""Also since this process looks at a cluster without a token: Ray remembers that, and starts none with one after it."""

NODES = 2
WITHIN_S = 120.0


@pytest.fixture(params=["v1", "v2"])
def address(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A cluster of no core, to which two nodes can be added, by each of the autoscalers that Ray has."""
    # Otherwise `ray start` takes the token that lies where one was left, which this process did not begin with.
    for name, value in (ENVIRONMENT | PATIENT | {"RAY_AUTH_MODE": "disabled"}).items():
        monkeypatch.setenv(name, value)
    with (
        tempfile.TemporaryDirectory(prefix="grow-", ignore_cleanup_errors=True) as short,
        growing_cluster(Path(short), NODES, v2=request.param == "v2") as made,
    ):
        yield made


def begin(address: str, directory: Path, sleep_s: float) -> Program:
    """A sweep of :data:`RUNS` runs, a core each."""
    (directory / "turns").mkdir()
    resources: dict[str, Any] = {"max_stack": 1, "cpu_per_stack": 1, "checkpoint_every_s": 0.1}
    settings = {"steps": 2, "sleep_s": sleep_s, "log": str(directory / "turns")}
    space = write_space(directory, pace_s=0, family=FAMILY, settings=settings, resources=resources)
    return Program(space, directory / "home", directory / "said", "--address", address)


def wait_until_given_back(address: str) -> None:
    """Until nothing is asked for any more and all nodes that were added are gone. Raises ``AssertionError``."""
    until = time.monotonic() + WITHIN_S
    while (found := seen(address)) != (0, 0):
        assert time.monotonic() < until, found
        time.sleep(1)


def test_a_sweep_gets_the_nodes_that_it_can_use_and_leaves_none_behind(address: str, tmp_path: Path) -> None:
    there = cluster_hardware(address)
    assert (there.cpus, there.grows) == (0, True)
    program = begin(address, tmp_path, sleep_s=1.0)
    try:
        assert program.end() == 0, program.log.read_text()
    finally:
        program.kill()
    said = program.log.read_text()
    assert "0 CPU cores, no node has room for a stack (resources.cpu_per_stack is 1 and" in said
    assert said.count(f"the cluster's autoscaler is asked for {RUNS - 1} slots") == 1
    assert f"{NODES + 1} nodes, {NODES * CORES} stacks at a time" in said
    assert "Ignore this message" not in said  # Of Tune, where trials wait for a minute.
    trained = turns(tmp_path / "turns")
    assert len({turn.node for turn in trained}) == NODES
    assert len(journalled(program.home)) == RUNS
    wait_until_given_back(address)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_what_a_sweep_asked_for_is_taken_back_however_it_ends(
    how: signal.Signals, address: str, tmp_path: Path
) -> None:
    """All nodes that can be added are there, nothing has ended yet, and it still asks for more."""
    program = begin(address, tmp_path, sleep_s=120.0)
    try:
        until = time.monotonic() + WITHIN_S
        while (found := seen(address)) != (NODES, RUNS - NODES * CORES):
            assert time.monotonic() < until, (found, program.log.read_text())
            time.sleep(0.5)
        if how is signal.SIGINT:
            program.process.send_signal(how)
            assert program.end() == 130, program.log.read_text()
    finally:
        program.kill()
    wait_until_given_back(address)
