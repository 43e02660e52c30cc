"""Tests of sweeps drawn from pools of recorded runs."""

from __future__ import annotations

import numpy as np
import pytest

from orchestrator.search.base import Request
from orchestrator.transition.evidence import Direction
from tests.bench.drawn_sweeps import FORMER, RECIPES, Cell, Play, cells, decided_row, draw, main
from tests.bench.pool import Pool


def test_draws_both_mixes_from_one_reshaped_pool() -> None:
    world = Pool.read(FORMER).world(3, "add+prod")
    ends = {mix: [world(Request(mix, 12, seed)).accuracy for seed in range(9)] for mix in ("add", "add+prod")}
    assert min(map(np.mean, ends.values())) > 0.6  # ADD alone fails there.
    assert ends["add"] != ends["add+prod"]
    cell = next(cell for cell in cells() if cell.shape == "0.7 of the rise")
    play = Play("grid", ("seeds=2",), slots=2, early=1.0)
    drawn = [draw(cell, play, key) for key in (0, 1)]
    assert all(sweep.decided is None for sweep in drawn)
    assert "| 0.00 +- 0.00 | 0.00 +- 0.00 | - |" in decided_row(cell, "grid", drawn)


def test_decides_for_a_mix_shifted_to_smaller_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    drawn = draw(Cell(RECIPES, "start_0.2", "add+prod", shift=4), Play("pairs", (), 2, 1.0), 0)
    assert drawn.decided is Direction.MIX_AHEAD
    assert drawn.at_least is not None
    main(["--shifted", "4", "--sweeps", "1", "--methods", "pairs", "--pools", "start_0.2"])
    assert "| start_0.2 | add+prod |  | 4 | pairs | 1.00 +- 0.00 | 0.00 +- 0.00 |" in capsys.readouterr().out
