"""Files of stacks in training: checkpoints, and progress for other processes to show."""

from __future__ import annotations

import json
import logging
import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple, TypeVar

from orchestrator.home.directories import SweepDirectory
from orchestrator.home.foreign_files import (
    MOST_JOURNAL_BYTES,
    checked_path,
    parse_json,
    read_bytes,
    read_json,
    typed,
    whole_lines,
)
from orchestrator.home.safe_writing import open_to_append, own_path
from orchestrator.home.seals import flaw_of, seal
from orchestrator.jobs.plan import Job, Member, Stack
from orchestrator.system.files import (
    entries,
    files_below,
    is_directory,
    is_file,
    remove_file,
    remove_tree,
    replace_whole,
    whole_directory,
)
from trainables.base import Evaluation

log = logging.getLogger(__name__)

LEARNER_DIRECTORY = "checkpoint"
"""Directory in a checkpoint with the learner's files."""
WORK = "work"
"""Directory next to checkpoints, with a directory for each stack whose learner writes files while it trains."""
MEMBERS = "members.json"
"""File with a stack's members, in the directory of a checkpoint or a stack in training."""
PROGRESS = "progress.jsonl"
"""File next to :data:`MEMBERS` with the evaluations of a stack's runs, as JSON lines."""
MOST_PACKED_BYTES = 1 << 30
"""Bytes of the largest checkpoint that is sent to another machine."""
NUMBERED = re.compile(r"[^./\\\0-\x1f\x7f][^/\\\0-\x1f\x7f]{0,238}\.[0-9]{1,15}")
"""Pattern of the name of a checkpoint, ``STACK.NUMBER``. Other files next to checkpoints are never touched."""
MOST_PROGRESS_LINES = 300_000
"""Maximum number of lines of a stack's progress that commands read. Stacks have at most some hundreds of runs, and runs
some hundreds of evaluations."""
T = TypeVar("T")


class PackedCheckpoint(NamedTuple):
    """A checkpoint in transit between machines: its number in the order of its stack, and its files by path."""

    number: int
    files: Mapping[str, bytes]


