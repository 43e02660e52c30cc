"""Homes of before runs were shared: every sweep had its own; here they come to lie in the home, once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.store import lifecycle
from orchestrator.store.files import Home, SweepFiles
from orchestrator.store.reading import Unreadable, read
from orchestrator.store.remains import OUTCOME, read_outcome
from orchestrator.store.runs import removal_lock
from orchestrator.store.storage import storage_at


@dataclass(frozen=True)
class Upgraded:
    """What became of a sweep's own runs: ``shared`` went to the home, ``there`` were there already, and of ``other``
    the home has another outcome; a sweep with any of these keeps its own runs beside the shared ones."""

    sweep_id: str
    shared: int
    there: int
    other: int


def upgrade(home: Home, say: Callable[[str], object]) -> list[Upgraded]:
    """Share the runs of every sweep that has its own and was not asked for afresh. It may be repeated, also after it
    was interrupted. ``say`` is told of sweeps that cannot be read: they stay as they are.

    Raises :class:`UserError` while a sweep is being run.
    """
    found = []
    for sweep_id in reversed(home.sweep_ids()):  # Oldest first: a run is its who trained it first.
        files = home.sweep(sweep_id)
        if not files.keeps_its_runs:
            continue
        found_there = read(home, sweep_id)
        sweep = found_there.sweep if isinstance(found_there, Unreadable) else found_there
        if sweep is None:
            say(f"passed over: {found_there}")
        elif not sweep.fresh:
            with lifecycle.driving(files):
                found.append(_share(home, files))
    return found


def _share(home: Home, files: SweepFiles) -> Upgraded:
    sweep_id = files.directory.name
    origins = {entry.key: entry.reused_from or sweep_id for entry in lifecycle.recall(files).ended}
    own = sorted(path for path in files.own_runs.glob("[!.]*") if (path / OUTCOME).is_file())
    shared = storage_at(home.runs_at)
    new = [path for path in own if not shared.has(path.name)]
    other = [path for path in own if path not in new and read_outcome(path) != read_outcome(shared.get(path.name))]
    with removal_lock(home):
        for path in new:
            lifecycle.link_run(path, shared, path.name, origins.get(path.name, sweep_id), _ended(path))
        if not other:  # All at once: whoever reads the sweep finds its runs here or there.
            aside = files.directory / f".{files.own_runs.name}"
            files.own_runs.rename(aside)
            shutil.rmtree(aside)
    return Upgraded(sweep_id, len(new), len(own) - len(new) - len(other), len(other))


def _ended(run: Path) -> datetime:
    """When a run ended, as its file tells: those of before there were origins say it nowhere else."""
    return datetime.fromtimestamp((run / OUTCOME).stat().st_mtime, UTC)
