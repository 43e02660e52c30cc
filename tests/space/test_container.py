"""Hardware detection respects limits of containers (control groups of both versions), the shell and the scheduler."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.space.hardware import Limits, limits

ROOT = Path(__file__).resolve().parents[2]
GB = 10**9
SHOW = "from orchestrator.space.hardware import detect; here = detect(); print(here.cpus, f'{here.memory_gb:.2f}')"


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
        ("0::/a", {"a__memory.max": "8000", "a__memory.high": "7000", "memory.max": "max"}, Limits(7000)),
        ("0::/../elsewhere", {"memory.max": "6000"}, Limits(6000)),
        ("4:memory:/docker/9f", {"memory__memory.limit_in_bytes": "4000"}, Limits(4000)),
        (
            "4:memory:/a\n1:cpu,cpuacct:/a",
            {
                "memory__a__memory.limit_in_bytes": "9223372036854771712",
                "cpu,cpuacct__a__cpu.cfs_quota_us": "200000",
                "cpu,cpuacct__a__cpu.cfs_period_us": "100000",
            },
            Limits(9223372036854771712, 2.0),
        ),
        ("1:cpu:/", {"cpu__cpu.cfs_quota_us": "-1", "cpu__cpu.cfs_period_us": "100000"}, Limits()),
    ],
)
def test_limits_come_from_a_process_groups_and_their_parents(
    own: str, files: dict[str, str], expected: Limits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.space.hardware._address_space", lambda: math.inf)
    assert tree(tmp_path, own, **files) == expected


def test_without_control_groups_there_is_no_limit(tmp_path: Path) -> None:
    assert limits(tmp_path, tmp_path / "missing").cpus == math.inf


def shown(*before: str) -> list[str]:
    """Return the cores and the memory in GB detected by a process started with these words."""
    command = [*before, sys.executable, "-c", SHOW]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


def test_limits_of_the_shell_and_the_scheduler_count() -> None:
    core = min(os.sched_getaffinity(0))
    assert shown("sh", "-c", f'ulimit -v 3000000 && exec taskset -c {core} "$@"', "sh") == ["1", "3.07"]
