"""Resources of runs: ``resources:`` of a search space."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, PlainValidator

from orchestrator.system.hardware import Hardware, Machine
from orchestrator.system.strict import STRICT

# Upper limits that only catch typing errors.
MOST_CORES = 4_096
"""Maximum number of CPU cores of a stack."""
LARGEST_STACK = 4_096
"""Maximum number of runs in a stack."""
MOST_RETRIES = 100
"""Maximum number of retries of a stack that fails."""
CENTURY_S = 3.2e9
"""Maximum of a setting in seconds."""
FULL = 0.9
"""Share of a stack's memory that its runs may use. Libraries use part of the rest."""
CONTEXT_BYTES = 1e9
"""Approximate memory that a process uses on a GPU for its context and kernels, at compute capability 9."""


def _stack_size(value: Any) -> int | Literal["auto"]:
    """Return a value of ``max_stack``. Raises ``ValueError`` if it is invalid."""
    if value == "auto":
        return "auto"
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= LARGEST_STACK:
        return value
    raise ValueError(f"must be a whole number from 1 to {LARGEST_STACK}, or auto; got {value!r}")


def _gpu_share(value: Any) -> float | Literal["auto"]:
    """Return a value of ``gpu_per_stack``. Raises ``ValueError`` if it is invalid."""
    if value == "auto":
        return "auto"
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise ValueError(f"must be a number of at least 0, or auto; got {value!r}")
    if value > 1 and value != int(value):
        raise ValueError(f"shares above 1 must be whole GPUs; got {value}")
    return float(value)


class Resources(BaseModel):
    """Resources of a stack of runs, which do not change results."""

    model_config = STRICT

    cpu_per_stack: float = Field(default=1.0, ge=0.01, le=MOST_CORES)
    """Number of cores per stack; may be a fraction."""
    gpu_per_stack: Annotated[float | Literal["auto"], PlainValidator(_gpu_share)] = 0.0
    """Number of GPUs per stack; may be a fraction. With 0, stacks train on the CPU. With ``auto``, rules choose the
    share (space/stack_sizes.py)."""
    max_stack: Annotated[int | Literal["auto"], PlainValidator(_stack_size)] = "auto"
    """Maximum number of runs that train as one batched model. With ``auto``, rules choose the largest stack for each
    size (space/stack_sizes.py)."""
    checkpoint_every_s: float = Field(default=60.0, gt=0, le=CENTURY_S)
    """Seconds between checkpoints."""
    retries: int = Field(default=1, ge=0, le=MOST_RETRIES)
    """Maximum number of retries of a failed stack."""
    threads: int | None = Field(default=None, ge=1, le=MOST_CORES)
    """Threads of one stack (default: its cores, rounded down, at least 1)."""
    scratch: str | None = Field(default=None, min_length=1)
    """Directory for training data on each machine (default: a private directory below the temporary directory)."""

    @property
    def device(self) -> str:
        """Torch device of stacks."""
        return "cuda" if self.gpu_per_stack else "cpu"

    @property
    def gpus(self) -> float:
        """GPUs of each stack. Not available while ``gpu_per_stack`` is ``auto``."""
        assert self.gpu_per_stack != "auto", "the share of a GPU is still auto"
        return self.gpu_per_stack

    def stacks_on(self, machine: Machine) -> int:
        """Return the number of stacks that fit on a machine at once. A fraction of a GPU must be on a single GPU."""
        slack = 1e-9  # Without slack, 0.1 would not fit ten times into 1.
        by_cpu = int(machine.cpus / self.cpu_per_stack + slack)
        if self.gpus == 0:
            return by_cpu
        if self.gpus > 1:
            return min(by_cpu, int(machine.gpus / self.gpus + slack))
        return min(by_cpu, int(machine.gpus) * int(1 / self.gpus + slack))

    @property
    def threads_per_stack(self) -> int:
        return self.threads or max(1, int(self.cpu_per_stack))


def stack_bytes(resources: Resources, hardware: Hardware) -> float:
    """Return the number of bytes that a stack may use, or 0 if it is unknown.

    On a GPU, this is the stack's share of the GPU's memory without the context of its process. On a CPU, it is a share
    of the machine's memory, by cores. ``gpu_per_stack`` must not be ``auto``.
    """
    if resources.device == "cpu":
        # A cluster may have no cores yet and add them on demand.
        share = min(1.0, resources.cpu_per_stack / hardware.cpus) if hardware.cpus else 0.0
        return 1e9 * hardware.memory_gb * share
    # Each process needs a context, but shares sum to 1 without contexts, so the context comes out of the share. At
    # least a tenth remains, so that small shares are not negative.
    share_bytes = min(1.0, resources.gpus) * 1e9 * hardware.gpu_memory_gb
    return max(share_bytes - CONTEXT_BYTES, share_bytes / 10)
