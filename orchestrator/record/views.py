"""The views saved with an experiment: records, columns and charts that MLflow's page shows under *Views*.

MLflow (3.17) keeps a saved view as a tag of the experiment: a name, its times and the state of the page as JSON. Charts
are *cards* of *sections* in that state. The page makes a card of every other metric itself, in sections after ours, and
leaves out a card if no record shown has its metric.
"""

from __future__ import annotations

import base64
import json
import zlib
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
WORDY = {
    "answer": 520,
    "seeds_learned": 260,
    "sweep": 260,
    "mix": 120,
    "found": 160,
    "found_parameters": 190,
    "saving": 190,
}
"""Widths of columns whose values are words, in pixels."""

MOST_BARS = 4
"""Mixes with a chart in the view of sweeps."""
LONGEST = 5000
"""Characters that MLflow takes as the value of an experiment's tag."""
ROOM_FOR_NAME = 200
"""Characters of these for all but the state."""
DEFLATED = "deflate;"
"""Prefix of a state that the page has compressed."""


OURS: Final = "chosen"
"""Key of our section of charts."""
GENERATED: Final = {"generated": "Model metrics", "system": "System metrics"}
"""Keys and names of the sections that MLflow fills with the other metrics: closed at first."""
MOST_RUNS = 100
"""Records in one chart."""
ALL_RUNS = "SHOW_ALL"
"""Charts show all records of the view, not the first ten."""


Chart = dict[str, Any]
"""A card in the page's words."""


def bars(title: str, metric: str) -> Chart:
    """A bar a record."""
    return {"type": "BAR", "metricKey": metric, "displayName": title}


