"""The views saved with an experiment: on MLflow's page, under *Views*, which records it lists, which columns and which
charts.

MLflow (3.17) keeps a saved view as a tag of the experiment, by which its page finds it: a name, when it was made and
what the page then shows, as JSON.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from orchestrator.store.records import Sweep
from orchestrator.tracking.charts import Bars, Chart, Curves, Parallels, Points, chart_state
from orchestrator.tracking.content import metric_name

TAG = "mlflow.sharedViewState."
"""What the tags of saved views begin with; the rest is the view's key."""
PARAMETER = "viewStateShareKey"
"""What an address names a view's key by."""
TRANSITIONS = "transitions"
"""Key of the view that compares transitions, of all sweeps of the experiment."""
RUNS = "runs"
"""Key of the view that lists trained models."""
LETTER, ROOM = 8, 40
"""Pixels of a letter in a column's head, and of what stands beside it: a head that is cut says nothing."""
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
"""Mixes with charts of their own in the view of sweeps."""
LONGEST = 5000
"""Characters that MLflow takes as the value of an experiment's tag."""
ROOM_FOR_NAME = 200
"""Of them for all but the state."""
DEFLATED = "deflate;"
"""What the page has before a state that it has compressed."""


@dataclass(frozen=True)
class View:
    """Records of one ``kind`` with these ``columns``, named as MLflow's queries name them, sorted by ``sort``;
    and the ``charts`` that it opens on where one asks for charts."""

    key: str
    name: str
    kind: str
    columns: tuple[str, ...]
    sort: str
    ascending: bool = True
    charts: tuple[Chart, ...] = ()

    def state(self) -> dict[str, object]:
        """What the page shows, in its own words."""
        return {
            "searchFilter": f'tags.kind = "{self.kind}"',
            "orderByKey": self.sort,
            "orderByAsc": self.ascending,
            "selectedColumns": self.columns,
            "columnOrder": self.columns,
            "columnWidths": {column: _width(column) for column in self.columns},
            **chart_state(self.name, self.charts),
        }


def views(sweep: Sweep) -> list[View]:
    """The views of an experiment whose newest sweep this is: one for each kind of record.

    Transitions and runs are sorted by a metric, for then the page lists them flat, not nested in their sweeps.
    """
    spec = sweep.spec
    mixes = [metric_name(mix.name) for mix in spec.mixes]
    compared = [mix for mix in spec.mixes if spec.family_class.compares_mixes and mix != spec.baseline]
    tasks = sorted({task for mix in spec.mixes for task in mix.tasks}, key=lambda task: (task != spec.target, task))
    found = ("transition", "low", "high", *(["synergy"] if compared else []), "runs")
    said = ("mix", "found", *(["saving"] if compared else []), "found_parameters", "seeds_learned", "sweep")
    counted, score = spec.family_class.words.parameters, spec.family_class.words.score
    target, kept = metric_name(spec.target), spec.mixes[:MOST_BARS]
    accuracies = (f"test_accuracy/{metric_name(task)}" for task in tasks)
    answers = (*(f"transition/{mix}" for mix in mixes), *(f"synergy_low/{metric_name(mix.name)}" for mix in compared))
    return [
        View(
            TRANSITIONS,
            "Transitions",
            "transition",
            (*_tags(*said), *_metrics(*found)),
            "metrics.`transition`",
            charts=(
                Bars(f"{spec.size_axis} at the transition", "transition"),
                Parallels(
                    f"{spec.size_axis} at the transition, with its interval",
                    ("mix",),
                    ("low", "transition", "high"),
                ),
                Bars(f"{counted} at the transition", "transition_parameters"),
                *([Bars(f"times fewer {counted} than the baseline", "synergy")] if compared else []),
            ),
        ),
        View(
            RUNS,
            "Runs",
            "run",
            (
                *(*_tags("sweep"), *_params("mix", spec.size_axis, "seed")),
                *_metrics(*accuracies, "parameters", "steps", "seconds"),
            ),
            "metrics.`parameters`",
            charts=(
                Points(f"{spec.target}: {score} against {counted}", "parameters", f"test_accuracy/{target}"),
                Curves(f"{spec.target}: {score} while training", f"accuracy/{target}"),
                Curves("loss while training", "loss"),
                Bars("seconds of training", "seconds"),
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
                *(
                    Bars(f"{mix.name}: {spec.size_axis} at the transition", f"transition/{metric_name(mix.name)}")
                    for mix in kept
                ),
                *(
                    Bars(f"{mix.name}: times fewer {counted}", f"synergy/{metric_name(mix.name)}")
                    for mix in kept
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
    """The views as tags of the experiment: those that it does not hold already, as they are, from a newer sweep, or
    changed by a person since they were saved."""
    made = int(datetime.fromisoformat(sweep.created).timestamp() * 1000)
    wanted = {}
    for place, view in enumerate(views(sweep)):
        # The page lists the latest first.
        at = made - place
        told = {"name": view.name, "createdAt": at, "updatedAt": at, "state": _written(view.state())}
        kept = json.loads(held[TAG + view.key]) if TAG + view.key in held else None
        if kept is None or kept["createdAt"] < at or (_untouched(kept, at) and kept["state"] != told["state"]):
            wanted[TAG + view.key] = json.dumps(told)
    return wanted


def _written(state: Mapping[str, object]) -> str:
    """A state as a view holds it: as JSON, where that is short enough to be read, else compressed."""
    plain = json.dumps(state, separators=(",", ":"))
    if len(json.dumps(plain)) < LONGEST - ROOM_FOR_NAME:
        return plain
    return DEFLATED + base64.b64encode(zlib.compress(plain.encode())).decode()


def _untouched(kept: Mapping[str, Any], at: int) -> bool:
    """Whether a saved view is one that we made for this very sweep, and that nobody has changed since: an earlier
    version may have shown other columns."""
    return bool(kept["createdAt"] == kept["updatedAt"] == at)
