"""Beginning of a sweep: new, resumed where it stopped, or as an extension of another one."""

from __future__ import annotations

import platform
import shutil
import subprocess
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from orchestrator.errors import UserError, first_of
from orchestrator.home.checkpoints import CHECKPOINT, Checkpoints, read_members
from orchestrator.home.driver_lock import check_free as check_free
from orchestrator.home.driver_lock import driving as driving
from orchestrator.home.driver_lock import is_driven as is_driven
from orchestrator.home.files import Home, SweepFiles
from orchestrator.home.journal import Begun, Ended, Journal, Memory
from orchestrator.home.journal import recall as recall
from orchestrator.home.run_claims import removal_lock, take
from orchestrator.home.run_files import kept_runs, read_origin
from orchestrator.home.sweeps import RunRecord, Sweep, Unreadable, UnreadableError, sweep_in, write_spec
from orchestrator.search.base import Request
from orchestrator.space import hardware
from orchestrator.space.differences import differences
from orchestrator.space.spec import SweepSpec
from trainables.base import Status


def create(spec: SweepSpec, home: Home, *, fresh: bool = False) -> Sweep:
    """A new sweep, on disk. A ``fresh`` one has keys of its own, so that it takes no run of another sweep."""
    files, now = _new_directory(home, "-".join(filter(None, (spec.name, spec.variant))))
    if fresh:
        spec = spec.model_copy(update={"salt": files.id})
    begun = Begun(now.isoformat(timespec="seconds"), describe_environment())
    spec = write_spec(files, spec)
    with Journal(files.journal) as journal:
        journal.append(begun)
    return Sweep(files, spec, begun.created, begun.environment)


def _new_directory(home: Home, name: str) -> tuple[SweepFiles, datetime]:
    """A new directory for a sweep of this name, and the time. The last four digits of its id count the 65 536ths of the
    second: sweeps that begin in one second have an order, too."""
    while True:
        now = datetime.now(UTC)
        files = home.sweep(f"{name}-{now:%Y%m%d-%H%M%S}-{(now.microsecond << 16) // 1_000_000:04x}")
        with suppress(FileExistsError):
            files.directory.mkdir(parents=True)
            return files, now


def load(home: Home, sweep_id: str) -> Sweep:
    """A sweep by its id. Raises :class:`UnreadableError` if it cannot be read."""
    found = sweep_in(home, sweep_id)
    if isinstance(found, Unreadable):
        raise UnreadableError(found)
    return found


def find_unfinished(spec: SweepSpec, home: Home, say: Callable[[str], object] = warnings.warn) -> Sweep:
    """The newest unfinished sweep that asks for the same runs; if all are answered, the newest, which may have died
    before it printed its answer. Raises :class:`UserError` without one, naming what differs in the newest of the same
    name. ``say`` hears of those that cannot be read."""
    closest, answered = "", None
    for sweep in _of_space(spec, home, say):
        different = differences(spec, sweep.spec)
        if recall(sweep.files, runs=False).answered:
            answered = answered or (None if different else sweep)
            continue
        if not different:
            return sweep
        closest = closest or f" The newest, {sweep.id}, differs in {_listed(different)}."
    if answered is not None:
        say(f"{answered.id} has its answer already; here it is again")
        return answered
    raise UserError(f"no unfinished sweep of {spec.name} with these settings is in {home.root}.{closest}")


def newest(spec: SweepSpec, home: Home, say: Callable[[str], object] = warnings.warn) -> Sweep | None:
    """The newest sweep, finished or not, that asks for the same runs, or None. ``say`` hears of those that cannot be
    read."""
    return next((sweep for sweep in _of_space(spec, home, say) if not differences(spec, sweep.spec)), None)


def _of_space(spec: SweepSpec, home: Home, say: Callable[[str], object]) -> Iterator[Sweep]:
    """The sweeps of a search space and variant that can be read, newest first."""
    for sweep_id in home.sweep_ids():
        if not sweep_id.startswith(f"{spec.name}-"):
            continue
        sweep = sweep_in(home, sweep_id)
        if isinstance(sweep, Unreadable):
            say(f"passed over: {sweep}")
        elif (sweep.spec.name, sweep.spec.variant) == (spec.name, spec.variant):
            yield sweep


def check_same(spec: SweepSpec, sweep: Sweep) -> None:
    """Raise :class:`UserError` unless a sweep asks for the runs of this spec."""
    different = differences(spec, sweep.spec)
    if different:
        raise UserError(
            f"{sweep.id} cannot be resumed with these settings: they differ in {_listed(different)}. "
            "Repeat the settings it was started with, or leave --resume out: a new sweep finds the runs that both want."
        )


def drop_checkpoints(files: SweepFiles) -> None:
    """Remove the checkpoints of stacks that failed. Those that ended well removed theirs themselves."""
    shutil.rmtree(files.checkpoints, ignore_errors=True)