class Checkpoints:
    """Checkpoints in a directory, as ``STACK.NUMBER``, with the members needed to restore the stack. Only one worker
    at a time writes checkpoints of a stack."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def beside_journal(self) -> bool:
        """True for a sweep's directory, which the driver can access; False for a node's scratch."""
        return SweepDirectory(self._root.parent).journal.is_file()

    def stacks(self) -> list[str]:
        """Return the ids of the stacks that have a checkpoint."""
        return sorted(self._whole())

    def newest(self, stack_id: str) -> Path | None:
        """Return the directory of a stack's newest checkpoint, or None if it has no checkpoint."""
        return next(reversed(self._whole()[stack_id]), None)

    @contextmanager
    def put(self, stack_id: str, members: Sequence[Member], ended: Collection[int] = ()) -> Iterator[Path]:
        """Yield a directory for a stack's next checkpoint. Remove older checkpoints after it is complete."""
        older = self._whole()[stack_id]
        number = number_of(older[-1]) + 1 if older else 1
        with whole_directory(self._root / f"{stack_id}.{number}") as directory:
            write_members(directory, members, ended)
            yield directory
            seal(directory)
        # Only now: if this process is killed before, a retry continues from the older checkpoint.
        for path in older:
            remove_tree(path)

    def pack(self, stack_id: str) -> PackedCheckpoint | None:
        """Return a stack's newest checkpoint with its files, or None if it has no checkpoint. Raises ``ValueError`` if
        the checkpoint is too large to send."""
        newest = self.newest(stack_id)
        if newest is None:
            return None
        paths = files_below(newest)
        if (size := sum(path.lstat().st_size for path in paths)) > MOST_PACKED_BYTES:
            raise ValueError(f"{size:,} bytes are more than {MOST_PACKED_BYTES:,}")
        return PackedCheckpoint(number_of(newest), {str(path.relative_to(newest)): path.read_bytes() for path in paths})

    def unpack(self, stack_id: str, packed: PackedCheckpoint) -> bool:
        """Write a checkpoint from another machine, and remove older checkpoints.

        Return False if the checkpoint here is as new. Raises ``ValueError`` for a name that leads elsewhere, and for
        files that do not match their checksums.
        """
        older = self._whole()[stack_id]
        # A copy that arrives late must not replace a newer checkpoint.
        if older and number_of(older[-1]) >= packed.number:
            return False
        name = f"{stack_id}.{packed.number}"
        if NUMBERED.fullmatch(name) is None:
            raise ValueError(f"{name!r} is not the name of a checkpoint")
        with whole_directory(self._root / name) as directory:
            for name_in_checkpoint, content in packed.files.items():
                path = directory / checked_path(name_in_checkpoint)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            if flaw := flaw_of(directory):
                raise ValueError(f"the checkpoint {name} did not arrive whole: {flaw}")
        for path in older:
            remove_tree(path)
        return True

    def work(self, stack_id: str) -> Path:
        """Return the directory for files that a stack's learner writes while it trains. The directory may not exist.

        Remove a link at that path, because it could lead to another user's files.
        """
        return own_path(own_path(self._root / WORK) / stack_id)

    def drop(self, stack_id: str) -> None:
        """Remove a stack's checkpoints and the files of its learner."""
        for path in self._whole()[stack_id]:
            remove_tree(path)
        self.drop_work(stack_id)

    def drop_work(self, stack_id: str) -> None:
        """Remove the files of a stack's learner."""
        remove_tree(self.work(stack_id))

    def clear(self, keep: Collection[str] = ()) -> None:
        """Remove all checkpoints and files of learners, except for the stacks to ``keep``. When a sweep ends, failed
        stacks still have such files."""
        if not keep:
            remove_tree(self._root)
            return
        for stack_id in {*self.stacks(), *(path.name for path in entries(self._root / WORK))}.difference(keep):
            self.drop(stack_id)

    def copy_from(self, other: Checkpoints, read: Callable[[Member], Job]) -> list[str]:
        """Copy the checkpoints of stacks whose runs are the same here. Return the ids of the stacks.

        Args:
            other: Checkpoints of another sweep.
            read: Returns this sweep's job for a stored member.
        """
        copied = []
        for stack_id in other.stacks():
            newest = other.newest(stack_id)
            try:
                jobs = [] if newest is None else list(map(read, read_members(newest)[0]))
                packed = other.pack(stack_id) if jobs and Stack(tuple(jobs)).id == stack_id else None
                if packed is not None and self.unpack(stack_id, packed):
                    copied.append(stack_id)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                log.info(f"the checkpoint of {stack_id} is not used: {type(error).__name__}: {error}")
        return copied

    def check(self, stack_id: str) -> str:
        """Return an empty string if a stack's newest checkpoint is intact. Otherwise, drop the checkpoint and return a
        message for the user."""
        newest = self.newest(stack_id)
        flaw = "it is missing" if newest is None else flaw_of(newest) or _odd_file(newest)
        return self.drop_damaged(stack_id, flaw) if flaw else ""

    def drop_damaged(self, stack_id: str, flaw: str) -> str:
        """Drop an unusable checkpoint and return a message for the user."""
        for path in self._whole()[stack_id]:
            remove_tree(path)
        return f"the checkpoint of {stack_id} in {self._root} is damaged ({flaw}), so its runs begin again at step 0"

    def interrupted(self, read: Callable[[Member], T]) -> list[list[T]]:
        """Return the members of each stack that an earlier driver left. Log and drop damaged checkpoints.

        A checkpoint also counts as damaged if ``read`` raises an exception for a stored member.
        """
        stacks = []
        for stack_id in self.stacks():
            if damage := self.check(stack_id):
                log.warning(damage)
            # A checkpoint without a learner's state only shows which runs were together.
            elif (path := self.newest(stack_id)) is not None and (path / LEARNER_DIRECTORY).is_dir():
                try:
                    stacks.append(list(map(read, read_members(path)[0])))
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    log.warning(self.drop_damaged(stack_id, f"{MEMBERS}: {error}"))
        return stacks

    def _whole(self) -> defaultdict[str, list[Path]]:
        """Return the complete checkpoints by stack, oldest first. Names of incomplete checkpoints begin with a dot."""
        stacks: defaultdict[str, list[Path]] = defaultdict(list)
        complete = [path for path in entries(self._root) if NUMBERED.fullmatch(path.name) and is_directory(path)]
        for path in sorted(complete, key=number_of):
            stacks[path.stem].append(path)
        return stacks


