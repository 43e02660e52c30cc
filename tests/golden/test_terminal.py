"""The live view as users see it. Update after a change: ``pytest tests/golden --snapshot-update``."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.terminal.test_live import FORECAST, SNAPSHOT, shown


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("name", ["first", "forecast"])
def test_the_view(name: str, width: int, snapshot: SnapshotAssertion) -> None:
    lines = [line.rstrip() for line in shown(width, SNAPSHOT if name == "first" else FORECAST)]
    assert max(map(len, lines)) <= width
    assert "\n".join(lines) == snapshot
