"""The benchmark of sweeps that share the slots."""

from __future__ import annotations

import pytest

from orchestrator.engine.group import Group
from tests.bench import together


@pytest.mark.night
def test_on_many_slots_two_sweeps_end_sooner_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "SWEEPS", 2)
    apart = together.play(together.OneAfterAnother, 2, 64, "decide", 0)
    shared = together.play(Group, 2, 64, "decide", 0)
    assert len(apart.answers) == len(shared.answers) == 2
    assert shared.answers[-1] < 0.8 * apart.answers[-1]
