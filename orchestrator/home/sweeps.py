"""Sweeps and their finished runs, shared by engine, record and report. An unreadable sweep does not affect others."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from orchestrator.errors import SweepError, UserError, unknown
from orchestrator.home.directories import Home, SweepDirectory
from orchestrator.home.journal import SCHEMA, Begun, Ended, Journal, read_journal
from orchestrator.home.run_files import ProbeResult, read_results
from orchestrator.space import hardware, strict_yaml
from orchestrator.space.mistakes import parse
from orchestrator.space.spec import SweepSpec
from trainables.base import Outcome, RunConfig, Status
from trainables.contract.arms import as_named
from trainables.contract.sources import search_in
from trainables.files import write_whole

FIGURE = "transitions.png"
"""Comparison figure in a sweep's directory."""
REPORT = "report.html"
"""Report in a sweep's directory."""
PACKAGES = ("torch", "ray", "mlflow", "numpy", "scipy", "scikit-learn")


@dataclass(frozen=True)
class RunRecord:
    """A finished run of a sweep, recorded ``at`` a time (ISO 8601) or "". A failed run has no ``directory`` on disk.

    ``found_in`` is "" if the run was trained for this record, otherwise the id of the sweep that it was trained for,
    which can be this sweep if two arms share the run.
    """

    key: str
    config: RunConfig
    outcome: Outcome
    directory: Path
    found_in: str = ""
    at: str = ""


@dataclass(frozen=True)
class Sweep:
    """A sweep. ``environment`` has versions, git state and hardware as JSON values. ``source`` is the hash of the
    family's source at the start of the sweep and ``version`` its version, "" and 0 if they are unknown."""

    files: SweepDirectory
    spec: SweepSpec
    created: str
    environment: dict[str, Any]
    source: str = ""
    version: int = 0

    @property
    def id(self) -> str:
        return self.files.id

    @property
    def fresh(self) -> bool:
        """True if the sweep trains all its runs and does not share them."""
        return bool(self.spec.salt)

    def record(self, entry: Ended) -> RunRecord:
        """Return an entry of the sweep's journal as a record for trackers and reports."""
        config, directory = self.spec.config(entry.request), self.files.home.runs / entry.key
        return RunRecord(entry.key, config, entry.outcome, directory, entry.reused_from, entry.at)


def create_sweep(spec: SweepSpec, home: Home, *, fresh: bool = False) -> Sweep:
    """Create a sweep on disk. A ``fresh`` sweep has different keys, so it does not reuse runs of other sweeps."""
    name = "-".join(filter(None, (spec.name, spec.variant)))
    while True:
        now = datetime.now(UTC)  # The last four digits of the id order sweeps that start in the same second.
        files = home.sweep(f"{name}-{now:%Y%m%d-%H%M%S}-{(now.microsecond << 16) // 1_000_000:04x}")
        with suppress(FileExistsError):
            files.directory.mkdir(parents=True)
            break
    if fresh:
        spec = spec.model_copy(update={"salt": files.id})
    spec = write_spec(files, spec)
    begun = Begun(
        now.isoformat(timespec="seconds"),
        describe_environment(),
        spec.folder,
        source=spec.source,
        version=spec.family_class.version,
    )
    with Journal(files.journal) as journal:
        journal.append(begun)
    return Sweep(files, spec, begun.created, begun.environment, begun.source, begun.version)


def describe_environment() -> dict[str, Any]:
    """Return JSON values: ``versions`` by package, ``git`` (commit and whether it was edited, or None outside a
    checkout), ``hardware`` and ``platform``. They do not contain a user, host or path."""
    return {
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES},
        "git": _git(),
        "hardware": str(hardware.detect()),
        "platform": platform.platform(),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # Sweeps run without MLflow.
        return "not installed"


def _git() -> dict[str, Any] | None:
    directory = Path(__file__).resolve().parent
    commit = _run_git(directory, "rev-parse", "HEAD")
    tracked = _run_git(directory, "ls-files", "--error-unmatch", Path(__file__).name)
    if commit is None or tracked is None:
        return None
    return {"commit": commit, "edited": bool(_run_git(directory, "status", "--porcelain", "--untracked-files=no"))}


def _run_git(directory: Path, *words: str) -> str | None:
    """Return the output of a git command, or None if it fails."""
    try:
        return subprocess.run(
            ["git", *words], cwd=directory, capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def ask_to_stop(sweep: Sweep, mix: str) -> None:
    """Ask a sweep's driver to stop a mix, or the whole sweep (""), at the next evaluation of a stack. Raises
    :class:`UserError` if no process drives the sweep, or it does not have the mix."""
    mixes = [mix.name for mix in sweep.spec.mixes]
    named = as_named(mix, mixes)
    if named and named not in mixes:
        raise unknown("mix", named, mixes, where=sweep.id)
    if not sweep.files.is_driven():
        raise UserError(f"{sweep.id} is not running, so there is nothing to stop")
    sweep.files.request_stop(named)


def failures(runs: Iterable[RunRecord]) -> Iterator[tuple[RunRecord, ProbeResult]]:
    """Yield probe results with errors, each with its run."""
    for run in runs:
        if run.outcome.status is Status.FINISHED:
            yield from ((run, result) for result in read_results(run.directory).values() if result.error)


def write_spec(files: SweepDirectory, spec: SweepSpec) -> SweepSpec:
    """Write a sweep's specification and return it as :func:`load_sweep` will read it. Raises :class:`UserError` if it
    could not be read again."""
    checked = spec.checked()
    write_whole(files.spec, checked.to_yaml())
    return checked


class UnreadableError(SweepError):
    """A sweep that cannot be read, and ``why``. For example, its family is in a module that is no longer installed.
    ``report`` is the report from the end of the sweep, or None if it has not ended."""

    def __init__(self, files: SweepDirectory, why: str) -> None:
        written = files.directory / REPORT
        self.id, self.why, self.report = files.id, why, written if written.is_file() else None
        remedy = f"Its answer is in {self.report}" if self.report else "Repair the file, or restore it from a backup"
        super().__init__(f"{self.id} cannot be read: {why}. {remedy}.")


def load_sweep(home: Home, sweep_id: str) -> Sweep:
    """Return the sweep with an id. Raises :class:`UnreadableError` if it cannot be read."""
    files = home.sweep(sweep_id)
    try:
        begun = next(read_journal(files.journal), None)
        if isinstance(begun, str):  # Lost: the environment and the exact start.
            written = datetime.fromtimestamp(files.spec.stat().st_mtime, UTC)
            begun = Begun(written.isoformat(timespec="seconds"))
        if not isinstance(begun, Begun):
            raise UnreadableError(files, f"{files.journal} has no readable first line")
        if begun.schema != SCHEMA:
            why = f"was written by another version of the program; this one reads schema {SCHEMA}"
            raise UnreadableError(files, f"{files.journal} {why}")
        folder = Path(begun.folder)
        # Nothing in a home is code: an imported home could bring its own.
        is_own = folder.is_absolute() and not folder.resolve().is_relative_to(home.root.resolve())
        if is_own:
            search_in(begun.folder)
        data = strict_yaml.read(files.spec.read_text(encoding="utf-8"), files.spec.name).data
        spec = parse(SweepSpec, data)
    except OSError as error:
        raise UnreadableError(files, f"{error.filename}: {error.strerror}") from error
    except ValueError as error:  # Not text, not YAML, or rejected by the family.
        raise UnreadableError(files, f"{files.spec} cannot be used: {error}") from error
    return Sweep(files, spec, begun.created, begun.environment, begun.source, begun.version)
