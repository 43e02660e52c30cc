"""Sweeps on disk, with their finished runs. An unreadable sweep does not affect others."""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orchestrator.history.journal import (
    JOURNAL_SCHEMA,
    Begun,
    Journal,
    read_journal,
)
from orchestrator.home.directories import Home, SweepDirectory
from orchestrator.home.foreign_files import MOST_SPACE_BYTES, open_file, read_text
from orchestrator.home.ownership import is_of_others
from orchestrator.home.trusted_code import UntrustedCodeError, import_named, named_code
from orchestrator.jobs.plan import SweepSetup
from orchestrator.search.base import Request
from orchestrator.space import strict_yaml
from orchestrator.space.parsing import parse
from orchestrator.space.runs import IMPORTED, Run
from orchestrator.space.spec import SweepSpec
from orchestrator.system.errors import SweepError
from orchestrator.system.files import is_file, remove_tree, replace_whole
from orchestrator.system.machine_errors import machine_error_text
from orchestrator.system.provenance import describe_environment
from orchestrator.system.reading_time import reading_limited
from trainables.base import Outcome

FIGURE_FILE = "transitions.png"
"""Comparison figure in a sweep's directory."""
REPORT_FILE = "report.html"
"""Report in a sweep's directory."""
ANSWER_FILE = "answer.txt"
"""Text of the answer in a sweep's directory, for readers who cannot import its family."""
LONGEST_ANSWER = 10_000
"""Maximum number of bytes of a stored answer that are read."""
REPAIR = "Repair the file, or restore it from a backup."
"""Remedy for a damaged sweep."""


@dataclass(frozen=True)
class Sweep:
    """A sweep.

    Attributes:
        files: The sweep's directory.
        spec: Its specification.
        created: Start of the sweep (ISO 8601, UTC).
        environment: Versions, git state and hardware at the start, as JSON values.
        source: Hash of the family's source at the start. Empty if unknown.
        version: Version of the family at the start, or 0 if unknown.
        nearby: Hash of the programs in the project of a script at the start. Empty if unknown.
    """

    files: SweepDirectory
    spec: SweepSpec
    created: str
    environment: dict[str, Any]
    source: str = ""
    version: int = 0
    nearby: str = ""

    @property
    def id(self) -> str:
        return self.files.id

    @property
    def record_id(self) -> str:
        """Id of the sweep in records and exported tables. It says so if the sweep was imported: its author may have
        records of the same id."""
        return f"{self.id} {IMPORTED}" if self.files.is_imported else self.id

    @property
    def fresh(self) -> bool:
        """True if the sweep trains all its runs and does not share them."""
        return bool(self.spec.salt)

    @property
    def setup(self) -> SweepSetup:
        """The properties that all jobs of the sweep share."""
        spec = self.spec
        return SweepSetup(
            sweep_id=self.id,
            directory=str(self.files.directory),
            family=spec.family_source.with_file_hashes(),
            version=spec.family_class.version,
            source=spec.source,
            accepts_other_code=spec.code == "warn",
            probes=spec.probes,
            resources=spec.resources,
            nearby=self.nearby,
        )

    def run(self, key: str, request: Request, outcome: Outcome, trained_for: str = "", at: str = "") -> Run:
        """Return a run of the sweep that ended ``at`` a time (ISO 8601), or now."""
        directory = self.files.home.runs / key
        at = at or datetime.now(UTC).isoformat(timespec="seconds")
        return Run(request, self.spec.config(request), outcome, key, directory, trained_for, at)


def create_sweep(spec: SweepSpec, home: Home, *, fresh: bool = False) -> Sweep:
    """Create a sweep on disk. If it is ``fresh``, its runs have different keys, so it does not reuse other runs."""
    while True:
        now = datetime.now(UTC)
        # The last four digits of the id order the sweeps that start in the same second.
        files = home.sweep(f"{_id_start(spec)}-{now:%Y%m%d-%H%M%S}-{(now.microsecond << 16) // 1_000_000:04x}")
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
            nearby=spec.family_source.hash_nearby(),
        )
        with Journal(files.journal) as journal:
            journal.append(begun)
    except OSError:
        # The disk is full, for example. A directory without a first line would be listed as a damaged sweep.
        remove_tree(files.directory)
        raise
    return Sweep(files, spec, begun.created, begun.environment, begun.source, begun.version, begun.nearby)


