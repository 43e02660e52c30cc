"""Contract of a tracker, which stores records for people and their tools, and the form of the records."""

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
    """One value of a metric. ``progress`` in [0, 1] is its position in the record's duration, estimated from the step.
    A store that keeps times uses it."""

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
        params: Inputs of the recorded work, as text by name.
        samples: Finite numbers.
        note: A description in Markdown.
        texts: Artifacts by name, as text.
        files: Artifacts by name, as paths of files that exist while the record is written. A name may have a folder
            (``probes/NAME.npz``).
        seconds: Duration of the recorded work.
        ended: Time of the record (ISO 8601, UTC): the start of a sweep, and the end of anything else.
        group: Name of the group to which the sweep belongs, usually its search space.
        draw: Function that draws pictures in a directory, and returns their paths by name. Pictures are artifacts, but
            optional, so a tracker need not call it. It takes long, so a tracker calls it only for a record that it
            writes. If it raises an exception, the record is stored without pictures
            (:func:`orchestrator.report.drawing.try_to_draw`).
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
        """Sweep, kind, key of the run and mix. The last two are empty for records that do not have them."""
        kind = self.tags["kind"]
        mix = "" if kind == "sweep" else self.tags.get("mix") or self.params.get("mix", "")
        return self.sweep, kind, self.tags.get("run_key", ""), mix

    @cached_property
    def digest(self) -> str:
        """Hash of the name, tags, parameters, samples, texts, and arrays of probes. The note, times, group, pictures
        and other files do not count. A tracker does not write a record again if the store has one with this digest."""
        samples = [(sample.name, sample.value, sample.step, sample.progress) for sample in self.samples]
        parts: list[object] = [self.name, self.tags, self.params, samples, self.texts]
        # A run's own arrays never change, but a probe may be repeated. Older records without such arrays keep their
        # digest.
        probed = {name: path.read_bytes() for name, path in self.files.items() if name.startswith(PROBES)}
        parts += [{name: hashlib.sha256(array).hexdigest() for name, array in probed.items()}] if probed else []
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


class Tracker(ABC):
    """Stores records of sweeps. The sweep itself never reads them. Everything can be recorded again from the home, so
    the calls of a tracker are repeated after a crash, an outage or a loss.

    A sweep has one record about itself (``sweep``, an argument of every method) and any number of other records.

    1. *Keep before you return.* When a method returns, another process finds the record in the store, with its name,
       group, note, start and end, and with every parameter, tag, text, file and sample. Each sample keeps its step;
       samples of one name at several steps are a curve. A file keeps its name, with the folder. It is stored as a copy
       or, if all readers have the home, as its path.
    2. *Write a record once.* If the store has a record with this identity (:attr:`Content.identity`) and digest, do not
       write it again, even if another object or process wrote it. Its note, times and files stay as they were.
       Demand 5 has an exception.
    3. *Replace changed records.* A record replaces an earlier record with the same identity and another digest, so
       readers find only the later record. Records that differ only in the mix have different identities, because two
       mixes may share a run.
    4. *Take any order.* ``keep`` and ``end`` may come without ``begin``, for example if another process called it. If
       the store does not have the sweep, they record it first, ``keep`` as running. Several sweeps, each in its own
       process, may share a store and write at the same time.
    5. *Follow the state.* A record of ``keep`` is finished, or failed if its tag ``status`` is ``failed``. The sweep's
       own record is running after ``begin``. After ``end``, it has the given state, the additions of the answer, and
       still its start. ``begin`` and ``end`` may be called again, and the last call counts; ``keep`` leaves the state
       of a known sweep as it is. Here, an equal digest does not mean that the store is up to date. The state may have
       changed, or ``end`` is called again with the same answer to add figures that are now drawn. Between
       ``begin`` and the next ``end``, the store may have the earlier answer or none.
    6. *Fail with* ``StoreError``. Its message names the store and the reason, without passwords. Afterwards, readers
       find no half-written record, and the same call, repeated with this object or another, completes the record.

    One thread uses the object. ``Content`` and its files come from this program. The store may contain data that other
    users wrote, so check them when you read them.

    The suite ``tests/record/suite.py`` checks these demands on any tracker. ``json_lines.py`` is a complete tracker
    with one file, and ``tests/record/csv_files.py`` a shorter tracker with several files.
    """

    @abstractmethod
    def begin(self, sweep: Content) -> None:
        """Record that a sweep is running, from its start or again after an end."""

    @abstractmethod
    def keep(self, sweep: Content, record: Content) -> None:
        """Keep a complete record of a run or a transition of a sweep."""

    @abstractmethod
    def end(self, sweep: Content, answer: Content, state: State) -> None:
        """Record the end of a sweep.

        Args:
            sweep: The sweep's own record, as for :meth:`begin`.
            answer: Additions to that record. It is not a separate record. Its tags replace tags of the same names, its
                note replaces the sweep's note, its texts and files are added, and its ``ended`` is the end of the
                sweep. It has no parameters or samples, and its name is not used.
            state: State of the sweep from now on.
        """
