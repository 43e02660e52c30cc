"""A Ray for the checks of a module, because starting one takes ten seconds of a core."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orchestrator.engine.ray.session import RaySession


@pytest.fixture(scope="module")
def session() -> Iterator[RaySession]:
    with RaySession(keeps_running=True) as kept:
        yield kept
