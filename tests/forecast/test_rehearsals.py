"""Rehearsals of a search, from which `plan` estimates its cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from orchestrator.forecast import rehearsals
from orchestrator.forecast.rehearsals import MOST_MIXES, rehearse
from orchestrator.search.base import Searcher
from tests.sweep.sweeps import spec


@pytest.mark.parametrize("count", [2, MOST_MIXES, 30])
def test_some_of_many_mixes_are_rehearsed_and_stand_for_all(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rehearsal of a hundred mixes takes minutes."""
    seen: list[int] = []
    play = rehearsals.played_to_the_end

    def counted(searcher: Searcher, transitions: Mapping[str, float], seconds: Mapping[int, float]) -> Counter[int]:
        seen.append(len(transitions))
        return play(searcher, transitions, seconds)

    monkeypatch.setattr(rehearsals, "played_to_the_end", counted)
    mixes = ["add", *(f"add:{share}+prod:1" for share in range(1, count))]
    sweep = spec(mixes=mixes, sizes=[8, 16], seeds=2, search={"method": "grid"})
    assert [runs.total() for runs in rehearse(sweep, {8: 1.0, 16: 2.0})] == [count * 2 * 2] * 6
    assert set(seen) == {min(count, MOST_MIXES)}
