"""The views saved with an experiment, as values. That MLflow's page shows them is tested in a browser."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.home.sweeps import Sweep
from orchestrator.record import content, transition_content, views
from orchestrator.record.content import Content
from orchestrator.report.answer import answer
from tests.record.samples import Finished, finish
from tests.report.samples import bracketed

MOST_CHARACTERS = 5000
"""What MLflow takes as the value of an experiment's tag."""


@pytest.fixture(name="finished")
def finished_sweep(tmp_path: Path) -> Finished:
    return finish(tmp_path)


def test_every_column_of_an_answer_is_one_that_is_recorded(finished: Finished) -> None:
    sweep, found = finished.sweep, answer(finished.sweep.spec, bracketed())
    records = {
        "transition": [transition_content.transition_content(sweep, found, mix) for mix in found.mixes],
        "sweep": [content.sweep_content(sweep), transition_content.answer_content(sweep, found, "finished")],
    }
    for view in views.views(sweep):
        # Those of runs depend on what a real learner measures: the end-to-end test holds them against its record.
        if view.kind in records:
            known = {name for each in records[view.kind] for name in _names(each)}
            assert set(view.columns) <= known
            assert view.sort in {*view.columns, "attributes.start_time"}


def test_a_view_is_offered_once_and_the_newest_sweep_decides(finished: Finished) -> None:
    offered = views.tags(finished.sweep, {})
    assert len(offered) == 3
    assert all(len(value) < MOST_CHARACTERS for value in offered.values())
    assert views.tags(finished.sweep, offered) == {}
    assert views.tags(_made(finished.sweep, "2025"), offered) == {}
    assert views.tags(_made(finished.sweep, "2027"), offered).keys() == offered.keys()
    told = json.loads(offered["mlflow.sharedViewState.transitions"])
    assert told["name"] == "Transitions"
    assert json.loads(told["state"])["searchFilter"] == 'tags.kind = "transition"'


def test_a_person_s_view_is_not_replaced(finished: Finished) -> None:
    offered = views.tags(finished.sweep, {})
    key = "mlflow.sharedViewState.transitions"
    changed = json.loads(offered[key]) | {"state": "{}", "updatedAt": json.loads(offered[key])["updatedAt"] + 1}
    assert views.tags(finished.sweep, offered | {key: json.dumps(changed)}) == {}


def test_heads_of_columns_can_be_read_whole(finished: Finished) -> None:
    for view in views.views(finished.sweep):
        state = view.state()
        widths = state["columnWidths"]
        assert isinstance(widths, dict)
        for column, width in widths.items():
            assert width >= 8 * len(column.split("`")[1])
    transitions, runs, sweeps = views.views(finished.sweep)
    first = [column.split("`")[1] for column in runs.columns[:4]]
    assert first == ["mix", "units", "test_accuracy/add", "seed"]  # Seen beside MLflow's Assistant.
    assert runs.columns[-1] == "tags.`sweep`"
    assert transitions.columns[:3] == ("tags.`mix`", "tags.`found`", "tags.`saving`")
    assert "tags.`sweep`" in transitions.columns
    assert "tags.`answer`" in sweeps.columns


def _names(recorded: Content) -> set[str]:
    """Parameters, metrics and tags as MLflow's queries name them."""
    metrics = {f"metrics.`{sample.name}`" for sample in recorded.samples}
    return metrics | {f"params.`{name}`" for name in recorded.params} | {f"tags.`{name}`" for name in recorded.tags}


def _made(sweep: Sweep, year: str) -> Sweep:
    return replace(sweep, created=year + sweep.created[4:])


def test_every_view_opens_on_charts_of_what_is_recorded(finished: Finished) -> None:
    sweep, found = finished.sweep, answer(finished.sweep.spec, bracketed())
    transitions = [transition_content.transition_content(sweep, found, mix) for mix in found.mixes]
    ending = transition_content.answer_content(sweep, found, "finished")
    measured = {sample.name for each in (*transitions, ending) for sample in each.samples}
    for view in views.views(sweep):
        state = json.loads(json.dumps(view.state()))
        sections = {section["uuid"]: section for section in state["compareRunSections"]}
        first = state["compareRunSections"][0]
        assert (first["name"], first["display"]) == (view.name, True)
        assert [each["display"] for each in state["compareRunSections"][1:]] == [False, False]
        assert len(state["compareRunCharts"]) >= 3
        assert {card["metricSectionId"] for card in state["compareRunCharts"]} == {first["uuid"]} <= sections.keys()
        assert len({card["uuid"] for card in state["compareRunCharts"]}) == len(state["compareRunCharts"])
        if view.kind != "run":  # Those of runs depend on what a real learner measures.
            shown = [card.get("selectedMetrics", [card.get("metricKey")]) for card in state["compareRunCharts"]]
            assert {name for names in shown for name in names} <= measured


def test_a_view_too_long_for_a_tag_is_compressed_as_the_page_does(finished: Finished) -> None:
    """A sweep of many mixes has many columns."""
    spec = finished.sweep.spec
    many = [f"add:{weight}+prod" for weight in range(2, 40)]
    wide = replace(finished.sweep, spec=type(spec).model_validate({**spec.to_dict(), "mixes": ["add", *many]}))
    offered = views.tags(wide, {})
    assert all(len(value) < MOST_CHARACTERS for value in offered.values())
    told = json.loads(offered["mlflow.sharedViewState.sweeps"])["state"]
    assert told.startswith("deflate;")
    state = json.loads(zlib.decompress(base64.b64decode(told.removeprefix("deflate;"))))
    assert len(state["selectedColumns"]) > len(many)
    assert views.tags(wide, offered) == {}
