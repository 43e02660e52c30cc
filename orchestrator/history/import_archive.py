"""Import of an exported home into another home.

Runs are merged by key. If the home already has a sweep, the archive's version replaces it if the archive's journal
extends the home's. With equal journals, newer checkpoints are imported if the sweep has no answer. A sweep that was
begun or continued here changes only if the user says that the archive is their own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from orchestrator.history.archive_members import (
    FOREIGN_MARK,
    OMITTED_SUFFIXES,
    CopyCounts,
    checked_size,
    unpack,
)
from orchestrator.history.foreign_time import NOT_READ, ForeignTime
from orchestrator.history.journal import recall
from orchestrator.history.sweeps import UnreadableError
from orchestrator.home.checkpoints import WORK, Checkpoints, number_of
from orchestrator.home.directories import IMPORTED_MARK, Home, SweepDirectory
from orchestrator.home.foreign_files import MOST_SPACE_BYTES, read_text, whole_lines
from orchestrator.home.new_home import make_home
from orchestrator.home.run_files import read_origin, read_run
from orchestrator.home.run_store import RunStore
from orchestrator.space import strict_yaml
from orchestrator.system.errors import UserError
from orchestrator.system.files import (
    FILLED_DIRECTORY,
    hidden_directory,
    is_file,
    remove_abandoned,
    remove_file,
    remove_tree,
    replace_whole,
    whole_directory,
)
from orchestrator.system.text import first_of
from trainables.base import Outcome

STAGED = ".orchestrator-import-"
"""Beginning of the names of directories in a home where archives are unpacked."""
CHANGED_BY_RESUME = ("resources", "probes", "code")
"""Keys of a search space that a resumed sweep may have changed, because they do not change the question."""


def import_home(home: Home, path: Path, warn: Callable[[str], object], *, mine: bool = False) -> CopyCounts:
    """Import an archive into a home.

    Runs are imported before the sweeps that name them, so an interrupted import can be repeated. If both homes have a
    run, the home's own run stays.

    Imported runs and sweeps are marked. Otherwise someone could pass off their results as yours. A sweep that was begun
    or continued here does not continue from an archive, unless the archive is the user's own. With ``mine``, mark only
    runs and sweeps that were already imported in the exported home. Marks that an earlier import left on the same runs
    and sweeps are then removed.

    Args:
        home: The home, which is created if it is missing.
        path: The archive.
        warn: Called with a message about each damaged run, which is omitted, and about runs with other results here.
            Also about each sweep that was continued in both homes. Such a sweep stays unchanged.
        mine: True if the user says that the archive is their own.

    Raises:
        UserError: If the file is damaged or not an archive, or if it continues a sweep that is running here.
    """
    if not path.is_file():
        raise UserError(f"there is no file {path}")  # The archive is read twice, so it cannot be a pipe.
    with path.open("rb") as file:  # Open it only once, because another user may exchange it.
        return _import_opened(home, file, path, warn, mine)


def _import_opened(home: Home, file: BinaryIO, path: Path, warn: Callable[[str], object], mine: bool) -> CopyCounts:
    """Import an opened archive, as :func:`import_home` does."""
    # The first pass checks the whole archive, so that a damaged one leaves no trace in the home.
    size = checked_size(file, path)
    make_home(home.root, warn)
    if size > (free := shutil.disk_usage(home.root).free):
        raise UserError(f"{path} has {size} bytes of content, but the disk of {home.root} has {free} free")
    remove_abandoned(home.root, STAGED)
    # In a home that others can write, they could rename this directory and put another in its place.
    with hidden_directory(home.root / STAGED, STAGED) as hidden:
        os.mkdir(FILLED_DIRECTORY, 0o700, dir_fd=hidden.descriptor)
        staged = Home(hidden.path / FILLED_DIRECTORY)
        unpack(file, path, staged.root)
        runs = _take_runs(staged, home, path, warn, mine)
        pairs = [(staged.sweep(sweep_id), home.sweep(sweep_id)) for sweep_id in staged.sweep_ids()]
        limit = ForeignTime(home)
        taken = [_merge(theirs, ours, path, warn, mine, limit) for theirs, ours in pairs]
    return CopyCounts(runs, sum(taken))


def _merge(
    theirs: SweepDirectory,
    ours: SweepDirectory,
    path: Path,
    warn: Callable[[str], object],
    mine: bool,
    limit: ForeignTime,
) -> bool:
    """Import a sweep, its continuation, or checkpoints that are further along. Return True if anything was imported."""
    is_here = ours.journal.is_file()
    was_imported = ours.is_imported
    is_foreign = _take_mark(theirs.directory, mine)
    is_equal = whole_lines(theirs.journal) == whole_lines(ours.journal)
    taken = False
    if is_here and is_foreign and (not was_imported or _was_continued_here(ours)):
        # Its author could replace this user's results and checkpoints.
        if _continues(theirs, ours) or (is_equal and not recall(ours).answered and _further_checkpoints(theirs, ours)):
            warn(
                f"{ours.id} was begun or continued here, so its continuation in {path} is not imported. If you made "
                "that file, import it with --mine"
            )
        elif not is_equal and not _continues(ours, theirs):
            _warn_of_branches(ours, path, warn)
        return False
    # A sweep with an equal journal is imported only to remove its mark, if the user now says that it is theirs.
    if _continues(theirs, ours) or (is_equal and was_imported and not is_foreign):
        is_same = limit.read(ours.id, partial(_asks_the_same, theirs, ours)) if is_here else True
        if isinstance(is_same, UnreadableError):
            warn(f"{ours.id} was not compared with that in {path} ({NOT_READ}): the sweep here is kept")
        elif not is_same:
            warn(f"{ours.id} has another search space in {path}: the sweep here is kept")
        else:
            _take_sweep(theirs, ours, is_foreign)
            taken = True
    elif is_equal:
        # An answered sweep trains no more. Checkpoints would only mark it as imported.
        is_open = not recall(ours).answered and not ours.is_driven()
        taken = is_open and _take_checkpoints(theirs, ours, is_foreign)
    elif not _continues(ours, theirs):
        _warn_of_branches(ours, path, warn)
    return taken


def _mark(ours: SweepDirectory, theirs: SweepDirectory) -> None:
    """Mark a sweep as imported, with the number of lines that its journal has in the archive."""
    replace_whole(ours.imported, str(len(whole_lines(theirs.journal))).encode())


def _was_continued_here(files: SweepDirectory) -> bool:
    """Return True if an imported sweep has run here since. Its mark has the number of lines that were imported. Earlier
    checkouts wrote no number or one of bytes, which does not show this."""
    try:
        return len(whole_lines(files.journal)) > int(read_text(files.imported))
    except (OSError, ValueError):
        return False


def _warn_of_branches(ours: SweepDirectory, path: Path, warn: Callable[[str], object]) -> None:
    warn(f"{ours.id} was continued both here and in {path}: its runs are imported, the sweep here is kept")


def _take_mark(directory: Path, mine: bool) -> bool:
    """Remove the exporter's mark from an unpacked run or sweep. Return True if the run or sweep counts as imported."""
    # An archive cannot contain the hidden file that marks a run or sweep in a home, so this file stands for it.
    was_marked = is_file(directory / FOREIGN_MARK)
    (directory / FOREIGN_MARK).unlink(missing_ok=True)
    return was_marked or not mine