def curves(title: str, metric: str) -> Chart:
    """A curve a record, over steps."""
    return {
        "type": "LINE",
        "metricKey": metric,
        "selectedMetricKeys": [metric],
        "displayName": title,
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


def points(title: str, x: str, y: str) -> Chart:
    """A point a record: the metric ``y`` against the metric ``x``."""
    axes = {name: {"key": key, "type": "METRIC"} for name, key in (("xaxis", x), ("yaxis", y))}
    return {"type": "SCATTER", "displayName": title, **axes}


@dataclass(frozen=True)
class View:
    """Records of one ``kind`` with these ``columns``, named as in MLflow's queries, sorted by ``sort``; and the
    ``charts`` of its *Chart view*."""

    key: str
    name: str
    kind: str
    columns: tuple[str, ...]
    sort: str
    ascending: bool = True
    charts: tuple[Chart, ...] = ()

    def state(self) -> dict[str, object]:
        """The state of the page."""
        return {
            "searchFilter": f'tags.kind = "{self.kind}"',
            "orderByKey": self.sort,
            "orderByAsc": self.ascending,
            "selectedColumns": self.columns,
            "columnOrder": self.columns,
            "columnWidths": {column: _width(column) for column in self.columns},
            **_chart_state(self.name, self.charts),
        }


def views(sweep: Sweep) -> list[View]:
    """The views of an experiment whose newest sweep this is: one for each kind of record.

    Transitions and runs are sorted by a metric: only then does the page list them flat, not nested in their sweeps.
    Columns that identify a run come first: MLflow's Assistant covers a quarter of the page.
    """
    spec = sweep.spec
    mixes = [metric_name(mix.name) for mix in spec.mixes]
    compared = [mix for mix in spec.mixes if spec.family_class.compares_mixes and mix != spec.baseline]
    tasks = sorted({task for mix in spec.mixes for task in mix.tasks}, key=lambda task: (task != spec.target, task))
    shown = spec.mixes[:MOST_BARS]
    found = ("transition", "low", "high", *(["synergy"] if compared else []), "runs")
    said = ("mix", "found", *(["saving"] if compared else []), "found_parameters", "seeds_learned", "sweep")
    counted, score = spec.family_class.words.parameters, spec.family_class.words.score
    accuracies = [f"test_accuracy/{metric_name(task)}" for task in tasks]
    answers = (*(f"transition/{mix}" for mix in mixes), *(f"synergy_low/{metric_name(mix.name)}" for mix in compared))
    return [
        View(
            TRANSITIONS,
            "Transitions",
            "transition",
            (*_tags(*said), *_metrics(*found)),
            "metrics.`transition`",
            charts=(
                bars(f"transition: {spec.size_axis}", "transition"),
                bars("lower end of its interval", "low"),
                bars("upper end of its interval", "high"),
                bars(f"transition: {counted}", "transition_parameters"),
                *([bars(f"times fewer {counted}", "synergy")] if compared else []),
            ),
        ),
        View(
            RUNS,
            "Runs",
            "run",
            (
                *_params("mix", spec.size_axis),
                *_metrics(accuracies[0]),
                *_params("seed"),
                *_metrics(*accuracies[1:], "parameters", "steps", "seconds"),
                *_tags("sweep"),
            ),
            "metrics.`parameters`",
            charts=(
                points(f"{spec.target}: {score} by {counted}", "parameters", accuracies[0]),
                curves(f"{spec.target}: {score} by step", f"accuracy/{metric_name(spec.target)}"),
                curves("loss by step", "loss"),
                bars("seconds", "seconds"),
            ),
        ),
        View(
            "sweeps",
            "Sweeps",
            "sweep",
            (*_tags("state", "answer"), *_params("profile", "search.method"), *_metrics(*answers)),
            "attributes.start_time",
            ascending=False,
            charts=(
                *(bars(f"{mix.name}: {spec.size_axis}", f"transition/{metric_name(mix.name)}") for mix in shown),
                *(
                    bars(f"{mix.name}: times fewer {counted}", f"synergy/{metric_name(mix.name)}")
                    for mix in shown
                    if mix in compared
                ),
            ),
        ),
    ]


def _width(column: str) -> int:
    """Pixels of a column, so that its head can be read whole."""
    name = column.partition("`")[2].rstrip("`")
    return WORDY.get(name, LETTER * len(name) + ROOM)


def _tags(*names: str) -> tuple[str, ...]:
    return tuple(f"tags.`{name}`" for name in names)


def _params(*names: str) -> tuple[str, ...]:
    return tuple(f"params.`{name}`" for name in names)


def _metrics(*names: str) -> tuple[str, ...]:
    return tuple(f"metrics.`{name}`" for name in names)


def tags(sweep: Sweep, held: Mapping[str, str]) -> dict[str, str]:
    """The views as tags of the experiment, without those it holds already: the same, from a newer sweep, or changed by
    a person."""
    made = int(datetime.fromisoformat(sweep.created).timestamp() * 1000)
    wanted = {}
    for place, view in enumerate(views(sweep)):
        # The page lists the latest first.
        at = made - place
        told = {"name": view.name, "createdAt": at, "updatedAt": at, "state": _written(view.state())}
        kept = json.loads(held[TAG + view.key]) if TAG + view.key in held else None
        if kept is None or kept["createdAt"] < at:
            wanted[TAG + view.key] = json.dumps(told)
    return wanted


def _written(state: Mapping[str, object]) -> str:
    """A state as JSON, compressed if it is too long for a tag."""
    plain = json.dumps(state, separators=(",", ":"))
    if len(json.dumps(plain)) < LONGEST - ROOM_FOR_NAME:
        return plain
    return DEFLATED + base64.b64encode(zlib.compress(plain.encode())).decode()


def _chart_state(name: str, charts: Sequence[Chart]) -> dict[str, object]:
    """The charts in a view's state, in a section of this ``name``."""
    sections = [{"uuid": OURS, "name": name, "display": True, "isReordered": True}]
    sections += [
        {"uuid": uuid, "name": each, "display": False, "isReordered": True} for uuid, each in GENERATED.items()
    ]
    cards = [
        {"uuid": f"{OURS}-{place}", "metricSectionId": OURS, "runsCountToCompare": MOST_RUNS, **chart}
        for place, chart in enumerate(charts)
    ]
    return {
        "compareRunSections": sections,
        "compareRunCharts": cards,
        "isAccordionReordered": True,
        "runsHiddenMode": ALL_RUNS,
    }
