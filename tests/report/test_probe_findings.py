"""Probes on the page: means over seeds, failures, missing results, and structure tested against chance."""

from __future__ import annotations

import math
import re
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.catalog.export import page_of
from orchestrator.catalog.reading import StoredSweep
from orchestrator.home.run_files import ProbeResult, write_result
from orchestrator.report.answer import Answer
from orchestrator.report.figures.probes import probe_figure
from orchestrator.report.probe_findings import ProbePoint, drawn_points, probe_notes, probe_points, structure_paragraphs
from orchestrator.space.runs import Run
from orchestrator.space.spaces import load_space
from orchestrator.transition.types import Estimate, Verdict
from tests.report.samples import written
from tests.sweep.sweeps import spec
from trainables.probes.base import Probed
from trainables.probes.nulls import grouping_count

FAMILY = load_space("add_vs_add_prod", "quick").make_family()


@pytest.fixture(name="probed")
def probed_sweep(tmp_path: Path) -> StoredSweep:
    return written(tmp_path, spec(sizes=[8, 16], probes=["similarity"]))


def leave(run: Run, error: str = "", **numbers: float) -> None:
    """Store a probe's numbers for a run, or its error."""
    write_result(run.directory, ProbeResult("similarity", 1, numbers, error), {})


def test_numbers_of_different_code_are_said(probed: StoredSweep) -> None:
    """A probe was changed, and another sweep probed again only the runs that it shares with this one."""
    note = (
        "The numbers of the probe similarity are of different versions of its code; `probe SWEEP` updates the others."
    )
    for run in probed.runs:
        leave(run, ring=0.5)
    assert probe_notes(probed.spec, probed.runs) == []
    write_result(probed.runs[0].directory, ProbeResult("similarity", 1, {"ring": 0.5}, source="0123456789abcdef"), {})
    assert probe_notes(probed.spec, probed.runs) == [note]


def test_numbers_are_grouped_by_probe_and_chance_results_are_marked(probed: StoredSweep) -> None:
    assert probe_points(probed.runs) == {}
    cells = {(run.config.mix.name, run.config.size, run.config.seed): run for run in probed.runs}
    for seed, ring, share in ((0, 0.5, 0.01), (1, 0.25, 0.2)):
        run = cells["add+prod", 16, seed]
        write_result(run.directory, ProbeResult("similarity", 1, {"ring": ring, "ring.p": share}), {})
    leave(cells["add", 8, 0], ends=-0.125)
    write_result(cells["add", 16, 1].directory, ProbeResult("mistakes", 1, {"mod2": 0.75}), {})
    points = probe_points(probed.runs)
    assert points["mistakes"] == {"mod2": [("add", 16, 0.75, False)]}
    assert points["similarity"]["ends"] == [("add", 8, -0.125, False)]
    assert sorted(points["similarity"]["ring"]) == [("add+prod", 16, 0.25, True), ("add+prod", 16, 0.5, False)]
    assert set(points["similarity"]) == {"ends", "ring"}
    figure = probe_figure(probed.answer, points["similarity"])
    shown = {axes.get_title(loc="left"): axes for axes in figure.axes}
    drawn = sorted(float(np.asarray(line.get_ydata())[0]) for line in shown["ring"].lines)
    assert drawn == [0.25, 0.375, 0.5]  # Two runs and their mean.


def test_a_figure_of_many_runs_has_two_lines_of_markers_a_mix(probed: StoredSweep) -> None:
    points = [
        ProbePoint(mix.mix, size, size / 64, is_chance)
        for mix in probed.answer.mixes
        for size in range(1, 65)
        for is_chance in (False, True, True)
    ]
    [axes] = [axes for axes in probe_figure(probed.answer, {"ring": points}).axes if axes.get_title(loc="left")]
    assert [len(np.asarray(line.get_xdata())) for line in axes.lines] == [64, 128, 64] * len(probed.answer.mixes)


def test_failures_and_runs_without_probes_are_reported(probed: StoredSweep) -> None:
    assert probe_notes(probed.spec, probed.runs) == [
        "The probe similarity has not run on 8 runs; `probe SWEEP` computes the missing results."
    ]
    for run in probed.runs[:6]:
        leave(run, ring=0.5)
    for run in probed.runs[6:]:
        leave(run, f"Traceback\nValueError: {run.config.seed}")
    assert probe_notes(probed.spec, probed.runs) == [
        "The probe similarity failed on 2 runs (ValueError: 0); `logs RUN` shows the whole error."
    ]
    assert probe_notes(spec(), probed.runs[:6]) == []


def test_a_page_draws_some_numbers_of_a_probe_with_many_and_names_the_rest(probed: StoredSweep) -> None:
    for run in probed.runs:
        leave(run, "", **{f"n{number:03}": float(number) for number in range(300)})
        write_result(run.directory, ProbeResult("components", 1, {"first": 0.5}), {})
    drawn, notes = drawn_points(probe_points(probed.runs))
    assert {probe: len(numbers) for probe, numbers in drawn.items()} == {"components": 1, "similarity": 59}
    assert list(drawn["similarity"])[-1] == "n058"
    assert notes == [
        "Of 301 numbers of probes, the first 60 are drawn, because a page has room for no more; `export SWEEP` writes "
        "all of them."
    ]
    begun = time.process_time()
    html = page_of(probed)
    assert time.process_time() - begun < 25
    assert all(name in html for name in ("n000", "n058", "Of 301 numbers of probes, the first 60 are drawn"))
    assert "n059" not in html