def adopt_outcomes(
    sweep: Sweep, journal: Journal, known: Iterable[str], say: Callable[[str], object] = warnings.warn
) -> list[Ended]:
    """Journal the runs of the sweep that a crash kept out of its journal; returns them. A damaged one is named and
    deleted, to be trained again."""
    adopted, runs, found = set(known), kept_runs(sweep.files), []
    for key, request in _usable(sweep.spec).items():
        if key in adopted or not runs.has(key):
            continue
        origin = read_origin(runs.get(key))
        if origin is not None and origin.sweep == sweep.id and (outcome := take(runs, key, say)) is not None:
            found.append(Ended(key, request, outcome))
            journal.append(found[-1])
    return found


def whole_runs(files: SweepFiles, say: Callable[[str], object] = warnings.warn) -> Memory:
    """What a sweep remembers, with runs alone whose every file is whole. A damaged one is named and deleted, to be
    trained again. Called by its driver."""
    memory, runs = recall(files), kept_runs(files)
    for said in memory.damaged:
        say(said)
    for key in memory.lost:
        runs.delete(key)

    def is_whole(entry: Ended) -> bool:
        return entry.outcome.status is Status.FAILED or take(runs, entry.key, say) is not None

    return replace(memory, ended=tuple(filter(is_whole, memory.ended)), trials=tuple(filter(is_whole, memory.trials)))


def reuse_runs(older: Sweep, sweep: Sweep, journal: Journal) -> list[Ended]:
    """Take over from another sweep every finished run that the new one may use; returns them.

    Raises :class:`UserError` if the two have no run in common.
    """
    with removal_lock(older.files.home):
        reused = reusable(sweep.spec, older)
        for entry in reused:
            journal.append(entry)
    return reused


def reusable(spec: SweepSpec, older: Sweep) -> list[Ended]:
    """The finished runs of another sweep that one of ``spec`` may use, as its own. Raises :class:`UserError` if there
    is none."""
    usable = _usable(spec)
    found = [
        replace(entry, request=usable[entry.key], reused_from=entry.reused_from or older.id)
        for entry in recall(older.files).ended
        if entry.key in usable and not entry.outcome.error
    ]
    if not found:
        different = _listed(differences(spec, older.spec)) or "nothing"
        raise UserError(f"{older.id} has no finished run that this sweep could reuse: they differ in {different}")
    return found


def interrupted_stacks(files: SweepFiles, say: Callable[[str], object] = warnings.warn) -> list[list[Request]]:
    """The stacks that an earlier driver left with a checkpoint, each as its requests. ``say`` is told of damaged ones,
    which are dropped: their runs begin at step 0."""
    checkpoints = Checkpoints(files.checkpoints)
    whole = [stack_id for stack_id in checkpoints.stacks() if checkpoints.is_whole(stack_id, say)]
    left = [path for path in map(checkpoints.newest, whole) if path is not None and (path / CHECKPOINT).is_dir()]
    return [list(read_members(path).requests) for path in left]


def record_of(sweep: Sweep, entry: Ended) -> RunRecord:
    """A journal entry as trackers and reports know it."""
    config = sweep.spec.config(entry.request)
    return RunRecord(entry.key, config, entry.outcome, kept_runs(sweep.files), entry.reused_from, entry.at)


def _usable(spec: SweepSpec) -> dict[str, Request]:
    """Every run the sweep may use, by key."""
    family = spec.make_family()
    wanted = [each for request in spec.requests() for each in spec.chain(request)]
    return {family.key(spec.config(request)): request for request in wanted}


def _listed(different: dict[str, tuple[object, object]]) -> str:
    return first_of([f"{key} (now {mine!r}, then {theirs!r})" for key, (mine, theirs) in sorted(different.items())])


PACKAGES = ("torch", "ray", "mlflow", "numpy", "scipy", "scikit-learn")


def describe_environment() -> dict[str, Any]:
    """Plain JSON values: ``versions`` by package, ``git`` (commit and whether it was edited, or None outside a
    checkout), ``hardware``, ``platform``. Nothing in it names a user, a host or a path."""
    return {
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES},
        "git": _git(),
        "hardware": str(hardware.detect()),
        "platform": platform.platform(),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _git() -> dict[str, Any] | None:
    """Commit of the checkout this code runs from; None where it runs from an installed package."""
    here = Path(__file__).resolve().parent
    commit = _ask_git(here, "rev-parse", "HEAD")
    tracked = _ask_git(here, "ls-files", "--error-unmatch", Path(__file__).name)
    if commit is None or tracked is None:
        return None
    return {"commit": commit, "edited": bool(_ask_git(here, "status", "--porcelain", "--untracked-files=no"))}


def _ask_git(directory: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", *words], cwd=directory, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