def _asks_the_same(theirs: SweepDirectory, ours: SweepDirectory) -> bool:
    """Return True if a continuation of a sweep has the same search space, except for :data:`CHANGED_BY_RESUME`. Another
    user may have written the archive, and must not change the question of a sweep here."""

    def asked(files: SweepDirectory) -> dict[str, Any]:
        values = strict_yaml.read(read_text(files.spec, MOST_SPACE_BYTES), files.id).data
        return {key: value for key, value in dict(values).items() if key not in CHANGED_BY_RESUME}

    try:
        return asked(theirs) == asked(ours)
    except (OSError, ValueError, TypeError, UserError):
        return False


def _take_runs(staged: Home, home: Home, path: Path, warn: Callable[[str], object], mine: bool) -> int:
    """Import the runs of an unpacked archive. Return the number of runs that the home did not have."""
    taken = 0
    different: list[str] = []
    for key in RunStore(staged).stored_keys():
        outcome = read_run(RunStore(staged).directory(key), whole=True)
        if isinstance(outcome, str):
            warn(f"run {key} in {path} is damaged ({outcome}) and was not imported")
            continue
        origin = read_origin(RunStore(staged).directory(key))
        if origin is None or not origin.sweep:  # A sweep that uses the run could not say where it comes from.
            warn(f"run {key} in {path} does not name the sweep that it was trained for, so it was not imported")
            continue
        ours = _take_run(RunStore(staged).directory(key), RunStore(home), mine)
        taken += ours is None
        if ours is not None and not _is_same(ours, outcome):
            different.append(key)
    if different:  # Programs without a seed, for example, have other results on each machine.
        warn(
            f"Some runs in {path} differ from the runs here ({first_of(different)}). The runs here were kept, so "
            "imported sweeps that use them may have different answers."
        )
    return taken


