"""What training steps took on this home's devices, on disk: read when a sweep is planned, added to when one has run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from filelock import FileLock

from orchestrator.errors import SweepError
from orchestrator.space.hardware import Hardware
from orchestrator.space.searching import searcher_of
from orchestrator.space.spec import SweepSpec
from orchestrator.stacks.measured import SCHEMA, Measured, merged
from orchestrator.stacks.sizing import Sizing, conditions_of, settled, with_stack
from orchestrator.store.files import write_whole

NAME = "calibration.json"
"""In a home directory. It may be deleted at any time: it is measured again as sweeps run."""


def settle(spec: SweepSpec, root: Path, hardware: Hardware) -> tuple[SweepSpec, Sizing]:
    """The sweep with the share of a GPU and the seeds asked for together decided, and the sizes of its stacks, by all
    measured under this home."""
    known = read(root)
    sizing = Sizing(spec, conditions_of(spec, hardware), known)
    spec = with_stack(spec, sizing)
    spec = settled(spec, sizing, runs_at_once(spec))
    return spec, Sizing(spec, conditions_of(spec, hardware), known)


def runs_at_once(spec: SweepSpec) -> int:
    """How many runs the searcher wants at the start, however many may train. At least 1."""
    return max(1, len(searcher_of(spec).ask(len(spec.requests()))))


def read(root: Path) -> tuple[Measured, ...]:
    """What was measured under a home directory. Raises :class:`SweepError` for a damaged file."""
    path = root / NAME
    if not path.is_file():
        return ()
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return tuple(Measured.from_json(each) for each in data["measured"]) if data["schema"] == SCHEMA else ()
    except (ValueError, KeyError, TypeError) as error:
        raise SweepError(f"{path} holds no measurements ({error}); delete it, they will be taken again") from error


def add(root: Path, measured: Iterable[Measured]) -> None:
    """Add measurements to those of a home directory; of equal ones the newer stay."""
    new = tuple(measured)
    if not new:
        return
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / f".{NAME}.lock"):
        kept = [each.to_json() for each in merged(read(root), new)]
        write_whole(root / NAME, json.dumps({"schema": SCHEMA, "measured": kept}, indent=1))
