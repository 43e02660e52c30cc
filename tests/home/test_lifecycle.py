"""How a sweep begins: in a directory of its own, whose name has its place among the others."""

from __future__ import annotations

import re
from pathlib import Path

from orchestrator.home import lifecycle
from orchestrator.home.files import Home
from tests.sweep.sweeps import spec


def test_sweeps_that_begin_in_one_second_are_told_apart_and_stand_newest_first(tmp_path: Path) -> None:
    home = Home(tmp_path)
    begun = [lifecycle.create(spec(name=name), home).id for name in ("b", "a", "c", "a", "b", "a")]
    assert home.sweep_ids() == begun[::-1]
    assert all(re.fullmatch(r"[abc]-\d{8}-\d{6}-[0-9a-f]{4}", each) for each in begun)
