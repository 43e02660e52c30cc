"""Homes and archives as another user might have made them: files with hostile values, and random mutations."""

from __future__ import annotations

import gzip
import io
import json
import random
import tarfile
import time
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from safetensors.numpy import save

from orchestrator.history.archive_members import LAYOUT, LAYOUT_MEMBER
from orchestrator.history.journal import CHECKSUM
from orchestrator.history.sweeps import ANSWER_FILE, REPORT_FILE
from orchestrator.home.checkpoints import Checkpoints
from orchestrator.home.directories import Home
from orchestrator.home.run_files import WEIGHTS, ProbeResult, write_result
from orchestrator.home.run_store import RunStore
from orchestrator.home.seals import seal
from tests.catalog.fabricated import leave_stack, runs_of, write_sweep
from tests.sweep.sweeps import spec

DEEP: Any = "deep"
for _ in range(120):
    DEEP = [DEEP]
VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 5, 10**30, 2**63, 0.5, 1e308, float("nan"), float("inf"), "", "x", "x" * 5000, [], {}, [[]]),
    *({"a": {"b": []}}, "\x1b]52;c;ZXZpbA==\x07", "\x9b2J\u202e", "\ud800", "../../victim", "/dev/zero", "/victim"),
    *("$\\frac$", "<script>alert(1)</script>", "[bold]x[/bold]", "{0.__class__}", "a\0b", "2026-01-01", DEEP),
    *("9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+00:00", "add+prod", [1, "a", None], {"add": "0.5"}),
)
"""Values that were not meant."""


def changed(values: Any, chance: random.Random) -> Any:
    """Return JSON values with one change at a random place: another value, or a missing, doubled or additional part."""
    places: list[tuple[Any, Any]] = []

    def visit(value: Any) -> None:
        keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        for key in keys:
            places.append((value, key))
            visit(value[key])

    whole = {"value": json.loads(json.dumps(values))}
    visit(whole)
    holder, key = chance.choice(places)
    kind = chance.random()
    if kind < 0.65 or holder is whole:
        holder[key] = chance.choice(VALUES)
    elif kind < 0.85:
        del holder[key]
    elif isinstance(holder, list):
        holder.append(holder[key])
    else:
        holder[chance.choice(("zzz", "__class__", "name", "\x1b[2J", "../x"))] = chance.choice(VALUES)
    return whole["value"]


