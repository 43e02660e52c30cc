"""The checks of a GPU in their order, with what each costs on one."""

from __future__ import annotations

from orchestrator.doctor.findings import Check
from orchestrator.doctor.gpu import device, memory, rates, steps, together


def gpu_checks() -> tuple[Check, ...]:
    """What is looked at where torch finds a GPU: eight minutes by estimate, most of them compiling."""
    return (
        Check("GPU", device.device, 5),
        Check("driver", device.driver, 2),
        Check("sharing", device.sharing, 1),
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
