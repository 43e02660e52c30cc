"""What the page says of the runs whose similarities it shows: which groups lie apart in them, and whether by chance."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.catalogue.reading import StoredSweep, read_sweep
from orchestrator.report.panels import pairs
from orchestrator.report.structure import smallest_chance, structure_lines
from orchestrator.space.spaces import load_space
from orchestrator.store.files import Home
from orchestrator.store.probed import ProbeResult, write_result
from tests.catalogue.fabricated import write_sweep


@pytest.fixture(name="stored")
def stored_sweep(tmp_path: Path) -> StoredSweep:
    home = Home(tmp_path)
    return read_sweep(home, write_sweep(home).id)


def test_each_run_that_is_shown_has_its_scores_the_least_likely_by_chance_first(stored: StoredSweep) -> None:
    assert structure_lines(stored.answer, stored.runs, stored.spec.make_family()) == ()
    first = pairs(stored.answer, stored.runs)[0]
    assert first.below is not None
    assert first.above is not None
    for run, parity in ((first.below, 0.4), (first.above, 0.01)):
        numbers = {"mod2": 0.61, "mod2.p": parity, "order": -0.2, "order.p": 0.7}
        write_result(run.runs, run.key, ProbeResult("separation", 1, numbers), {})
    below, above = structure_lines(stored.answer, stored.runs, stored.spec.make_family())
    assert below.startswith(f"{first.mix}, below: {stored.answer.size_axis} {first.below.config.size}, seed ")
    assert below.endswith(": nothing beyond chance: mod2 0.61 (p 0.4), order -0.20 (p 0.7)")
    assert above.endswith(": beyond chance mod2 0.61 (p 0.01); not order -0.20 (p 0.7)")


def test_few_items_allow_no_small_p_and_the_highest_score_of_them_is_said_to_be_that(stored: StoredSweep) -> None:
    assert smallest_chance((0, 1, 0, 1, 0, 1)) == pytest.approx(1 / 10)  # 20 ways to draw three of six, two alike.
    assert smallest_chance((0, 1, 2, 0, 1, 2)) == pytest.approx(1 / 15)
    assert smallest_chance((0, 0, 1)) == pytest.approx(1 / 3)
    first = pairs(stored.answer, stored.runs)[0].below
    assert first is not None
    family = load_space("add_vs_add_prod", "laptop").make_family()
    for chance, said in ((0.112, "as high as 6 items can score, too few to exclude"), (0.2, "nothing beyond")):
        write_result(first.runs, first.key, ProbeResult("separation", 1, {"mod2": 0.6, "mod2.p": chance}), {})
        (line,) = structure_lines(stored.answer, stored.runs, family)
        assert said in line