def _continues(longer: SweepDirectory, shorter: SweepDirectory) -> bool:
    """Return True if ``longer``'s journal starts with ``shorter``'s and has more lines. A missing journal is empty."""
    beginning = whole_lines(shorter.journal)
    lines = whole_lines(longer.journal)
    return len(beginning) < len(lines) and lines[: len(beginning)] == beginning


def _take_run(source: Path, store: RunStore, mine: bool) -> Outcome | None:
    """Import a run, unless the home has it. Return the outcome of the home's run, or None if the run was imported.

    A run that is ``mine`` replaces a run that was imported earlier.
    """
    target = store.directory(source.name)
    is_foreign = _take_mark(source, mine)
    with store.locked():
        ours = read_run(target, whole=True)
        if isinstance(ours, Outcome) and (is_foreign or not store.is_imported(source.name)):
            return ours
        # The home's run is missing, damaged, or marked as imported although the user now says that it is theirs.
        store.delete(source.name)
        if is_foreign:
            (source / IMPORTED_MARK).touch()  # Before the move, so that the run never appears without its mark.
        _move(source, target)
    return None


def _is_same(one: Outcome, other: Outcome) -> bool:
    """Return True if two outcomes are the same evidence. Other values, such as their seconds, may differ."""
    return (one.status, one.steps, one.accuracy, one.floor) == (other.status, other.steps, other.accuracy, other.floor)


def _take_sweep(theirs: SweepDirectory, ours: SweepDirectory, is_foreign: bool) -> None:
    """Import a sweep, or the continuation of a sweep. An interrupted import leaves the old journal, so it can be
    repeated."""
    is_new = not ours.journal.is_file()
    with ours.driving():
        if is_foreign:  # First, so that another user's files are never here without the mark.
            _mark(ours, theirs)
        for directory in (ours.checkpoints, ours.stacks):
            remove_tree(directory)
        shutil.rmtree(theirs.checkpoints / WORK, ignore_errors=True)  # A script would load another user's files.
        # The journal comes last: it makes the import complete.
        for path in sorted(theirs.directory.iterdir(), key=lambda path: path == theirs.journal):
            if path.is_dir():
                _move(path, ours.directory / path.name)
            elif (is_new or path != theirs.spec) and not path.name.endswith(OMITTED_SUFFIXES):
                replace_whole(ours.directory / path.name, path.read_bytes())
                written = path.stat().st_mtime
                os.utime(ours.directory / path.name, (written, written), follow_symlinks=False)
        if not is_foreign:  # Last, so that the mark stays if the import is interrupted.
            remove_file(ours.imported)


def _take_checkpoints(theirs: SweepDirectory, ours: SweepDirectory, is_foreign: bool) -> bool:
    """Import the checkpoints that are further along in the archive, for a sweep whose journals are equal. Return True
    if there are any."""
    further = _further_checkpoints(theirs, ours)
    if further:
        with ours.driving():
            if is_foreign:
                _mark(ours, theirs)
            for new, old in further:
                _move(new, ours.checkpoints / new.name)
                if old is not None:
                    remove_tree(old)
    return bool(further)


def _further_checkpoints(theirs: SweepDirectory, ours: SweepDirectory) -> list[tuple[Path, Path | None]]:
    """Return the checkpoints that are further along in the archive, each with the one here, if there is one."""
    source = Checkpoints(theirs.checkpoints)
    target = Checkpoints(ours.checkpoints)
    pairs = [(source.newest(stack_id), target.newest(stack_id)) for stack_id in source.stacks()]
    return [(new, old) for new, old in pairs if new and (old is None or number_of(new) > number_of(old))]


def _move(source: Path, target: Path) -> None:
    """Move a directory atomically."""
    with whole_directory(target) as directory:
        for path in source.iterdir():
            shutil.move(path, directory / path.name)
