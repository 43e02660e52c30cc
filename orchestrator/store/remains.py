"""What training leaves on disk, by name: of a run that ended and of a stack that goes on. Read without torch."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orchestrator.search.base import Request
from orchestrator.store.files import write_whole
from trainables.base import Evaluation, Outcome

OUTCOME = "outcome.json"
ORIGIN = "origin.json"
"""In a finished run's directory: for which sweep it was trained, and when it ended."""
WEIGHTS = "weights.safetensors"
CHECKPOINT = "checkpoint"
"""In the directory of a stack's checkpoint: what its learner goes on from."""
MEMBERS = "members.json"
"""There, and where a stack shows how it goes: the requests it was made of, so that it can be put together again, and
how often a larger stack was halved for lack of memory to make it."""
PROGRESS = "progress.jsonl"
"""Where a stack shows how it goes: its runs' evaluations, a JSON line each, for people who look from elsewhere."""


@dataclass(frozen=True)
class Origin:
    """Where a finished run comes from: the id of the sweep it was trained for, and when it ended (ISO 8601, UTC)."""

    sweep: str
    ended: str


def read_origin(directory: Path) -> Origin | None:
    """Where a finished run comes from; None where its directory does not say, or not legibly."""
    try:
        return Origin(**json.loads((directory / ORIGIN).read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError, ValueError, TypeError):
        return None


def write_origin(directory: Path, sweep_id: str, ended: datetime | None = None) -> None:
    """Say in a finished run's directory that it was trained for this sweep and ended then, or now."""
    origin = Origin(sweep_id, (ended or datetime.now(UTC)).isoformat(timespec="seconds"))
    (directory / ORIGIN).write_text(json.dumps(asdict(origin)), encoding="utf-8")


def read_outcome(directory: Path) -> Outcome:
    """The outcome in a finished run's directory."""
    return Outcome.from_json(json.loads((directory / OUTCOME).read_text(encoding="utf-8")))


def read_members(directory: Path) -> Sequence[Request]:
    """The requests of a stack that left a checkpoint."""
    return [Request.from_json(request) for request in _read_stack(directory)["requests"]]


def read_halvings(directory: Path) -> int:
    """Times that a larger stack was halved to make this one; 0 for a stack that has not begun."""
    return int(_read_stack(directory)["halvings"]) if (directory / MEMBERS).is_file() else 0


def read_ended(directory: Path) -> frozenset[int]:
    """The places of the stack's requests whose runs had ended at this checkpoint: it cannot continue them."""
    return frozenset(_read_stack(directory)["ended"])


def write_members(directory: Path, requests: Sequence[Request], halvings: int = 0, ended: Collection[int] = ()) -> None:
    """Note a stack's members in its directory."""
    said = {"requests": [asdict(request) for request in requests], "halvings": halvings, "ended": sorted(ended)}
    write_whole(directory / MEMBERS, json.dumps(said))


def note_progress(directory: Path, evaluations: Iterable[tuple[str, Evaluation]]) -> None:
    """Append evaluations, each with the key of its run, to what a stack has to show."""
    lines = [json.dumps({"key": key, **asdict(evaluation)}) for key, evaluation in evaluations]
    with (directory / PROGRESS).open("a", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in lines))


def mend_progress(directory: Path) -> None:
    """Cut off a torn last line, so that others can follow."""
    path = directory / PROGRESS
    if path.exists():
        os.truncate(path, path.read_bytes().rfind(b"\n") + 1)


def read_progress(directory: Path) -> dict[str, tuple[Evaluation, ...]]:
    """The learning curves so far of a stack's runs, by key; of a step trained twice, the later word. A torn last line
    does not count."""
    path = directory / PROGRESS
    curves: dict[str, dict[int, Evaluation]] = {}
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else ():
        if line.endswith("\n"):
            data = json.loads(line)
            key = data.pop("key")
            curves.setdefault(key, {})[data["step"]] = Evaluation(**data)
    return {key: tuple(curve[step] for step in sorted(curve)) for key, curve in curves.items()}


def _read_stack(directory: Path) -> dict[str, Any]:
    said: dict[str, Any] = json.loads((directory / MEMBERS).read_text(encoding="utf-8"))
    return said
