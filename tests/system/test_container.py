"""Hardware detection respects limits of containers (control groups) and the scheduler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.system.hardware import CgroupLimits, limits

ROOT = Path(__file__).resolve().parents[2]
GB = 10**9
SHOW = "from orchestrator.system.hardware import detect; print(detect().cpus)"


def tree(root: Path, own: str, **files: str) -> CgroupLimits:
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
        ("0::/", {"memory.max": "900000000", "cpu.max": "150000 100000"}, CgroupLimits(0.9 * GB, 1.5)),
        ("0::/", {"memory.max": "max", "cpu.max": "max 100000"}, CgroupLimits()),
        (
            "0::/a/b",
            {"a__memory.max": "5000", "a__b__memory.max": "max", "a__b__cpu.max": "50000 100000"},
            CgroupLimits(5000, 0.5),
        ),
        ("0::/../elsewhere", {"memory.max": "6000"}, CgroupLimits(6000)),
    ],
)
def test_limits_come_from_a_process_groups_and_their_parents(
    own: str, files: dict[str, str], expected: CgroupLimits, tmp_path: Path
) -> None:
    assert tree(tmp_path, own, **files) == expected


def test_without_control_groups_there_is_no_limit(tmp_path: Path) -> None:
    assert limits(tmp_path, tmp_path / "missing") == CgroupLimits()


def test_cores_of_the_scheduler_count() -> None:
    command = ["taskset", "-c", str(min(os.sched_getaffinity(0))), sys.executable, "-c", SHOW]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout == "1\n"


UNLIMITED = "9223372036854771712"
"""Limit of memory of a group of version 1 without a limit: the largest number of whole pages."""
SLURM = "11:memory:/slurm/uid_1/job_2/step_0/task_0\n4:cpu,cpuacct:/slurm/uid_1/job_2\n1:name=systemd:/system.slice"


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        (
            SLURM,
            {
                "memory__slurm__uid_1__job_2__memory.limit_in_bytes": "4000000000",
                "memory__slurm__uid_1__job_2__step_0__memory.limit_in_bytes": "3000000000",
                "memory__slurm__uid_1__job_2__step_0__task_0__memory.limit_in_bytes": UNLIMITED,
                "cpu,cpuacct__slurm__uid_1__job_2__cpu.cfs_quota_us": "-1",
                "cpu,cpuacct__slurm__cpu.cfs_quota_us": "250000",
                "cpu,cpuacct__slurm__cpu.cfs_period_us": "100000",
            },
            CgroupLimits(3 * GB, 2.5),
        ),
        # A container sees its own group as the root.
        (
            "3:memory:/docker/abc\n2:cpu:/docker/abc\n0::/",
            {
                "memory__memory.limit_in_bytes": "2000000000",
                "cpu__cpu.cfs_quota_us": "50000",
                "cpu__cpu.cfs_period_us": "100000",
            },
            CgroupLimits(2 * GB, 0.5),
        ),
        # Version 1 for memory beside version 2 for the rest.
        (
            "5:memory:/a\n0::/b",
            {"memory__a__memory.limit_in_bytes": "700", "unified__b__cpu.max": "30000 10000"},
            CgroupLimits(700, 3.0),
        ),
        (SLURM, {"memory__memory.limit_in_bytes": UNLIMITED, "cpu,cpuacct__cpu.cfs_quota_us": "-1"}, CgroupLimits()),
        ("no\n4:cpu", {"cpu__cpu.cfs_quota_us": "many", "cpu__cpu.cfs_period_us": "0"}, CgroupLimits()),
    ],
)
def test_limits_of_version_1_count(own: str, files: dict[str, str], expected: CgroupLimits, tmp_path: Path) -> None:
    """As on RHEL 8 with Slurm."""
    assert tree(tmp_path, own, **files) == expected
