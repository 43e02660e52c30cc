"""The views saved with an experiment, as values. That MLflow's page shows them is tested in a browser."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.records import Sweep
from orchestrator.tracking import content, views
from tests.tracking.samples import Finished, finish

MOST_CHARACTERS = 5000
"""What MLflow takes as the value of an experiment's tag."""


@pytest.fixture(name="finished")
def finished_sweep(tmp_path: Path) -> Finished:
    return finish(tmp_path)


def test_every_column_is_one_that_is_recorded(finished: Finished) -> None:
    sweep = finished.sweep
    transitions = [content.transition_content(sweep, finished.answer, mix) for mix in finished.answer.mixes]
    records = {
        "transition": transitions,
        "run": [content.run_content(sweep, run) for run in finished.runs],
        "sweep": [content.sweep_content(sweep), content.answer_content(sweep, finished.answer, "finished")],
    }
    known = {
        kind: {f"params.`{name}`" for each in contents for name in each.params}
        | {f"metrics.`{sample.name}`" for each in contents for sample in each.samples}
        for kind, contents in records.items()
    }
    # Left out of the record where unknown; here one mix is censored, so that their ratio has no value.
    known["transition"] |= {"metrics.`synergy`", "metrics.`synergy_low`", "metrics.`synergy_high`"}
    known["sweep"] |= {"metrics.`transition/add`", "metrics.`synergy_low/add.prod`"}
    known["run"].add("metrics.`seconds`")
    for view in views.views(sweep):
        assert set(view.columns) <= known[view.kind], view.name
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


def _made(sweep: Sweep, year: str) -> Sweep:
    return replace(sweep, created=year + sweep.created[4:])