def torn(data: bytes, chance: random.Random) -> bytes:
    """Return bytes with a random cut, insertion or flipped bits."""
    if not data:
        return bytes(chance.randbytes(9))
    place, kind = chance.randrange(len(data)), chance.random()
    if kind < 0.3:
        return data[:place]
    if kind < 0.5:
        return data[:place] + chance.choice((b"\0", b"\xff\xfe", b"[" * 20000, b"{", b"\x1b[2J", b"\n")) + data[place:]
    flipped = bytearray(data)
    for _ in range(chance.choice((1, 1, 20))):
        flipped[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(flipped)


def changed_json(path: Path, chance: random.Random) -> None:
    if chance.random() < 0.2:
        path.write_bytes(torn(path.read_bytes(), chance))
    else:
        path.write_text(json.dumps(changed(json.loads(path.read_text()), chance)))


def changed_lines(path: Path, chance: random.Random) -> None:
    """Change one JSON line."""
    lines = path.read_bytes().splitlines()
    place = chance.randrange(len(lines))
    lines[place] = json.dumps(changed(json.loads(lines[place]), chance)).encode()
    path.write_bytes(b"".join(line + b"\n" for line in lines))


def signed(values: Any) -> bytes:
    """Return a line of a journal with a good checksum."""
    body = json.dumps(values, separators=(",", ":")).encode().removesuffix(b"}")
    return body + CHECKSUM + b'%08x"}' % zlib.crc32(body)


def changed_journal(path: Path, chance: random.Random) -> None:
    """Change one line, and make its checksum good."""
    lines = path.read_bytes().splitlines()
    place = chance.choice((0, len(lines) - 1, chance.randrange(len(lines))))
    values = json.loads(lines[place].rpartition(CHECKSUM)[0] + b"}")
    values = changed(values, chance)
    lines[place] = signed(values) if isinstance(values, dict) else json.dumps(values).encode()
    path.write_bytes(b"".join(line + b"\n" for line in lines))


def changed_space(path: Path, chance: random.Random) -> None:
    if chance.random() < 0.2:
        path.write_bytes(torn(path.read_bytes(), chance))
    else:
        values = changed(yaml.safe_load(path.read_text()), chance)
        path.write_text(yaml.safe_dump(values, allow_unicode=True) if chance.random() < 0.5 else json.dumps(values))


def changed_sealed(path: Path, chance: random.Random) -> None:
    """Change a file of a run, and make its checksum good."""
    (changed_json if path.suffix == ".json" else torn_file)(path, chance)
    seal(path.parent)


def torn_file(path: Path, chance: random.Random) -> None:
    path.write_bytes(torn(path.read_bytes(), chance))


def changed_archive(path: Path, chance: random.Random) -> None:
    """Change one member, its name, its kind or the bytes of an archive."""
    kind = chance.random()
    if kind < 0.2:
        path.write_bytes(torn(path.read_bytes(), chance))
        return
    if kind < 0.4:
        path.write_bytes(gzip.compress(torn(gzip.decompress(path.read_bytes()), chance)))
        return
    with tarfile.open(path) as archive:
        files = [(member.name, archive.extractfile(member)) for member in archive]
        content = [(name, b"" if file is None else file.read()) for name, file in files]
    place = chance.randrange(len(content))
    members = [(name, data, tarfile.REGTYPE) for name, data in content]
    name, data, _ = members[place]
    if kind < 0.7:
        hostile = ("../victim", "/victim", f"{name}/x", "runs", "sweeps/x", "sweeps/a b/x", f"{name}\n", "runs/k/.x")
        members[place] = (
            chance.choice((*hostile, "sweeps/x/tune/error.pkl", "claims/k", "a" * 300)),
            data,
            tarfile.REGTYPE,
        )
    elif kind < 0.85:
        members[place] = (
            name,
            data,
            chance.choice((tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, b"S", b"3", b"x")),
        )
    else:
        members[place] = (name, torn(data, chance), tarfile.REGTYPE)
    path.write_bytes(archive_of(members))


def archive_of(members: list[tuple[str, bytes, bytes]], mark: bytes = LAYOUT) -> bytes:
    """Return an archive of members: name, content and type."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as archive:
        known = {name for name, _, _ in members}
        for name, data, kind in ([] if LAYOUT_MEMBER in known else [(LAYOUT_MEMBER, mark, tarfile.REGTYPE)]) + members:
            member = tarfile.TarInfo(name)
            member.type, member.size, member.linkname, member.mtime = kind, len(data), "../../victim", int(time.time())
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


@dataclass(frozen=True)
class Place:
    """A home with a finished and an interrupted sweep, next to a file that nothing may touch."""

    home: Home
    finished: str
    begun: str

    @property
    def victim(self) -> Path:
        return self.home.root.parent / "victim"

    def files(self) -> dict[str, tuple[Path, Callable[[Path, random.Random], None]]]:
        """Return a file of each kind, and what changes it."""
        finished, begun, store = self.home.sweep(self.finished), self.home.sweep(self.begun), RunStore(self.home)
        run = store.directory(store.stored_keys()[0])
        [stack] = begun.stacks.iterdir()
        [checkpoint] = begun.checkpoints.iterdir()
        return {
            "space": (finished.spec, changed_space),
            "journal": (finished.journal, changed_journal),
            "journal torn": (finished.journal, torn_file),
            "outcome": (run / "outcome.json", changed_sealed),
            "contents": (run / "contents.json", changed_json),
            "weights": (run / WEIGHTS, changed_sealed),
            "origin": (run / "origin.json", changed_json),
            "arrays": (run / "arrays.npz", changed_sealed),
            "probe": (run / "probes" / "firing.json", changed_json),
            "members": (stack / "members.json", changed_json),
            "progress": (stack / "progress.jsonl", changed_lines),
            "checkpoint": (checkpoint / "members.json", changed_sealed),
            "answer": (finished.directory / ANSWER_FILE, torn_file),
            "report": (finished.directory / REPORT_FILE, torn_file),
            "stop": (begun.directory / "stop.jsonl", changed_lines),
        }


def made(root: Path) -> Place:
    """Write a home with every kind of file."""
    home = Home(root / "home")
    (root / "victim").mkdir(parents=True)
    (root / "victim" / "file").write_text("nothing may touch this")
    small = spec(sizes=[8, 64], seeds=1)
    finished = write_sweep(home, small)
    begun = write_sweep(
        home, spec(name="begun", sizes=[24, 48]), runs=runs_of(spec(sizes=[24, 48]))[:3], answered=False
    )
    leave_stack(home, begun, runs_of(begun.spec)[3:5], 3)
    from orchestrator.search.base import Request

    with Checkpoints(begun.files.checkpoints).put("stack", [asdict(Request("add", 24, 0))]) as directory:
        (directory / "checkpoint").mkdir()
        (directory / "checkpoint" / "state.json").write_text("{}")
    begun.files.request_stop("add")
    for name in (ANSWER_FILE, REPORT_FILE):
        (finished.files.directory / name).write_text("add needs fewer parameters")
    for key in RunStore(home).stored_keys():
        (RunStore(home).directory(key) / WEIGHTS).write_bytes(save({"layer": np.ones((2, 3), np.float32)}))
        seal(RunStore(home).directory(key))
        write_result(RunStore(home).directory(key), ProbeResult("firing", 1, {"mean": 0.5}), {})
    return Place(home, finished.id, begun.id)
