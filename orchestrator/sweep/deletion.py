"""Deletes a sweep: first its records, then its runs and its directory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

from orchestrator.catalog.reading import space_of
from orchestrator.catalog.summary_cache import forget
from orchestrator.home.directories import DATABASE, LINES, Home, SweepDirectory
from orchestrator.home.run_store import RunStore
from orchestrator.record import mlflow_store
from orchestrator.record.json_lines import delete_lines
from orchestrator.record.mlflow_store import Store
from orchestrator.record.tracker import StoreError
from orchestrator.space.runs import IMPORTED
from orchestrator.system.errors import SweepError
from orchestrator.system.files import entries, is_directory, opened_directory

REMOVED_PREFIX = ".removed-"
"""Beginning of the name of a sweep's directory while it is deleted."""


def finish_deletions(home: Home) -> list[str]:
    """Delete the directories that interrupted deletions left, and return the ids of their sweeps. Delete nothing
    through a link or at a mount point: raise :class:`UserError`."""
    home.check_links()
    home.check_mounts("delete")
    paths = entries(home.root / "sweeps")
    leftovers = [path.name for path in paths if path.name.startswith(REMOVED_PREFIX) and is_directory(path)]
    if leftovers:
        with opened_directory(home.root / "sweeps") as sweeps:
            for name in leftovers:
                shutil.rmtree(name, dir_fd=sweeps)
    return [name.removeprefix(REMOVED_PREFIX) for name in leftovers]


def delete_sweep(files: SweepDirectory, warn: Callable[[str], object]) -> int:
    """Delete a sweep's records, then its files, and return the number of deleted records in MLflow.

    An interrupted deletion can be repeated.

    Args:
        files: The sweep's directory.
        warn: Called with a message if the records stay.

    Raises:
        SweepError: If the records cannot be deleted. Then all files stay.
        UserError: If a process drives the sweep, or if something is mounted in the home.
    """
    files.home.check_mounts("delete")
    from orchestrator.record.mlflow_tracker import delete_record  # MLflow takes 2 s to import.

    store = mlflow_store.choose_store(files.home.root)
    record_ids = _record_ids(files, store)
    if record_ids:
        mlflow_store.check_store(store)
    else:
        warn(f"{files.id} came with an archive, so its records on {store.shown} stay: others may have made them")
    with files.driving(), opened_directory(files.directory.parent) as sweeps:
        try:
            records = sum(delete_record(store, space_of(files.id), one) for one in record_ids)
            for one in (files.id, f"{files.id} {IMPORTED}"):
                delete_lines(files.home.root / LINES, one)
        except StoreError as error:
            raise SweepError(f"nothing was deleted from disk: {error}") from error
        runs = RunStore(files.home, files.id)
        # Other sweeps must not start to use one of these runs between the search for unused runs and their deletion.
        with runs.locked():
            runs.delete_own()
            aside = f"{REMOVED_PREFIX}{files.id}"
            os.rename(files.id, aside, src_dir_fd=sweeps, dst_dir_fd=sweeps)  # Readers no longer find it.
            forget(files)
        shutil.rmtree(aside, dir_fd=sweeps)
    return records


def _record_ids(files: SweepDirectory, store: Store) -> list[str]:
    """Return the ids of the records to delete (:attr:`~orchestrator.history.sweeps.Sweep.record_id`).

    Outside the home, records of an imported sweep may belong to its author, or to a colleague who imported it too. None
    of them is deleted.
    """
    if store.database == files.home.root / DATABASE:
        return [files.id, f"{files.id} {IMPORTED}"]  # It may have been imported before or after it was recorded.
    return [] if files.is_imported else [files.id]
