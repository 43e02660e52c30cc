"""Sweeps on disk, with their finished runs. An unreadable sweep does not affect others."""

from __future__ import annotations

import errno
import platform
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from orchestrator.history.journal import SCHEMA, Begun, Ended, Entry, Journal, Memory, memory_of, read_journal
from orchestrator.home.directories import Home, SweepDirectory
from orchestrator.home.foreign_files import MOST_SPACE_BYTES, open_file, read_text
from orchestrator.home.run_files import ProbeResult, read_results, read_run
from orchestrator.home.run_store import RunStore
from orchestrator.home.trusted_code import UntrustedCodeError, import_named, named_code
from orchestrator.jobs.plan import SweepSetup
from orchestrator.search.base import Request
from orchestrator.space import strict_yaml
from orchestrator.space.mistakes import parse
from orchestrator.space.runs import Run
from orchestrator.space.spec import SweepSpec
from orchestrator.system import hardware
from orchestrator.system.did_you_mean import unknown
from orchestrator.system.errors import SweepError, UserError
from orchestrator.system.files import is_file, remove_tree, replace_whole
from orchestrator.system.machine_errors import trouble_words
from trainables.base import Outcome, Status
from trainables.contract.arms import as_named

FIGURE = "transitions.png"
"""Comparison figure in a sweep's directory."""
REPORT = "report.html"
"""Report in a sweep's directory."""
ANSWER = "answer.txt"
"""Answer in a sweep's directory, for readers who cannot import its family."""
LONGEST_ANSWER = 10_000
"""Characters of a stored answer that are read."""
REPAIR = "Repair the file, or restore it from a backup."
"""Remedy for a damaged sweep."""
PACKAGES = ("torch", "ray", "mlflow", "numpy", "scipy", "scikit-learn")


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

    @property
    def setup(self) -> SweepSetup:
        """What the jobs of the sweep share."""
        spec = self.spec
        return SweepSetup(
            sweep_id=self.id,
            directory=str(self.files.directory),
            family=spec.family_source,
            version=spec.family_class.version,
            source=spec.source,
            accepts_other_code=spec.code == "warn",
            probes=spec.probes,
            resources=spec.resources,
        )

    def run(self, key: str, request: Request, outcome: Outcome, trained_for: str = "", at: str = "") -> Run:
        """Return a run of the sweep that ended ``at`` a time (ISO 8601), or now."""
        directory = self.files.home.runs / key
        at = at or datetime.now(UTC).isoformat(timespec="seconds")
        return Run(request, self.spec.config(request), outcome, key, directory, trained_for, at)


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
        spec = spec.checked().substitute(salt=files.id)
    try:
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
    except OSError:  # A full disk, for example. A directory without a first line would be listed as damaged.
        remove_tree(files.directory)
        raise
    return Sweep(files, spec, begun.created, begun.environment, begun.source, begun.version)


def recall_sweep(sweep: Sweep) -> Memory:
    """Read a sweep's journal and runs, and note damage. Leave out entries that do not fit its specification; they also
    count as damage."""
    files, spec = sweep.files, sweep.spec
    lines = list(read_journal(files.journal))
    memory = memory_of(files, lines)
    damaged = list(memory.damaged)
    misfits: list[str] = []
    lost: list[str] = []
    runs: list[Run] = []
    is_imported = files.is_imported
    for line in _last_of_each_run(lines):
        directory = files.home.runs / line.key
        outcome = line.failure or read_run(directory)
        if isinstance(outcome, str):
            damaged.append(f"{directory} is damaged ({outcome}), so the run is ignored")
            lost.append(line.key)
            continue
        try:
            origin = line.trained_for if is_imported or line.failure else _origin(sweep, line)
            run = sweep.run(line.key, line.request, outcome, origin, line.at)
            _check_tasks_of(run)
        except (KeyError, IndexError, ValueError, TypeError, AttributeError, ArithmeticError) as error:
            misfits.append(
                f"{files.journal}: run {line.key} does not fit the sweep ({_reason(error)}), so it is ignored"
            )
        else:
            runs.append(run)
    blocks = tuple(block for block in memory.blocks if {block.mix, block.baseline} <= spec.mix_named.keys())
    if len(blocks) < len(memory.blocks):
        damaged.append(f"{files.journal}: {len(memory.blocks) - len(blocks)} pairs are of other mixes and are ignored")
    return replace(
        memory,
        ended=tuple(run for run in runs if run.request.until is None),
        trials=tuple(run for run in runs if run.request.until is not None),
        blocks=blocks,
        damaged=(*damaged, *misfits),
        lost=tuple(lost),
    )


def _origin(sweep: Sweep, line: Ended) -> str:
    """Return the sweep that a run was trained for, as in the journal, unless an archive has brought the run since then,
    in the place of a damaged one."""
    store = RunStore(sweep.files.home, sweep.id)
    return (store.is_imported(line.key) and store.trained_for(line.key)) or line.trained_for


