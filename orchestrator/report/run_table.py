"""The table of runs, from which exports, ``runs`` in Python, MLflow's metrics and the page's table are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from orchestrator.home.run_files import numbers_of
from orchestrator.home.sweeps import RunRecord, Sweep
from orchestrator.report.words.numbers import exact

MEASURE = "measure/"
"""Prefix of measures whose names clash with other columns."""
COLUMNS = (
    *("sweep", "space", "variant", "profile", "key", "mix", "size", "seed", "status", "steps"),
    *("seconds", "accuracy", "floor", "parameters", "core_parameters", "reused_from"),
)
"""Exported columns that every run has. :mod:`orchestrator.catalogue.export` explains them."""
NUMBERS = ("seconds", "accuracy", "floor", "parameters", "core_parameters")
"""Columns of floats, missing if unknown."""


def run_values(sweep: Sweep, runs: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """Return :data:`COLUMNS` of each run, then the score and floor of every task, probes' numbers, and measures."""
    spec, family = sweep.spec, sweep.spec.make_family()
    values = []
    for run in runs:
        config, outcome, count = run.config, run.outcome, family.parameters(run.config.size)
        about = (sweep.id, spec.name, spec.variant, spec.profile, run.key, config.label, config.size, config.seed)
        scores = (outcome.accuracy.get(spec.target), outcome.floor.get(spec.target))
        ended = (outcome.status.value, outcome.steps, outcome.measures.get("seconds"), *scores)
        row = dict(zip(COLUMNS, (*about, *ended, count.total, count.core, run.found_in), strict=True))
        row |= {f"test_accuracy/{task}": accuracy for task, accuracy in outcome.accuracy.items()}
        row |= {f"floor/{task}": floor for task, floor in outcome.floor.items()}
        row |= numbers_of(run.directory)
        for name, value in outcome.measures.items():
            if name != "seconds":
                row[f"{MEASURE}{name}" if name in COLUMNS or "/" in name else name] = value
        values.append(row)
    return values


class PageTable(NamedTuple):
    """The page's table: heads, each with True for a column of numbers, and the key and cells of each run."""

    heads: tuple[tuple[str, bool], ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]


def page_table(sweep: Sweep, runs: Sequence[RunRecord]) -> PageTable:
    """Return a row per run, ordered by mix, size and seed."""
    target, words = sweep.spec.target, sweep.spec.family_class.words
    heads = (
        *(("mix", False), (sweep.spec.size_axis, True), ("seed", True), ("status", False), ("steps", True)),
        *(("seconds", True), (target, True), ("other tasks", False), (words.parameters, True), ("trained in", False)),
    )
    ordered = sorted(runs, key=lambda run: (run.config.label, run.config.size, run.config.seed))
    rows = []
    for run, row in zip(ordered, run_values(sweep, ordered), strict=True):
        others = [f"{task} {score:.3f}" for task, score in run.outcome.accuracy.items() if task != target]
        seconds, accuracy = row["seconds"], row["accuracy"]
        cells = (
            *(row["mix"], exact(row["size"]), str(row["seed"]), row["status"], str(row["steps"])),
            "" if seconds is None else f"{seconds:.0f}",
            "" if accuracy is None else f"{accuracy:.3f}",
            *(", ".join(others), exact(row["parameters"]), row["reused_from"] or "here"),
        )
        rows.append((run.key, cells))
    return PageTable(heads, tuple(rows))
