"""The charts of a saved view: what MLflow's page shows of its records under *Chart view*, first of all.

MLflow (3.17) keeps them in a view's state as its own page does, as *cards* of *sections*; of every other metric the
page makes a card by itself, in the sections behind ours. It leaves out a card of a metric that no record shown has, and
calls those that it shows by their metrics; our titles stand where one edits a card. The page of a single run takes its
charts from the browser that looks at it, so that no view can say them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

OURS: Final = "chosen"
"""Key of the section of our charts."""
GENERATED: Final = {"generated": "Model metrics", "system": "System metrics"}
"""Keys and names of the sections that MLflow fills with the metrics without a chart: they come closed."""
MOST_RUNS = 100
"""Records in one chart."""
ALL_RUNS = "SHOW_ALL"
"""Charts have all records of the view, and not the first ten alone."""


@dataclass(frozen=True)
class Bars:
    """A bar a record: one ``metric``, under a ``title``."""

    title: str
    metric: str

    def fields(self) -> dict[str, Any]:
        """What makes a card one of this kind, in the page's words."""
        return {"type": "BAR", "metricKey": self.metric, "displayName": self.title}


@dataclass(frozen=True)
class Curves:
    """A curve a record: one ``metric`` over steps, under a ``title``."""

    title: str
    metric: str

    def fields(self) -> dict[str, Any]:
        """As of :class:`Bars`."""
        return {
            "type": "LINE",
            "metricKey": self.metric,
            "selectedMetricKeys": [self.metric],
            "displayName": self.title,
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


@dataclass(frozen=True)
class Points:
    """A point a record: the metric ``y`` against the metric ``x``, under a ``title``."""

    title: str
    x: str
    y: str

    def fields(self) -> dict[str, Any]:
        """As of :class:`Bars`."""
        axes = {name: {"key": key, "type": "METRIC"} for name, key in (("xaxis", self.x), ("yaxis", self.y))}
        return {"type": "SCATTER", "displayName": self.title, **axes}


@dataclass(frozen=True)
class Parallels:
    """A line a record through parallel axes: ``params`` and ``metrics``, under a ``title``."""

    title: str
    params: tuple[str, ...]
    metrics: tuple[str, ...]

    def fields(self) -> dict[str, Any]:
        """As of :class:`Bars`."""
        return {
            "type": "PARALLEL",
            "displayName": self.title,
            "selectedParams": self.params,
            "selectedMetrics": self.metrics,
            "showAllRuns": True,
        }


Chart = Bars | Curves | Points | Parallels


def chart_state(name: str, charts: Sequence[Chart]) -> dict[str, object]:
    """The part of a view's state that has these charts, under this ``name``."""
    sections = [{"uuid": OURS, "name": name, "display": True, "isReordered": True}]
    sections += [
        {"uuid": uuid, "name": each, "display": False, "isReordered": True} for uuid, each in GENERATED.items()
    ]
    cards = [
        {"uuid": f"{OURS}-{place}", "metricSectionId": OURS, "runsCountToCompare": MOST_RUNS, **chart.fields()}
        for place, chart in enumerate(charts)
    ]
    return {
        "compareRunSections": sections,
        "compareRunCharts": cards,
        "isAccordionReordered": True,
        "runsHiddenMode": ALL_RUNS,
    }