def _last_of_each_run(lines: Iterable[Entry | str]) -> Iterable[Ended]:
    """Return the line that counts for each run, in order: the last one, if a failed run was trained again."""
    last: dict[tuple[str, Request], Ended] = {}
    for line in lines:
        if isinstance(line, Ended):
            last.pop((line.key, line.request), None)  # A later line also has a later place in the order.
            last[line.key, line.request] = line
    return last.values()


def _check_tasks_of(run: Run) -> None:
    """Raise ``ValueError`` unless the scores of a run are those of its tasks."""
    tasks = set(run.config.mix.tasks)
    if run.outcome.status is not Status.FAILED and run.config.until is None:
        _check_tasks("accuracy", run.outcome.accuracy, tasks)
    for point in run.outcome.curve:
        _check_tasks("learning curve", point.accuracy, tasks)


def _check_tasks(what: str, scores: Mapping[str, float], tasks: AbstractSet[str]) -> None:
    if scores.keys() != tasks:
        raise ValueError(
            f"its {what} is of {', '.join(sorted(scores)) or 'no task'}, not of {', '.join(sorted(tasks))}"
        )


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0][:200]


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


def failures(runs: Iterable[Run]) -> Iterator[tuple[Run, ProbeResult]]:
    """Yield probe results with errors, each with its run."""
    for run in runs:
        if run.outcome.status is Status.FINISHED:
            yield from ((run, result) for result in read_results(run.directory).values() if result.error)


def write_spec(files: SweepDirectory, spec: SweepSpec) -> SweepSpec:
    """Write a sweep's specification and return it as :func:`load_sweep` will read it. Raises :class:`UserError` if it
    could not be read again."""
    checked = spec.checked()
    replace_whole(files.spec, checked.to_yaml())
    return checked


class UnreadableError(SweepError):
    """A sweep that cannot be read, and ``why``. For example, its family is in a module that is no longer installed.

    ``answer`` is the text from the end of the sweep, "" if there is none. ``report`` is the report from then, or None.
    ``is_imported`` is True if the sweep is known to have come with an archive.
    """

    def __init__(self, files: SweepDirectory, why: str, remedy: str = REPAIR) -> None:
        self.id, self.why, self.report, self.answer = files.id, why, None, stored_answer(files)
        self.is_imported = False
        with suppress(OSError):
            self.is_imported = files.is_imported
            if is_file(written := files.directory / REPORT):
                self.report = written
        remedy = f"Its answer is in {self.report}." if self.report else remedy
        super().__init__(" ".join(filter(None, (f"{self.id} cannot be read: {why.rstrip('.')}.", remedy))))

    @classmethod
    def of(cls, files: SweepDirectory, error: OSError) -> UnreadableError:
        """Return the error for a file of a sweep, or of one of its runs, that the system does not let us read."""
        place = error.filename or files.directory
        if words := trouble_words(error, place):
            return cls(files, words, "Nothing was lost or changed." if error.errno == errno.EACCES else "")
        return cls(files, f"{place}: {error.strerror}")


def stored_answer(files: SweepDirectory) -> str:
    """Return the answer from the end of a sweep as text, or "" if there is none."""
    try:
        with open_file(files.directory / ANSWER) as file:
            return file.read(LONGEST_ANSWER).decode(errors="replace").strip()
    except (OSError, ValueError):
        return ""


def load_sweep(home: Home, sweep_id: str) -> Sweep:
    """Return the sweep with an id. Raises :class:`UnreadableError` if it cannot be read."""
    files = home.sweep(sweep_id)
    try:
        begun = next(read_journal(files.journal), None)
    except ValueError as error:
        raise UnreadableError(files, f"{files.journal} cannot be read: {error}") from error
    except OSError as error:
        raise UnreadableError(files, f"{error.filename}: {error.strerror}") from error
    try:
        if isinstance(begun, str):  # Lost: the environment and the exact start.
            written = datetime.fromtimestamp(files.spec.stat().st_mtime, UTC)
            begun = Begun(written.isoformat(timespec="seconds"))
        if not isinstance(begun, Begun):
            raise UnreadableError(files, f"{files.journal} has no readable first line")
        if begun.schema != SCHEMA:
            why = f"was written by another version of the program; this one reads schema {SCHEMA}"
            raise UnreadableError(files, f"{files.journal} {why}")
        data = strict_yaml.read(read_text(files.spec, MOST_SPACE_BYTES), files.spec.name).data
        import_named(named_code(data), home.root, begun.folder)
        spec = parse(SweepSpec, data)
        # The sweep's author chose this directory, which may contain other data here: the reader names another.
        spec = spec.substitute(resources=spec.resources.model_copy(update={"scratch": None}))
    except OSError as error:
        raise UnreadableError.of(files, error) from error
    except UntrustedCodeError as error:
        raise UnreadableError(files, str(error), remedy="") from error
    except ValueError as error:  # Not text, not YAML, or rejected by the family.
        raise UnreadableError(files, f"{files.spec} cannot be used: {error}") from error
    return Sweep(files, spec, begun.created, begun.environment, begun.source, begun.version)
