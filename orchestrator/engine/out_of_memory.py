"""Memory share of a stack on a device, and detection of out-of-memory errors.

A stack that runs out of memory is halved (``StackWorker._halve``), and later stacks of its size are limited to the half
(``Campaign.stack_halved``).
"""

from __future__ import annotations

import functools
import platform

import torch

from orchestrator.home.machine_errors import with_causes
from orchestrator.space import hardware
from orchestrator.space.hardware import Hardware
from orchestrator.space.resources import Resources
from orchestrator.stacks import stack_bytes
from trainables.transformer.gpu_step import lacking

EXHAUSTED = (
    "out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_NOT_INITIALIZED",  # There was no room for its handle.
    "can't allocate memory",
)
"""Messages by which the libraries underneath torch report that memory is exhausted."""

_reported: set[tuple[str, ...]] = set()


def prepare_device(resources: Resources) -> None:
    """Set the threads of a CPU, or limit this process to the stack's share of the GPU's memory."""
    torch.set_num_threads(resources.threads_per_stack)
    if _on_gpu(resources):
        torch.cuda.set_per_process_memory_fraction(
            device_bytes(resources) / torch.cuda.get_device_properties(0).total_memory
        )


def drawbacks(resources: Resources) -> tuple[str, ...]:
    """Return the reasons for slow training on this machine, or nothing if this process already reported them."""
    if not _on_gpu(resources) or not (missing := lacking()) or missing in _reported:
        return ()
    _reported.add(missing)
    return (f"GPU training on {platform.node()} is not compiled, so it is slower: install {', '.join(missing)}",)


def device_bytes(resources: Resources) -> float:
    """Return the memory in bytes that a stack may use on this machine, or 0 if unknown."""
    if resources.device == "cuda" and not _on_gpu(resources):
        return 0.0
    return stack_bytes(resources, this_machine())


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if an exception or one of its causes reports that the device's memory is exhausted. Libraries below
    torch (cuBLAS, cuDNN, the CPU's allocator) raise plain errors, recognized by their messages."""
    return any(map(_reports_exhaustion, with_causes(error)))


def _reports_exhaustion(error: BaseException) -> bool:
    message = str(error)
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and any(words in message for words in EXHAUSTED)
    )


def free_memory() -> None:
    """Return unused GPU memory to the device."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


@functools.cache
def this_machine() -> Hardware:
    """Return the hardware of this machine."""
    return hardware.detect()


def _on_gpu(resources: Resources) -> bool:
    """Return True if torch can use the GPU. Families without torch may use a GPU that torch cannot."""
    return resources.device == "cuda" and torch.cuda.is_available()