def _odd_file(checkpoint: Path) -> str:
    """Return a message about the first link, pipe or device in a checkpoint. Return an empty string if there is none.

    A learner would follow the link or block on the pipe, even if the checksum file does not list it.
    """
    odd = (path for path in sorted(checkpoint.rglob("*")) if not (is_file(path) or is_directory(path)))
    return next((f"{path.name} is not a plain file" for path in odd), "")


def number_of(checkpoint: Path) -> int:
    """Return the number of a checkpoint in the order of its stack."""
    return int(checkpoint.suffix[1:])


class StackNotes:
    """The driver's notes on stacks in training, for other processes to show. Losing them does not affect any run."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def begin(self, stack_id: str, members: Sequence[Member]) -> None:
        """Note that a stack is training. Remove an incomplete last line left by a full disk."""
        write_members(own_path(self._root / stack_id), members)
        path = own_path(self._root / stack_id / PROGRESS)
        try:
            whole = read_bytes(path, MOST_JOURNAL_BYTES).rfind(b"\n") + 1
            with open_to_append(path) as file:
                file.truncate(whole)
        except FileNotFoundError:
            return
        except ValueError:  # The file is too large, so this program did not write it.
            remove_file(path)

    def evaluated(self, stack_id: str, key: str, evaluation: Evaluation) -> None:
        """Note an evaluation of one of a stack's runs."""
        note_progress(self._root / stack_id, [(key, evaluation)])

    def split(self, stack_id: str, parts: Mapping[str, Sequence[Member]]) -> None:
        """Note that smaller stacks continue a stack's runs. ``parts`` has the members of each by its id."""
        for part, members in parts.items():
            write_members(own_path(self._root / part), members)
            with suppress(FileNotFoundError, ValueError):  # No progress yet, or another user left a link or pipe.
                progress = read_bytes(self._root / stack_id / PROGRESS, MOST_JOURNAL_BYTES)
                replace_whole(self._root / part / PROGRESS, progress)
        self.end(stack_id)

    def end(self, stack_id: str) -> None:
        """Remove the notes of a stack whose runs have all ended."""
        remove_tree(self._root / stack_id)


def read_members(directory: Path) -> tuple[list[Member], frozenset[int]]:
    """Return a stack's members, and the indices of the runs that ended before the checkpoint. The checkpoint does not
    contain their state."""
    data = read_json(directory / MEMBERS)
    members: list[Member] = [dict(member) for member in data["requests"]]
    ended = frozenset(data["ended"])
    if not members or not ended <= set(range(len(members))):
        raise ValueError(f"{MEMBERS} does not name the runs of a stack")
    return members, ended


def write_members(directory: Path, members: Sequence[Member], ended: Collection[int] = ()) -> None:
    """Write a stack's members to its directory."""
    data = {"requests": list(members), "ended": sorted(ended)}
    replace_whole(directory / MEMBERS, json.dumps(data))


def note_progress(directory: Path, evaluations: Iterable[tuple[str, Evaluation]]) -> None:
    """Append evaluations, each with the key of its run, to the progress in a stack's directory."""
    lines = [json.dumps({"key": key, **asdict(evaluation)}) for key, evaluation in evaluations]
    with open_to_append(directory / PROGRESS) as file:
        file.write("".join(f"{line}\n" for line in lines).encode())


def read_progress(directory: Path, most_lines: float = math.inf) -> dict[str, tuple[Evaluation, ...]]:
    """Return the learning curves so far by run key. The last evaluation of a step counts; a partial line does not.

    Raises ``ValueError`` for a file of more than ``most_lines`` lines.
    """
    curves: dict[str, dict[int, Evaluation]] = {}
    lines = whole_lines(directory / PROGRESS)
    if len(lines) > most_lines:
        raise ValueError(f"{PROGRESS} has {len(lines):,} lines, too many")
    for data in map(parse_json, lines):
        key = data.pop("key")
        curves.setdefault(key, {})[data["step"]] = typed(Evaluation, data)
    return {key: tuple(curve[step] for step in sorted(curve)) for key, curve in curves.items()}