def _id_start(spec: SweepSpec) -> str:
    """Return what the ids of all sweeps of a space and variant start with."""
    return "-".join(filter(None, (spec.name, spec.variant)))


def write_spec(files: SweepDirectory, spec: SweepSpec) -> SweepSpec:
    """Write a sweep's specification, and return it as :func:`load_sweep` will read it.

    Raises:
        UserError: If the file could not be read again. Then it is not written.
    """
    checked = spec.checked()
    replace_whole(files.spec, checked.to_yaml())
    return checked


class UnreadableError(SweepError):
    """A sweep that cannot be read. For example, its family is in a module that is no longer installed.

    Attributes:
        id: The sweep's id.
        why: The reason.
        answer: Text of the answer from the end of the sweep. Empty if there is none.
        report: Path of the report from the end of the sweep, or None.
        is_imported: True if the sweep is known to have come with an archive.
    """

    def __init__(self, files: SweepDirectory, why: str, remedy: str = REPAIR) -> None:
        self.id = files.id
        self.why = why
        self.answer = stored_answer(files)
        self.report: Path | None = None
        self.is_imported = False
        with suppress(OSError):
            self.is_imported = files.is_imported
            if is_file(written := files.directory / REPORT_FILE):
                self.report = written
        if self.report:  # A browser would run the scripts of an imported report.
            remedy = "`ui` shows its author's report." if self.is_imported else f"Its answer is in {self.report}."
        super().__init__(" ".join(filter(None, (f"{self.record_id} cannot be read: {why.rstrip('.')}.", remedy))))

    @property
    def record_id(self) -> str:
        """The sweep's id, with a remark if the sweep came with an archive."""
        return f"{self.id} {IMPORTED}" if self.is_imported else self.id

    @classmethod
    def of(cls, files: SweepDirectory, error: OSError) -> UnreadableError:
        """Return the error for a file of a sweep or of its runs that the system does not let us read."""
        path = error.filename or files.directory
        if message := machine_error_text(error, path):
            return cls(files, message, "Nothing was lost or changed." if error.errno == errno.EACCES else "")
        return cls(files, f"{path}: {error.strerror}")


def stored_answer(files: SweepDirectory) -> str:
    """Return the text of the answer from the end of a sweep. Return an empty string if there is none."""
    try:
        with open_file(files.directory / ANSWER_FILE) as file:
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
        if isinstance(begun, str):  # The first line is damaged. Only the environment and the exact start are lost.
            written = datetime.fromtimestamp(files.spec.stat().st_mtime, UTC)
            begun = Begun(written.isoformat(timespec="seconds"))
        if not isinstance(begun, Begun):
            raise UnreadableError(files, f"{files.journal} has no readable first line")
        if begun.schema != JOURNAL_SCHEMA:
            why = f"was written by another version of the program; this one reads schema {JOURNAL_SCHEMA}"
            raise UnreadableError(files, f"{files.journal} {why}")
        data = strict_yaml.read(read_text(files.spec, MOST_SPACE_BYTES), files.spec.name).data
        import_named(named_code(data), home.root, begun.folder)
        with reading_limited(is_of_others(files)):
            spec = parse(SweepSpec, data)
        if not sweep_id.startswith(f"{_id_start(spec)}-"):  # Its record would go to the experiment of another space.
            raise ValueError(f"it is the space {_id_start(spec)}, which the id of the sweep does not name")
        # Ignore the author's scratch directory: on this machine it may contain other data.
        spec = spec.substitute(resources=spec.resources.model_copy(update={"scratch": None}))
    except OSError as error:
        raise UnreadableError.of(files, error) from error
    except UntrustedCodeError as error:
        raise UnreadableError(files, str(error), remedy="") from error
    # Not text, not YAML, or rejected by the family, whose arithmetic may fail for values that no check foresaw.
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise UnreadableError(files, f"{files.spec} cannot be used: {error}") from error
    return Sweep(files, spec, begun.created, begun.environment, begun.source, begun.version, begun.nearby)
