"""What training steps took on this home's devices, on disk: read when a sweep is planned, added to when one has run."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path

from filelock import FileLock

from orchestrator.space.hardware import Hardware
from orchestrator.space.searching import searcher_of
from orchestrator.space.spec import SweepSpec
from orchestrator.stacks.measured import SCHEMA, Measured, merged
from orchestrator.stacks.sizing import Sizing, conditions_of, settled, with_stack
from orchestrator.store.damage import put_aside
from orchestrator.store.files import write_whole

NAME = "calibration.json"
"""In a home directory. It may be deleted at any time: it is measured again as sweeps run."""
_DAMAGE = (ValueError, KeyError, TypeError)
"""What reading a damaged file raises."""


def settle(
    spec: SweepSpec, root: Path, hardware: Hardware, say: Callable[[str], object] = warnings.warn
) -> tuple[SweepSpec, Sizing]:
    """The sweep with the share of a GPU and the seeds asked for together decided, and the sizes of its stacks, by all
    measured under this home. ``say`` as in :func:`read`."""
    known = read(root, say)
    sizing = Sizing(spec, conditions_of(spec, hardware), known)
    spec = with_stack(spec, sizing)
    spec = settled(spec, sizing, runs_at_once(spec), mps=hardware.gpu_mps)
    return spec, Sizing(spec, conditions_of(spec, hardware), known)


def runs_at_once(spec: SweepSpec) -> int:
    """How many runs the searcher wants at the start, however many may train. At least 1."""
    return max(1, len(searcher_of(spec).ask(len(spec.requests()))))


def read(root: Path, say: Callable[[str], object] = warnings.warn) -> tuple[Measured, ...]:
    """What was measured under a home directory. A damaged file is put aside, which ``say`` is told: measurements are
    taken again as sweeps run."""
    path = root / NAME
    try:
        return _measured(path)
    except _DAMAGE:
        with FileLock(root / f".{NAME}.lock"):
            return _read_locked(path, say)


def add(root: Path, measured: Iterable[Measured], say: Callable[[str], object] = warnings.warn) -> None:
    """Add measurements to those of a home directory; of equal ones the newer stay. ``say`` as in :func:`read`."""
    new = tuple(measured)
    if not new:
        return
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / f".{NAME}.lock"):
        kept = [each.to_json() for each in merged(_read_locked(root / NAME, say), new)]
        write_whole(root / NAME, json.dumps({"schema": SCHEMA, "measured": kept}, indent=1))


def _read_locked(path: Path, say: Callable[[str], object]) -> tuple[Measured, ...]:
    """Under the file's lock, so that no other process puts aside what this one has just mended."""
    try:
        return _measured(path)
    except _DAMAGE as error:
        aside = put_aside(path)
        say(f"{path} holds no measurements ({error}): it lies in {aside.name} now, and they are taken again")
        return ()


def _measured(path: Path) -> tuple[Measured, ...]:
    if not path.is_file():
        return ()
    data = json.loads(path.read_text(encoding="utf-8"))
    return tuple(Measured.from_json(each) for each in data["measured"]) if data["schema"] == SCHEMA else ()
