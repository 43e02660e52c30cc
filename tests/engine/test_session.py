"""One Ray for several sweeps."""

from __future__ import annotations

from pathlib import Path

import pytest
import ray

from orchestrator.engine.ray.engine import RayEngine
from orchestrator.engine.ray.session import RaySession
from orchestrator.space.resources import Resources


def node() -> str:
    """Which Ray answers."""
    return str(ray.get_runtime_context().get_node_id())


@pytest.mark.slow
def test_ray_is_kept_for_the_next_sweep_unless_one_failed(tmp_path: Path) -> None:
    with RaySession(kept=True) as session:
        assert not ray.is_initialized()  # Nobody has asked for it.
        with RayEngine(str(tmp_path), Resources(), session):
            first = node()
        with RayEngine(str(tmp_path), Resources(), session) as engine:
            assert node() == first
            assert "Ray on this machine: 1 node" in engine.describe()
        with pytest.raises(ZeroDivisionError), RayEngine(str(tmp_path), Resources(), session):
            1 / 0  # noqa: B018
        assert not ray.is_initialized()
        with RayEngine(str(tmp_path), Resources(), session):
            assert node() != first
    assert not ray.is_initialized()
