"""Hardware detection respects limits of containers (control groups) and the scheduler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.space.hardware import Limits, limits

ROOT = Path(__file__).resolve().parents[2]
GB = 10**9
SHOW = "from orchestrator.space.hardware import detect; print(detect().cpus)"


def tree(root: Path, own: str, **files: str) -> Limits:
    """Return the limits of a process with this ``/proc/self/cgroup`` and these files of control groups."""
    for name, content in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    (root / "own").write_text(f"{own}\n")
    return limits(root, root / "own")


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/", {"memory.max": "900000000", "cpu.max": "150000 100000"}, Limits(0.9 * GB, 1.5)),
        ("0::/", {"memory.max": "max", "cpu.max": "max 100000"}, Limits()),
        (
            "0::/a/b",
            {"a__memory.max": "5000", "a__b__memory.max": "max", "a__b__cpu.max": "50000 100000"},
            Limits(5000, 0.5),
        ),
        ("0::/../elsewhere", {"memory.max": "6000"}, Limits(6000)),
    ],
)
def test_limits_come_from_a_process_groups_and_their_parents(
    own: str, files: dict[str, str], expected: Limits, tmp_path: Path
) -> None:
    assert tree(tmp_path, own, **files) == expected


def test_without_control_groups_there_is_no_limit(tmp_path: Path) -> None:
    assert limits(tmp_path, tmp_path / "missing") == Limits()


def test_cores_of_the_scheduler_count() -> None:
    command = ["taskset", "-c", str(min(os.sched_getaffinity(0))), sys.executable, "-c", SHOW]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout == "1\n"
