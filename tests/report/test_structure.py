"""What the page says of the runs whose similarities it shows: which groups lie apart in them, and whether by chance."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.catalogue.reading import StoredSweep, read_sweep
from orchestrator.report.panels import pairs
from orchestrator.report.structure import smallest_chance, structures, told
from orchestrator.space.spaces import load_space
from orchestrator.store.files import Home
from orchestrator.store.probed import ProbeResult, write_result
from tests.catalogue.fabricated import write_sweep


@pytest.fixture(name="stored")
def stored_sweep(tmp_path: Path) -> StoredSweep:
    home = Home(tmp_path)
    return read_sweep(home, write_sweep(home).id)


def numbers(parity: float, order: float) -> dict[str, float]:
    return {"mod2": 0.61, "mod2.p": parity, "order": -0.2, "order.p": order}


def test_each_run_that_is_shown_says_what_lies_apart_in_it_and_its_scores(stored: StoredSweep) -> None:
    family = load_space("add_vs_add_prod", "laptop").make_family()
    assert structures(stored.answer, stored.runs, family) == ()
    first = pairs(stored.answer, stored.runs)[0]
    assert first.below is not None
    assert first.above is not None
    for run, found in ((first.below, numbers(0.4, 0.7)), (first.above, numbers(0.01, 0.02))):
        write_result(run.runs, run.key, ProbeResult("separation", 1, found), {})
    (one,) = structures(stored.answer, stored.runs, family)
    assert (one.mix, one.below and one.below.size) == (first.mix, first.below.config.size)
    assert one.said == (
        f"{first.mix}: no structure beyond chance below its transition, even and odd numbers partly apart and "
        "neighbours faintly alike above it"
    )
    assert one.below is not None
    assert one.below.detail == "mod2 0.61 (p 0.4), order -0.20 (p 0.7)"
    write_result(first.above.runs, first.above.key, ProbeResult("separation", 1, numbers(0.4, 0.7)), {})
    (one,) = structures(stored.answer, stored.runs, family)
    assert one.said == f"{first.mix}: no structure beyond chance, below its transition and above it"


def test_few_items_allow_no_small_p_and_the_highest_score_of_them_is_said_to_be_that(stored: StoredSweep) -> None:
    assert smallest_chance((0, 1, 0, 1, 0, 1)) == pytest.approx(1 / 10)  # 20 ways to draw three of six, two alike.
    assert smallest_chance((0, 1, 2, 0, 1, 2)) == pytest.approx(1 / 15)
    assert smallest_chance((0, 0, 1)) == pytest.approx(1 / 3)
    first = pairs(stored.answer, stored.runs)[0].below
    assert first is not None
    family = load_space("add_vs_add_prod", "laptop").make_family()
    for chance, said in (
        (0.112, "even and odd numbers partly apart (p 0.11)"),
        (0.2, "no structure beyond chance"),
    ):
        write_result(first.runs, first.key, ProbeResult("separation", 1, {"mod2": 0.6, "mod2.p": chance}), {})
        found = structures(stored.answer, stored.runs, family)
        assert found[0].below is not None
        assert found[0].below.judged == said
        (paragraph,) = told(found, family.words)
        assert paragraph.label == "Embeddings of the numbers"
        why = "With 6 number tokens, even and odd numbers apart may be chance."
        assert paragraph.text.endswith(why) == (chance < 0.2)
    assert told((), family.words) == ()


def test_how_strong_a_structure_is_stands_in_its_words_and_both_sides_of_one_are_told_together(
    stored: StoredSweep,
) -> None:
    family = load_space("add_vs_add_prod", "laptop").make_family()
    first = pairs(stored.answer, stored.runs)[0]
    assert first.below is not None
    assert first.above is not None
    for run, score in ((first.below, 1.77), (first.above, 0.29)):
        write_result(run.runs, run.key, ProbeResult("separation", 1, {"mod2": score, "mod2.p": 0.02}), {})
    (one,) = structures(stored.answer, stored.runs, family)
    assert one.said == f"{first.mix}: even and odd numbers clearly apart below its transition, faintly above it"
    write_result(first.above.runs, first.above.key, ProbeResult("separation", 1, {"order": 0.9, "order.p": 0.02}), {})
    (one,) = structures(stored.answer, stored.runs, family)
    assert one.said.endswith("clearly apart below its transition, neighbours clearly alike above it")


def test_groupings_are_called_by_what_their_items_share() -> None:
    numbers_by = load_space("add_vs_add_prod", "laptop").make_family()
    assert numbers_by.grouping_words() == {
        "mod2": "even and odd numbers",
        "mod3": "numbers of different remainders modulo 3",
    }
    permutations = load_space("permutations", "laptop").make_family()
    assert permutations.grouping_words() == {
        "sign": "elements of different sign",
        "order": "elements of different order",
    }
