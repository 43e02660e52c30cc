"""A sweep's tables as files other programs read."""

from __future__ import annotations

from pathlib import Path

from orchestrator.catalogue import frames
from orchestrator.catalogue.reading import StoredSweep
from orchestrator.errors import UserError
from orchestrator.store.files import whole_directory

COLUMNS = "columns.txt"
"""Beside the tables: what each column means."""


def export(stored: StoredSweep, directory: Path) -> list[Path]:
    """Write runs, curves and transitions as Parquet and CSV into a new directory, whole or not at all; returns the
    files. Raises :class:`UserError` where the directory is there already."""
    if directory.exists():
        raise UserError(f"{str(directory)!r} is there already; name a new directory with --output, or remove it")
    tables = {
        "runs": frames.runs_frame(stored),
        "curves": frames.curves_frame(stored),
        "transitions": frames.transitions_frame(stored),
    }
    with whole_directory(directory) as aside:
        aside.chmod(0o755)
        for name, table in tables.items():
            table.to_parquet(aside / f"{name}.parquet", index=False)
            table.to_csv(aside / f"{name}.csv", index=False)
        (aside / COLUMNS).write_text((frames.__doc__ or "").strip() + "\n", encoding="utf-8")
    return sorted(directory.iterdir())
