"""The views saved with an experiment: records, columns and charts that MLflow's page shows under *Views*.

MLflow (3.17) keeps a saved view as a tag of the experiment: a name, its times and the state of the page as JSON. Charts
are *cards* of *sections* in that state. The page makes a card of every other metric itself, in sections after ours, and
leaves out a card if no record shown has its metric.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from orchestrator.home.sweeps import Sweep
from orchestrator.record.content import metric_name

TAG = "mlflow.sharedViewState."
"""What the tags of saved views begin with; the rest is the view's key."""
PARAMETER = "viewStateShareKey"
"""What an address names a view's key by."""
TRANSITIONS = "transitions"
"""Key of the view of transitions, of all sweeps of the experiment."""
RUNS = "runs"
"""Key of the view that lists trained models."""
LETTER, ROOM = 8, 40
"""Pixels of a letter in a column's head and of the head's icons, so that the head can be read whole."""
WIDEST_MIX = 180
"""Pixels: the columns that identify a run, and its accuracy, are seen beside MLflow's Assistant at 1440."""
WORDY = {"seeds_learned": 260, "sweep": 260, "found": 160, "found_parameters": 190, "compared": 190}
"""Widths of columns whose values are words, in pixels."""

MOST_TASKS = 12
"""Tasks with a column of accuracies: MLflow takes 5000 characters as the value of an experiment's tag."""
OURS: Final = "chosen"
"""Key of our section of charts."""
ABREAST = 2
"""Charts side by side there. A chart's title is its metric's name, which three would cut."""
GENERATED: Final = {"generated": "Model metrics", "system": "System metrics"}
"""Keys and names of the sections that MLflow fills with the other metrics: closed at first."""
MOST_RUNS = 100
"""Records in one chart."""
ALL_RUNS = "SHOW_ALL"
"""Charts show all records of the view, not the first ten."""


Chart = dict[str, Any]
"""A card in the page's words."""


def bars(metric: str) -> Chart:
    """A bar a record."""
    return {"type": "BAR", "metricKey": metric}


def curves(metric: str) -> Chart:
    """A curve a record, over steps."""
    return {
        "type": "LINE",
        "metricKey": metric,
        "selectedMetricKeys": [metric],
        "xAxisKey": "step",
        "xAxisScaleType": "linear",
        "scaleType": "linear",
        "range": {},
        "yAxisKey": "metric",
        "yAxisExpressions": [],
        "lineSmoothness": 0,
        "useGlobalLineSmoothing": True,
        "useGlobalXaxisKey": True,
    }


def points(x: str, y: str) -> Chart:
    """A point a record: the metric ``y`` against the metric ``x``."""
    axes = {name: {"key": key, "type": "METRIC"} for name, key in (("xaxis", x), ("yaxis", y))}
    return {"type": "SCATTER", **axes}


@dataclass(frozen=True)
class View:
    """The records of the kind that ``key`` is the plural of, sorted by ``sort``. ``columns`` are named as in MLflow's
    queries, ``mixes`` the names that stand in the first; ``charts`` are those of its *Chart view*."""

    key: str
    columns: tuple[str, ...]
    sort: str
    charts: tuple[Chart, ...]
    mixes: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.key.capitalize()

    def state(self) -> dict[str, object]:
        """The state of the page."""
        sections = [{"uuid": OURS, "name": self.name, "display": True, "isReordered": True, "columns": ABREAST}]
        sections += [
            {"uuid": uuid, "name": each, "display": False, "isReordered": True} for uuid, each in GENERATED.items()
        ]
        cards = [
            {"uuid": f"{OURS}-{place}", "metricSectionId": OURS, "runsCountToCompare": MOST_RUNS, **chart}
            for place, chart in enumerate(self.charts)
        ]
        return {
            "searchFilter": f'tags.kind = "{self.key.removesuffix("s")}"',
            "orderByKey": self.sort,
            "orderByAsc": True,
            "selectedColumns": self.columns,
            "columnOrder": self.columns,
            "columnWidths": {column: _width(column, self.mixes) for column in self.columns},
            "compareRunSections": sections,
            "compareRunCharts": cards,
            "isAccordionReordered": True,
            "runsHiddenMode": ALL_RUNS,
        }


def views(sweep: Sweep) -> list[View]:
    """The views of an experiment whose newest sweep this is.

    Both are sorted by a metric: only then does the page list them flat, not nested in their sweeps. Columns that
    identify a run come first: MLflow's Assistant covers a quarter of the page.
    """
    spec = sweep.spec
    compared = spec.family_class.compares_mixes and len(spec.mixes) > 1
    tasks = sorted({task for mix in spec.mixes for task in mix.tasks}, key=lambda task: (task != spec.target, task))
    comparison = ["evidence", "at_least"] if compared else []
    found = ("transition", "low", "high", *comparison, "runs")
    tag_names = ("mix", "found", *(["compared"] if compared else []), "found_parameters", "seeds_learned", "sweep")
    mixes, learning = tuple(mix.name for mix in spec.mixes), f"accuracy/{metric_name(spec.target)}"
    accuracies = [f"test_accuracy/{metric_name(task)}" for task in tasks[:MOST_TASKS]]
    return [
        View(
            TRANSITIONS,
            (*_columns("tags", *tag_names), *_columns("metrics", *found)),
            "metrics.`transition`",
            charts=tuple(map(bars, ("transition", "low", "high", "transition_parameters", *comparison))),
            mixes=mixes,
        ),
        View(
            RUNS,
            (
                *_columns("params", "mix", spec.size_axis, "seed"),
                *_columns("metrics", *accuracies, "parameters", "steps", "seconds"),
                *_columns("tags", "sweep"),
            ),
            "metrics.`parameters`",
            charts=(points("parameters", accuracies[0]), curves(learning), curves("loss"), bars("seconds")),
            mixes=mixes,
        ),
    ]


def _width(column: str, mixes: Sequence[str]) -> int:
    """Pixels of a column, so that its head, or the longest mix, can be read whole."""
    name = column.partition("`")[2].rstrip("`")
    if name == "mix":
        return min(LETTER * max(map(len, (*mixes, "mixes"))) + ROOM // 2, WIDEST_MIX)
    return WORDY.get(name, LETTER * len(name) + ROOM)


def _columns(kind: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{kind}.`{name}`" for name in names)


def tags(sweep: Sweep, held: Mapping[str, str]) -> dict[str, str]:
    """The views as tags of the experiment, without those it holds already: the same, from a newer sweep, or changed by
    a person."""
    made = int(datetime.fromisoformat(sweep.created).timestamp() * 1000)
    wanted = {}
    for place, view in enumerate(views(sweep)):
        # The page lists the latest first.
        at = made - place
        state = {
            "name": view.name,
            "createdAt": at,
            "updatedAt": at,
            "state": json.dumps(view.state(), separators=(",", ":")),
        }
        kept = json.loads(held[TAG + view.key]) if TAG + view.key in held else None
        if kept is None or kept["createdAt"] < at:
            wanted[TAG + view.key] = json.dumps(state)
    return wanted
