"""Saved views of MLflow's page: the columns and charts that it shows first, for transitions and for runs.

MLflow 3.17 stores a saved view as a tag of the experiment. The page lists it under *Views*, and an address with
``viewStateShareKey`` opens it. If the address also has a filter or an order, the page ignores the key. So the view
itself contains the filter and the order.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

VIEW_TAG_PREFIX = "mlflow.sharedViewState."
"""Prefix of the tags that MLflow's page reads as views."""
VIEW_PARAMETER = "viewStateShareKey"
"""Parameter of an address that opens a view."""
TRANSITIONS = "orchestrator-transitions"
"""Id of the view of transitions."""
RUNS = "orchestrator-runs"
"""Id of the view of runs."""
AUTHOR = "made_by"
"""Name in a view's state that MLflow does not use. It drops the name when the user saves other columns over a view, so
a view without the name is the user's, and stays as it is."""
# MLflow lists nested runs flat only if they are sorted by a metric.
ROWS: dict[str, dict[str, Any]] = {
    TRANSITIONS: {"searchFilter": 'tags.kind = "transition"', "orderByKey": "metrics.`transition`", "orderByAsc": True},
    RUNS: {"searchFilter": 'tags.kind = "run"', "orderByKey": "metrics.`parameters`", "orderByAsc": True},
}
"""Filter and order of the rows of each view."""
FIXED = ("attributes.`Run Name`", "runDateAndNestInfo")
"""Ids of columns that MLflow always shows first: the name, and when the run was created."""
LAST = ("duration",)
"""Ids of columns that come last."""
TRANSITION_COLUMNS = (
    *("metrics.`transition`", "metrics.`low`", "metrics.`high`", "params.`mix`", "tags.`sweep`"),
    *("tags.`compared`", "metrics.`evidence`", "metrics.`pairs`", "metrics.`synergy`", "params.`verdict`"),
    *("metrics.`midpoint`", "metrics.`slope`", "metrics.`floor`", "metrics.`asymptote`"),
)
"""Ids of the columns of transitions, in their order."""
RUN_COLUMNS = (
    *("params.`mix`", "params.`{axis}`", "params.`seed`", "metrics.`test_accuracy/{target}`"),
    *("metrics.`parameters`", "metrics.`steps`", "tags.`status`", "tags.`sweep`"),
)
"""Ids of the columns of runs, in their order. ``axis`` and ``target`` are filled in."""
COLUMN_WIDTHS = {
    "attributes.`Run Name`": 220,
    "metrics.`transition`": 95,
    "metrics.`low`": 80,
    "metrics.`high`": 80,
    "params.`seed`": 65,
    "tags.`sweep`": 290,
    "tags.`compared`": 200,
}
"""Widths in pixels of columns for which MLflow's width would cut off text or waste space."""
FIRST_CHARTS = "Transitions"
"""Name of the section of charts that is shown first."""
MLFLOW_SECTIONS = ("Model metrics", "System metrics")
"""Names of the sections that MLflow adds to every experiment for all other metrics."""


def views(axis: str, target: str) -> dict[str, str]:
    """Return the tags of an experiment whose runs have this size axis and target, by name."""
    runs = [column.format(axis=axis, target=target) for column in RUN_COLUMNS]
    return {
        f"{VIEW_TAG_PREFIX}{TRANSITIONS}": _view(
            "Transitions", 2, ROWS[TRANSITIONS] | _table(TRANSITION_COLUMNS) | _charts()
        ),
        f"{VIEW_TAG_PREFIX}{RUNS}": _view("Runs", 1, ROWS[RUNS] | _table(runs)),
    }


def outdated(views: Mapping[str, str], tags: Mapping[str, str]) -> dict[str, str]:
    """Return the views that an experiment with these tags lacks, and those that an earlier version of this program
    wrote."""
    return {
        name: view for name, view in views.items() if name not in tags or (tags[name] != view and _is_ours(tags[name]))
    }


def address_of(view: str, tags: Collection[str]) -> str:
    """Return the parameters of an address that opens a view of the experiment with these tags.

    If an earlier version of this program recorded the experiment without the view, the address shows the same rows with
    MLflow's own columns.
    """
    if f"{VIEW_TAG_PREFIX}{view}" in tags:
        return f"{VIEW_PARAMETER}={view}"
    return urlencode(ROWS[view] | {"orderByAsc": "true"}, quote_via=quote)


def _is_ours(view: str) -> bool:
    """Return True for a view that this program wrote, and False for a user's or a damaged view."""
    try:
        return AUTHOR in json.loads(json.loads(view)["state"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return False


def _view(name: str, place: int, state: Mapping[str, Any]) -> str:
    """Return a view as MLflow stores it. MLflow lists views by ``createdAt``, the latest first."""
    inner = json.dumps({AUTHOR: "orchestrator", **state}, separators=(",", ":"))
    return json.dumps({"name": name, "createdAt": place, "state": inner})


def _table(columns: Sequence[str]) -> dict[str, Any]:
    """Return the part of a view that describes the table's columns."""
    return {
        "selectedColumns": list(columns),
        "columnOrder": [*FIXED, *columns, *LAST],
        "columnWidths": {name: width for name, width in COLUMN_WIDTHS.items() if name in (*FIXED, *columns)},
        "runsHiddenMode": "FIRST_20_RUNS",
    }


def _charts() -> dict[str, Any]:
    """Return the part of a view that describes its charts: three charts in one section, and MLflow's charts below."""
    curves = ["curve/median", "curve/low", "curve/high"]
    charts = [
        _line("curves", curves, xAxisScaleType="log"),
        _line("interval", ["interval"], scaleType="log"),
        _line("evidence", ["evidence"], scaleType="log"),
        # Without these, MLflow would add a separate chart for each of them.
        *(_line(f"no-{name}", [name], deleted=True) for name in curves[1:]),
    ]
    sections = [_section(FIRST_CHARTS), *(_section(name, display=False, isGenerated=True) for name in MLFLOW_SECTIONS)]
    return {"compareRunCharts": charts, "compareRunSections": sections, "isAccordionReordered": True}


def _line(name: str, metrics: Sequence[str], **options: Any) -> dict[str, Any]:
    """Return a chart of metrics over their steps. MLflow uses the metrics as its title."""
    return {
        "uuid": f"orchestrator-{name}",
        "type": "LINE",
        "metricKey": metrics[0],
        "selectedMetricKeys": list(metrics),
        "metricSectionId": _section(FIRST_CHARTS)["uuid"],
        "deleted": False,
        "isGenerated": False,
        "runsCountToCompare": 20,
        "lineSmoothness": 0,
        "xAxisKey": "step",
        "xAxisScaleType": "linear",
        "scaleType": "linear",
        "useGlobalXaxisKey": False,
        "useGlobalLineSmoothing": True,
        "displayPoints": True,
        **options,
    }


def _section(name: str, **options: Any) -> dict[str, Any]:
    """Return a section of charts. It is unfolded unless ``options`` override that."""
    uuid = f"orchestrator-{name.lower().replace(' ', '-')}"
    return {
        "uuid": uuid,
        "name": name,
        "display": True,
        "isReordered": True,
        "deleted": False,
        "isGenerated": False,
        **options,
    }
