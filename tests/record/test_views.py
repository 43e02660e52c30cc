"""The views saved with an experiment, as values. That MLflow's page shows them is tested in a browser."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.home.sweeps import Sweep
from orchestrator.record import mlflow_views, transition_content
from orchestrator.record.content import Content
from orchestrator.report.answer import answer
from tests.record.samples import Finished, finish
from tests.report.samples import bracketed, in_order
from trainables.base import Mix

MOST_CHARACTERS = 5000
"""What MLflow takes as the value of an experiment's tag."""
BESIDE_ASSISTANT, ACCURACY = 405, 60
"""Pixels that a window of 1440 has for our columns if MLflow's Assistant is open, and those of an accuracy."""


@pytest.fixture(name="finished")
def finished_sweep(tmp_path: Path) -> Finished:
    return finish(tmp_path)


def test_every_column_of_an_answer_is_one_that_is_recorded(finished: Finished) -> None:
    sweep, found = finished.sweep, answer(finished.sweep.spec, bracketed(), blocks=in_order(finished.sweep.spec))
    # Those of runs depend on what a real learner measures: the end-to-end test holds them against its record.
    view, _ = mlflow_views.views(sweep)
    records = [transition_content.transition_content(sweep, found, mix) for mix in found.mixes]
    assert view.sort in view.columns
    assert set(view.columns) <= {name for each in records for name in _names(each)}


def test_a_view_is_offered_once_and_the_newest_sweep_decides(finished: Finished) -> None:
    offered = mlflow_views.tags(finished.sweep, {})
    assert len(offered) == 2
    assert all(len(value) < MOST_CHARACTERS for value in offered.values())
    assert mlflow_views.tags(finished.sweep, offered) == {}
    assert mlflow_views.tags(_made(finished.sweep, "2025"), offered) == {}
    assert mlflow_views.tags(_made(finished.sweep, "2027"), offered).keys() == offered.keys()
    told = json.loads(offered["mlflow.sharedViewState.transitions"])
    assert told["name"] == "Transitions"
    assert json.loads(told["state"])["searchFilter"] == 'tags.kind = "transition"'


def test_columns_that_identify_a_record_come_first(finished: Finished) -> None:
    transitions, runs = mlflow_views.views(finished.sweep)
    first = [column.split("`")[1] for column in runs.columns[:4]]
    assert first == ["mix", "units", "seed", "test_accuracy/add"]  # Seen beside MLflow's Assistant.
    assert transitions.columns[:3] == ("tags.`mix`", "tags.`found`", "tags.`compared`")
    for mixes in (runs.mixes, ("add+prod @ start_fan_in",), ("x" * 60,)):
        widths = json.loads(json.dumps(replace(runs, mixes=mixes).state()))["columnWidths"]
        there = sum(widths[column] for column in runs.columns[:3])
        assert len(mixes[0]) > 30 or widths["params.`mix`"] >= 7 * max(map(len, mixes)), "names are whole"
        assert there + ACCURACY <= BESIDE_ASSISTANT


def _names(recorded: Content) -> set[str]:
    """Parameters, metrics and tags as MLflow's queries name them."""
    metrics = {f"metrics.`{sample.name}`" for sample in recorded.samples}
    return metrics | {f"params.`{name}`" for name in recorded.params} | {f"tags.`{name}`" for name in recorded.tags}


def _made(sweep: Sweep, year: str) -> Sweep:
    return replace(sweep, created=year + sweep.created[4:])


def test_every_view_opens_on_charts_of_what_is_recorded(finished: Finished) -> None:
    sweep, found = finished.sweep, answer(finished.sweep.spec, bracketed(), blocks=in_order(finished.sweep.spec))
    transitions = [transition_content.transition_content(sweep, found, mix) for mix in found.mixes]
    measured = {sample.name for each in transitions for sample in each.samples}
    for view in mlflow_views.views(sweep):
        state = json.loads(json.dumps(view.state()))
        sections = {section["uuid"]: section for section in state["compareRunSections"]}
        first = state["compareRunSections"][0]
        assert (first["name"], first["display"]) == (view.name, True)
        assert [each["display"] for each in state["compareRunSections"][1:]] == [False, False]
        assert len(state["compareRunCharts"]) >= 3
        assert {card["metricSectionId"] for card in state["compareRunCharts"]} == {first["uuid"]} <= sections.keys()
        assert len({card["uuid"] for card in state["compareRunCharts"]}) == len(state["compareRunCharts"])
        if view.key != mlflow_views.RUNS:  # Those of runs depend on what a real learner measures.
            shown = [card.get("selectedMetrics", [card.get("metricKey")]) for card in state["compareRunCharts"]]
            assert {name for names in shown for name in names} <= measured


def test_a_view_of_many_tasks_fits_into_a_tag(finished: Finished) -> None:
    spec = finished.sweep.spec
    tasks = "+".join(f"task_of_some_length_{number}" for number in range(40))
    many = type(spec).model_construct(**{**dict(spec), "mixes": (*spec.mixes, Mix.parse(tasks))})
    offered = mlflow_views.tags(replace(finished.sweep, spec=many), {})
    assert all(len(value) < MOST_CHARACTERS for value in offered.values())
