"""Contract of a tracker, which keeps records for people and their tools, and the records themselves."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from orchestrator.home.directories import PROBES
from orchestrator.jobs.state import State
from orchestrator.system.errors import SweepError


class StoreError(SweepError):
    """A store that could not be read or written. The message names the store and the reason."""


@dataclass(frozen=True)
class Sample:
    """One value of a metric. ``progress`` in [0, 1] is its time relative to the record's duration."""

    name: str
    value: float
    step: int = 0
    progress: float = 1.0


def draw_nothing(directory: Path) -> dict[str, Path]:
    """Draw no picture."""
    return {}


@dataclass(frozen=True)
class Content:
    """A record: pure values about a sweep, a run or a result.

    Attributes:
        tags: Text by name. Every record has ``kind`` (``sweep``, ``run`` or ``transition``) and ``sweep``, but an
            answer (:meth:`Tracker.end`) has neither. ``status`` is ``failed`` for a failed run.
        params: What the recorded work was given, as text by name.
        samples: Finite numbers.
        note: A description in Markdown.
        texts: Artifacts by name, as text.
        files: Artifacts by name, which may have a folder (``probes/NAME.npz``), as files that exist while the record is
            written.
        seconds: Duration of the recorded work.
        ended: End of the recorded work (ISO 8601, UTC). Of a sweep's own record, it is the start of the sweep.
        group: Name of what the sweep belongs to, such as its search space.
        draw: Draws pictures in a directory, and returns their paths by name. They are artifacts, too, but a tracker may
            do without them. It takes long, so a tracker calls it only for a record that it writes. It may raise any
            exception: then the record is kept without pictures (:func:`orchestrator.report.drawing.try_to_draw`).
    """

    name: str
    tags: dict[str, str]
    params: dict[str, str]
    samples: tuple[Sample, ...] = ()
    note: str = ""
    texts: dict[str, str] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    seconds: float = 0.0
    ended: str = ""
    group: str = ""
    draw: Callable[[Path], Mapping[str, Path]] = field(default=draw_nothing, compare=False)

    @property
    def sweep(self) -> str:
        """Id of the sweep."""
        return self.tags["sweep"]

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """What the record is about: sweep, kind, key of the run or "", and mix or ""."""
        kind = self.tags["kind"]
        mix = "" if kind == "sweep" else self.tags.get("mix") or self.params.get("mix", "")
        return self.sweep, kind, self.tags.get("run_key", ""), mix

    @cached_property
    def digest(self) -> str:
        """Hash of the record without its note, times and pictures. A record with an equal digest is not written
        again."""
        samples = [(sample.name, sample.value, sample.step, sample.progress) for sample in self.samples]
        parts: list[object] = [self.name, self.tags, self.params, samples, self.texts]
        # A run keeps its own arrays, but a probe may be repeated. Records without such arrays keep their digest.
        probed = {name: path.read_bytes() for name, path in self.files.items() if name.startswith(PROBES)}
        parts += [{name: hashlib.sha256(array).hexdigest() for name, array in probed.items()}] if probed else []
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


class Tracker(ABC):
    """Keeps records of sweeps in a store. The sweep itself never reads them: everything can be recorded again from the
    home, so a tracker is replayed after a crash, an outage or a loss.

    A sweep has a record of its own (``sweep``, an argument of every method) and any number of others.

    1. *Keep before you return.* When a method returns, another process finds the record in the store, with every
       parameter, tag, text, file and sample. Each sample keeps its step; samples of one name at several steps are a
       curve. A file is kept as a copy or, if its readers have the home, as its path.
    2. *Write a record once.* A record whose identity (:attr:`Content.identity`) and digest the store has is not written
       again, also by another object or process. ``note``, ``ended`` and files are then left as they were. Demand 5 has
       an exception.
    3. *Replace what has changed.* A record replaces one with the same identity and another digest: readers find only
       the later. Identities differ if only the mix differs, because two mixes may share a run.
    4. *Take any order.* ``keep`` and ``end`` come without ``begin`` when another process has called it, or never: then
       they record the sweep first. Several sweeps, in several processes, may share a store, and do not disturb each
       other.
    5. *Follow the state.* A record of ``keep`` is finished, or failed if its tag ``status`` is ``failed``. The sweep's
       own record is running after ``begin``; after ``end`` it has the given state and the additions of the answer. Both
       may be called again, in turns, and the last call counts. Equal digests do not mean that nothing is to be written
       here: the state may have changed, and ``end`` is called again with the same answer when its figures have been
       drawn, which are then added. Between ``begin`` and the next ``end``, the store may have the earlier answer or
       none.
    6. *Fail with* ``StoreError``, which says which store and why, without passwords. Nothing half-written is found as
       a record afterwards, and the same call, repeated with the same object or another, completes the record.

    One thread uses the object. ``Content`` and its files come from this program; what is in the store may have been
    written by others, so it is data: check it where it is read.

    The suite tests/record/suite.py checks these demands on any tracker. ``json_lines.py`` is a complete one in a file,
    and ``tests/record/csv_files.py`` a shorter one in several.
    """

    @abstractmethod
    def begin(self, sweep: Content) -> None:
        """Record that a sweep is running, also when it continues."""

    @abstractmethod
    def keep(self, sweep: Content, record: Content) -> None:
        """Keep a complete record of a sweep."""

    @abstractmethod
    def end(self, sweep: Content, answer: Content, state: State) -> None:
        """Record the end of a sweep.

        Args:
            sweep: The sweep's own record, as for :meth:`begin`.
            answer: Additions to that record, not a record by itself. Its tags replace those of the same names, its note
                replaces the sweep's, its texts and files are added, and its ``ended`` is the end of the sweep. It has
                no parameters or samples, and its name is not used.
            state: State of the sweep from now on.
        """