def test_all_numbers_are_drawn_if_there_is_room(probed: StoredSweep) -> None:
    leave(probed.runs[0], "", **{f"n{number}": float(number) for number in range(60)})
    points = probe_points(probed.runs)
    assert drawn_points(points) == (points, [])


@pytest.mark.parametrize("number", [1e308, -1e308, 1.1e100, math.inf, math.nan])
def test_numbers_that_no_axis_can_show_are_named_and_left_out(number: float, probed: StoredSweep) -> None:
    leave(probed.runs[0], ring=number)
    leave(probed.runs[1], ring=-1e100)
    leave(probed.runs[2], ring=1e100)
    with pytest.raises(ValueError, match="the number 'ring' is"):
        Probed({"ring": number})
    assert [point.value for point in probe_points(probed.runs)["similarity"]["ring"]] == [-1e100, 1e100]
    [failure, _] = probe_notes(probed.spec, probed.runs)
    assert "similarity.json cannot be read: a number is not from -1e+100 to 1e+100" in failure
    assert "not from -1e+100 to 1e+100" in page_of(probed)


@pytest.fixture(name="stored")
def stored_sweep(tmp_path: Path) -> StoredSweep:
    return written(tmp_path)


def numbers(parity: float, order: float) -> dict[str, float]:
    return {"mod2": 0.61, "mod2.p": parity, "order": -0.2, "order.p": order}


def write(stored: StoredSweep, mix: str, scores: dict[int, dict[str, float]]) -> list[int]:
    """Store these numbers in every run of a mix, by size. Return the sizes of its runs."""
    sizes = []
    for run in stored.runs:
        if run.config.label == mix and run.config.size in scores:
            write_result(run.directory, ProbeResult("separation", 1, scores[run.config.size]), {})
            sizes.append(run.config.size)
    return sizes


def words(stored: StoredSweep, answer: Answer | None = None) -> str:
    (paragraph,) = structure_paragraphs(answer or stored.answer, stored.runs, FAMILY)
    assert paragraph.label == "Embeddings of the numbers"
    return paragraph.text


@pytest.fixture(scope="module", name="many")
def sweep_of_many_runs(tmp_path_factory: pytest.TempPathFactory) -> StoredSweep:
    return written(tmp_path_factory.mktemp("many"), spec(seeds=4))


@given(st.data())
@settings(max_examples=10)
def test_counts_include_exactly_the_runs_outside_the_interval(many: StoredSweep, data: st.DataObject) -> None:
    runs = [run for run in many.runs if run.config.label == "add"]
    chances = {run.key: data.draw(st.sampled_from((0.01, 0.05, 0.2, 0.9))) for run in runs}
    for run in runs:
        write_result(run.directory, ProbeResult("separation", 1, numbers(chances[run.key], 0.7)), {})
    low, high = sorted(data.draw(st.tuples(*(st.floats(5, 130),) * 2)))
    mix = many.answer.mixes[0]
    moved = replace(mix.target.transition, verdict=Verdict.FOUND, relative=Estimate((low + high) / 2, low, high))
    answer = replace(many.answer, mixes=(replace(mix, tasks=(replace(mix.target, transition=moved),)),))
    sides = {
        "below": [chances[run.key] <= 0.05 for run in runs if run.config.size <= low],
        "above": [chances[run.key] <= 0.05 for run in runs if run.config.size >= high],
    }
    if not any(sides.values()):
        assert structure_paragraphs(answer, many.runs, FAMILY) == ()
    elif not any(map(any, sides.values())):
        assert words(many, answer) == "add: no structure beyond chance."
    else:
        counts = re.findall(r"(\d+) of (\d+)(?: runs?)? (below|above)", words(many, answer))
        assert counts == [(str(sum(outside)), str(len(outside)), side) for side, outside in sides.items() if outside]


@pytest.mark.parametrize("verdict", [Verdict.UNDECIDED, Verdict.ABOVE])
def test_without_a_transition_no_run_counts_as_below_or_above(stored: StoredSweep, verdict: Verdict) -> None:
    sizes = write(stored, "add", {8: numbers(0.01, 0.7), 96: numbers(0.4, 0.7)})
    mix = stored.answer.mixes[0]
    target = replace(mix.target, transition=replace(mix.target.transition, verdict=verdict))
    answer = replace(stored.answer, mixes=(replace(mix, tasks=(target,)), *stored.answer.mixes[1:]))
    assert words(stored, answer) == f"add: even and odd numbers are apart in {sizes.count(8)} of {len(sizes)} runs."
    shares = tuple(replace(share, learned=0) for share in mix.shares)
    answer = replace(stored.answer, mixes=(replace(mix, tasks=(target,), shares=shares), *stored.answer.mixes[1:]))
    assert structure_paragraphs(answer, stored.runs, stored.spec.make_family()) == (), (
        "a task that no run learned is left out"
    )


def test_too_few_items_for_a_small_p_are_reported(stored: StoredSweep) -> None:
    assert grouping_count((0, 1, 0, 1, 0, 1)) == 10  # 20 ways to draw three of six, and each grouping occurs twice.
    assert grouping_count((0, 1, 2, 0, 1, 2)) == 15
    assert grouping_count((0, 0, 1)) == 3
    sizes = write(stored, "add", {8: {"mod2": 0.6, "mod2.p": 0.112}})
    assert words(stored) == (
        f"add: even and odd numbers are apart in {len(sizes)} of {len(sizes)} runs below the transition. "
        "With only 6 number tokens, chance may explain that even and odd numbers are apart."
    )
    write(stored, "add", {8: {"mod2": 0.6, "mod2.p": 0.2}})
    assert words(stored) == "add: no structure beyond chance."
