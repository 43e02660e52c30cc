"""The table of runs: one list of columns, from which exports, ``runs`` in Python and the report's table are drawn.

A column of :data:`COLUMNS` with a ``name`` is exported, one with a ``head`` is on the page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.home.run_files import numbers_of
from orchestrator.home.sweeps import RunRecord, Sweep
from orchestrator.report.words.numbers import exact
from trainables.base import Family

MEASURE = "measure/"
"""Prefix of the columns of measures, against name clashes."""


@dataclass(frozen=True)
class RunColumn:
    """One column. ``says`` describes it; ``value`` is None if unknown, ``number`` if it is a float. ``{axis}``,
    ``{parameters}`` and ``{target}`` in ``head`` are the sweep's words; ``cell`` turns a value into text."""

    name: str
    says: str
    value: Callable[[Sweep, Family, RunRecord], Any]
    number: bool = False
    head: str = ""
    cell: Callable[[Any], str] = str
    right: bool = False


def _others(sweep: Sweep, family: Family, run: RunRecord) -> str:
    scores = run.outcome.accuracy.items()
    return ", ".join(f"{task} {accuracy:.3f}" for task, accuracy in scores if task != sweep.spec.target)


COLUMNS = (
    RunColumn("sweep", "the sweep's id", lambda sweep, family, run: sweep.id),
    RunColumn("space", "its search space", lambda sweep, family, run: sweep.spec.name),
    RunColumn("variant", "its variant", lambda sweep, family, run: sweep.spec.variant),
    RunColumn("profile", "its profile", lambda sweep, family, run: sweep.spec.profile),
    RunColumn("key", "hash of all that changes the run's result", lambda sweep, family, run: run.key),
    RunColumn("mix", "the tasks trained together", lambda sweep, family, run: run.config.label, head="mix"),
    RunColumn(
        *("size", "on the size axis", lambda sweep, family, run: run.config.size), head="{axis}", cell=exact, right=True
    ),
    RunColumn("seed", "the run's seed", lambda sweep, family, run: run.config.seed, head="seed", right=True),
    RunColumn(
        *("status", "finished, diverged or failed", lambda sweep, family, run: run.outcome.status.value), head="status"
    ),
    RunColumn("steps", "steps trained", lambda sweep, family, run: run.outcome.steps, head="steps", right=True),
    RunColumn(
        *("seconds", "the run's share of its stack's training time"),
        lambda sweep, family, run: run.outcome.measures.get("seconds"),
        number=True,
        head="seconds",
        cell="{:.0f}".format,
        right=True,
    ),
    RunColumn(
        *("accuracy", "test score of the target"),
        lambda sweep, family, run: run.outcome.accuracy.get(sweep.spec.target),
        number=True,
        head="{target}",
        cell="{:.3f}".format,
        right=True,
    ),
    RunColumn("", "", _others, head="other tasks"),
    RunColumn(
        *("floor", "test score of the best constant answer to the target"),
        lambda sweep, family, run: run.outcome.floor.get(sweep.spec.target),
        number=True,
    ),
    RunColumn(
        *("parameters", "all trainable ones"),
        lambda sweep, family, run: family.parameters(run.config.size).total,
        number=True,
        head="{parameters}",
        cell=exact,
        right=True,
    ),
    RunColumn(
        *("core_parameters", "those of the model's body"),
        lambda sweep, family, run: family.parameters(run.config.size).core,
        number=True,
    ),
    RunColumn(
        *("reused_from", "the sweep it was trained for, if another one, or this one for another mix"),
        lambda sweep, family, run: run.found_in,
        head="trained in",
        cell=lambda sweep: sweep or "here",
    ),
)
EXPORTED = tuple(column for column in COLUMNS if column.name)
SHOWN = tuple(column for column in COLUMNS if column.head)


def run_values(sweep: Sweep, runs: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """A run's exported columns by name, then the score and floor of every task, numbers of probes, and measures."""
    family = sweep.spec.make_family()
    known = {column.name for column in EXPORTED}
    return [
        {
            **{column.name: column.value(sweep, family, run) for column in EXPORTED},
            **{f"test_accuracy/{task}": accuracy for task, accuracy in run.outcome.accuracy.items()},
            **{f"floor/{task}": floor for task, floor in run.outcome.floor.items()},
            **numbers_of(run.directory),
            **{
                f"{MEASURE}{name}" if name in known or "/" in name else name: value
                for name, value in run.outcome.measures.items()
                if name != "seconds"
            },
        }
        for run in runs
    ]


@dataclass(frozen=True)
class PageTable:
    """The table of a page: heads with True for columns of numbers, and a key with its cells for each run."""

    heads: tuple[tuple[str, bool], ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


def page_table(sweep: Sweep, runs: Sequence[RunRecord]) -> PageTable:
    """Every run by mix, size and seed."""
    spec, family = sweep.spec, sweep.spec.make_family()
    words = {"axis": spec.size_axis, "target": spec.target, "parameters": spec.family_class.words.parameters}
    ordered = sorted(runs, key=lambda run: (run.config.label, run.config.size, run.config.seed))
    return PageTable(
        tuple((column.head.format(**words), column.right) for column in SHOWN),
        tuple((run.key, tuple(_cell(column, column.value(sweep, family, run)) for column in SHOWN)) for run in ordered),
    )


def _cell(column: RunColumn, value: Any) -> str:
    return "" if value is None else column.cell(value)


def columns_text() -> str:
    """A line for each exported column of runs."""
    lines = [f"    ``{column.name}``: {column.says}" for column in EXPORTED]
    return "\n".join(
        [
            "``runs``, one row a run:",
            *lines,
            "    ``test_accuracy/TASK``, ``floor/TASK``: the same for every task",
            "    ``probe/PROBE/NUMBER``: numbers of probes in its model",
            f"    further measures by their own names (``{MEASURE}NAME`` if a column above has that name)",
        ]
    )
