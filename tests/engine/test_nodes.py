"""Nodes with their own disks that join, leave or are lost. No training is lost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from ray.cluster_utils import Cluster
from safetensors.numpy import load_file

from orchestrator.home.journal import Ended
from orchestrator.home.run_files import WEIGHTS, read_origin, read_outcome
from orchestrator.space.spec import SweepSpec
from tests.chaos.ground import HEAD, QUICK
from tests.chaos.paced import RUNS, write_space
from tests.chaos.program import ENVIRONMENT, Program, evaluations, journalled
from tests.engine.nodes import READ_ONLY, need_namespaces, node_with, wait_for_nodes
from tests.sweep.sweeps import ended, only_sweep, run_here, spec
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A cluster whose head has no cores, so that all training runs on nodes that join it."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    made = Cluster()
    made.add_node(num_cpus=0)
    yield str(made.address)
    ray.shutdown()
    made.shutdown()


def nodes_spec(**changes: object) -> SweepSpec:
    """Return a spec of four runs, and two that continue from the weights of one of them."""
    fields: dict[str, object] = {
        "mixes": ["add", {"name": "max first", "phases": [{"mix": "max", "share": 0.34}, {"mix": "add"}]}],
        "sizes": [16, 64],
        "seeds": 1,
        "search": {"method": "grid"},
        "resources": {"max_stack": 2},
    }
    return spec(**fields | changes)


def on_one_machine(home: Path) -> dict[str, Ended]:
    """Train the same sweep on a single disk. Return its runs by key."""
    run_here(nodes_spec(), home)
    return {entry.key: entry for entry in ended(home)}


@pytest.mark.night
def test_a_node_that_cannot_write_the_home_trains_identical_weights(address: str, tmp_path: Path) -> None:
    need_namespaces()
    home, other = tmp_path / "home", tmp_path / "other"
    home.mkdir()
    expected = on_one_machine(other)
    with node_with(READ_ONLY, home, address):
        wait_for_nodes(2, address)
        run_here(nodes_spec(), home, address=address, engine="ray")
    assert {entry.key: entry for entry in ended(home)} == expected
    for key, entry in expected.items():
        existing, copied = home / "runs" / key, other / "runs" / key
        assert read_outcome(existing) == entry.outcome
        origin = read_origin(existing)
        assert origin is not None
        assert origin.sweep == only_sweep(home).id
        assert {path.name for path in existing.iterdir()} == {path.name for path in copied.iterdir()}
        np.testing.assert_equal(load_file(existing / WEIGHTS), load_file(copied / WEIGHTS))


@pytest.mark.night
def test_a_lost_node_is_not_a_failed_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``retries: 0``: a single failure of a stack would end the sweep."""
    for name, value in (ENVIRONMENT | QUICK).items():
        monkeypatch.setenv(name, value)
    cluster = Cluster(initialize_head=True, head_node_args=HEAD)
    lost = cluster.add_node(num_cpus=1)
    resources = {"max_stack": 1, "retries": 0, "checkpoint_every_s": 0.1}
    program = Program(
        write_space(tmp_path, pace_s=0.3, resources=resources),
        tmp_path / "home",
        tmp_path / "output",
        "--address",
        cluster.address,
    )
    try:
        program.wait_for_runs(2)
        cluster.remove_node(lost, allow_graceful=False)
        cluster.add_node(num_cpus=1)
        assert program.end() == 0, program.log.read_text()
    finally:
        program.kill()
        cluster.shutdown()
    output = program.log.read_text()
    assert re.search(r"Machine error \(not a result\): Ray lost a process .*; retrying in 1 s", output), output
    assert [entry.result for entry in journalled(tmp_path / "home")] == [None] * RUNS


@pytest.mark.night
def test_slots_follow_nodes_that_join_and_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run is held on the only core. Another one ends on a node that joins and is then removed."""
    for name, value in (ENVIRONMENT | QUICK).items():
        monkeypatch.setenv(name, value)
    cluster = Cluster(initialize_head=True, head_node_args=HEAD)
    cluster.add_node(num_cpus=1)
    home, log, hold = tmp_path / "home", tmp_path / "output", tmp_path / "16-2"
    hold.touch()
    changes: dict[str, Any] = {"mixes": ["add"], "sizes": [16, 64], "seeds": 1}
    settings = {"steps": 3, "holds": str(tmp_path)}
    resources = {"max_stack": 1, "cpu_per_stack": 1}
    space = write_space(tmp_path, pace_s=0, settings=settings, resources=resources, **changes)
    program = Program(space, home, log, "--address", cluster.address)
    try:
        wait_for(lambda: evaluations(home) == 1)
        joined = cluster.add_node(num_cpus=1)
        program.wait_for_runs(1)
        [ended_there] = journalled(home)
        assert ended_there.request.size == 64
        cluster.remove_node(joined, allow_graceful=False)
        wait_for(lambda: "2 nodes, 1 stack at a time (2 before)" in log.read_text())
        hold.unlink()
        assert program.end() == 0, log.read_text()
    finally:
        program.kill()
        cluster.shutdown()
    assert "the cluster changed: 3 nodes, 2 stacks at a time (1 before)" in log.read_text()
    assert [entry.request.size for entry in journalled(home)] == [64, 16]
