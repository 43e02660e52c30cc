"""Recorded tables of real outcomes: every mix at every size with every seed, trained once, replayed as often as one
likes."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from orchestrator.errors import UserError
from orchestrator.search.base import Observation, Request, Results

COLUMNS = ("mix", "size", "seed", "accuracy", "floor", "seconds")
"""What a recorded table holds, a line a run. ``accuracy`` is empty for a run that failed."""


def read_table(path: Path, where: Mapping[str, str] | None = None) -> dict[Request, Observation | None]:
    """A recorded table: CSV with the columns of :data:`COLUMNS`, such as the ``runs.csv`` of an export.

    Other columns are left aside, and so are runs of more steps than the others, and lines whose columns do not hold the
    values of ``where``.

    Raises :class:`UserError` for a file that is none, saying which line is wrong.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise UserError(f"{str(path)!r} is no table of outcomes: it has no column {', '.join(missing)}.")
            asked = (where or {}).items()
            lines = (
                line
                for line in reader
                if line.get("steps_factor") in (None, "1") and all(line.get(name) == value for name, value in asked)
            )
            return dict(_line(path, reader.line_num, line) for line in lines)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the table {str(path)!r}: {error}") from error


def table_costs(table: Results) -> dict[int, float]:
    """What a run costs at each size: the table's median."""
    seconds: dict[int, list[float]] = {}
    for request, seen in table.items():
        if seen is not None:
            seconds.setdefault(request.size, []).append(seen.cost)
    return {size: float(np.median(found)) for size, found in sorted(seconds.items())}


def _line(path: Path, number: int, line: Mapping[str, str]) -> tuple[Request, Observation | None]:
    try:
        request = Request(line["mix"], int(line["size"]), int(line["seed"]))
        if not line["accuracy"]:
            return request, None
        return request, Observation(float(line["accuracy"]), float(line["floor"]), float(line["seconds"]))
    except (TypeError, ValueError) as error:
        raise UserError(f"{path}, line {number}: {error}") from error
