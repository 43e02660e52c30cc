"""All checks of a machine in their order, and what is kept of them: ``HOME/doctor.json``."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from orchestrator.doctor import machine, places, services, software
from orchestrator.doctor.findings import Check, Finding, Verdict, examine
from orchestrator.space.hardware import Hardware, detect
from orchestrator.store.files import write_whole

NAME = "doctor.json"
"""In a home directory: the last check-up."""
CPU_WITHIN_S, GPU_WITHIN_S = 120.0, 600.0


@dataclass(frozen=True)
class CheckUp:
    """What was found on a machine, and the names of checks there was no time for."""

    hardware: Hardware
    findings: tuple[Finding, ...]
    left_out: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong and nothing was left out."""
        return not self.left_out and all(each.verdict is not Verdict.WRONG for each in self.findings)

    def count(self, verdict: Verdict) -> int:
        """How many checks ended so."""
        return sum(each.verdict is verdict for each in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "passed": self.passed,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "platform": platform.platform(),
            "gpu": self.hardware.gpu_name,
            "torch": metadata.version("torch"),
            "findings": [each.to_json() for each in self.findings],
            "left_out": list(self.left_out),
        }


def cpu_checks(home: Path) -> tuple[Check, ...]:
    """What is looked at on every machine. ``home`` exists."""
    from orchestrator.doctor import training  # torch takes two seconds.

    return (
        Check("python", software.python, 1),
        Check("packages", software.versions, 3),
        Check("torch", software.torch_build),
        Check("cores", machine.cores, 2),
        Check("memory", machine.memory, 1),
        Check("shared memory", machine.shared_memory, 1),
        Check("disk", partial(places.disk, home), 3),
        Check("locks", partial(places.locks, home)),
        Check("clock", partial(places.clock, home), 2),
        Check("ports", places.ports, 1),
        Check("learning", training.learning),
        Check("repeating", training.repeating, 10),
        Check("MLflow", partial(services.record, home), 15),
        Check("Ray", partial(services.ray_start, home), 20),
    )


def gpu_checks() -> tuple[Check, ...]:
    """What is looked at where torch finds a GPU, with what each costs on one: eight minutes by estimate, most of them
    compiling."""
    from orchestrator.doctor.gpu import device, memory, rates, steps, together

    return (
        Check("GPU", device.device, 5),
        Check("driver", device.driver, 2),
        Check("compiler", device.compiler, 1),
        Check("copying", rates.copying, 3),
        Check("multiplying", rates.multiplying, 5),
        Check("losses", steps.side_by_side, 120),
        Check("replaying", steps.replaying, 60),
        Check("shrinking", memory.shrinking, 45),
        Check("memory's end", memory.running_out, 20),
        Check("many rows", memory.many_rows, 10),
        Check("two processes", together.two_processes, 60),
        Check("GPU tests", together.tests, 120),
        Check("throughput", together.throughput, together.THROUGHPUT_S),
    )


def check_up(home: Path, tell: Callable[[Finding], object], *, gpu: bool = True) -> CheckUp:
    """Look at everything, GPUs included where there are some and ``gpu`` says so; ``tell`` hears of each finding."""
    home.mkdir(parents=True, exist_ok=True)
    hardware = detect()
    groups: list[tuple[Sequence[Check], float]] = [(cpu_checks(home), CPU_WITHIN_S)]
    if hardware.gpus and gpu:
        groups.append((gpu_checks(), GPU_WITHIN_S))
    findings: list[Finding] = []
    left_out: list[str] = []
    for checks, within_s in groups:
        for found, name in examine(checks, within_s):
            if found is None:
                left_out.append(name)
                continue
            findings.append(found)
            tell(found)
    done = CheckUp(hardware, tuple(findings), tuple(left_out))
    write_whole(home / NAME, json.dumps(done.to_json(), indent=1) + "\n")
    return done


def passed_here(home: Path, hardware: Hardware) -> bool:
    """Whether the last check-up of a home passed on this kind of GPU with this version of torch."""
    path = home / NAME
    if not path.is_file():
        return False
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return bool(kept["passed"]) and (kept["gpu"], kept["torch"]) == (hardware.gpu_name, metadata.version("torch"))
    except (ValueError, KeyError, TypeError):  # A file that somebody else wrote.
        return False
