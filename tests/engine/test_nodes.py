"""A node that joins a cluster and is lost while it trains."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ray.cluster_utils import Cluster

from tests.chaos.ground import HEAD, QUICK
from tests.chaos.paced import write_space
from tests.chaos.program import ENVIRONMENT, Program, evaluations, journalled
from tests.waiting import wait_for


@pytest.mark.night
def test_a_node_that_joins_gets_a_stack_and_its_loss_is_not_a_failed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One run is held on the only core, and another on a node that joins. ``retries: 0``: a single failure of its stack
    would fail that run."""
    for name, value in (ENVIRONMENT | QUICK).items():
        monkeypatch.setenv(name, value)
    cluster = Cluster(initialize_head=True, head_node_args=HEAD)
    cluster.add_node(num_cpus=1)
    home, log, holds = tmp_path / "home", tmp_path / "output", [tmp_path / "16-2", tmp_path / "64-2"]
    for hold in holds:
        hold.touch()
    changes: dict[str, Any] = {"mixes": ["add"], "sizes": [16, 64], "seeds": 1}
    settings = {"steps": 3, "holds": str(tmp_path)}
    resources = {"max_stack": 1, "cpu_per_stack": 1, "retries": 0, "checkpoint_every_s": 0.1}
    space = write_space(tmp_path, pace_s=0, settings=settings, resources=resources, **changes)
    program = Program(space, home, log, "--address", cluster.address)
    try:
        wait_for(lambda: evaluations(home) == 1)
        joined = cluster.add_node(num_cpus=1)
        wait_for(lambda: evaluations(home) == 2)
        cluster.remove_node(joined, allow_graceful=False)
        wait_for(lambda: "2 nodes, 1 stack at a time (2 before)" in log.read_text())
        for hold in holds:
            hold.unlink()
        assert program.end() == 0, log.read_text()
    finally:
        program.kill()
        cluster.shutdown()
    output = log.read_text()
    assert "the cluster changed: 3 nodes, 2 stacks at a time (1 before)" in output
    assert re.search(
        r"The machine failed, not the run: (?:(?:the|a) node|a training process|Ray lost) .*\. Retrying in 1 s", output
    ), output
    assert [(entry.request.size, entry.failure) for entry in journalled(home)] == [(16, None), (64, None)]
