"""Text about what an archive brought: a whole sweep, or some of its runs. Another user may have written that."""

from __future__ import annotations

from orchestrator.system.text import counted


def origin_text(state: str, is_imported: bool, imported_runs: int) -> str:
    """Return a sweep's state, and whether the sweep or some of its runs were imported from an archive."""
    imported = imported_text(is_imported, imported_runs)
    return ", ".join(filter(None, (imported, state) if is_imported else (state, imported)))


def imported_text(is_imported: bool, imported_runs: int) -> str:
    """Return ``imported`` for an imported sweep, ``16 runs imported`` for one with such runs, or an empty string."""
    if is_imported:
        return "imported"
    return f"{counted(imported_runs, 'run')} imported" if imported_runs else ""


def origin_line(imported: str) -> str:
    """Return the line below an answer for a text of :func:`imported_text`, or an empty string for an empty text."""
    return f"origin  {imported}" if imported else ""
