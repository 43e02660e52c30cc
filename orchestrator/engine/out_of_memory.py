"""Out of memory: the share of a device that a stack may use, and the errors that say it is used up. A stack that meets
one is halved (``StackWorker._halve``), and no later stack of its size is larger (``Campaign.stack_halved``)."""

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
"""What libraries below torch say when memory is used up."""

_SAID: set[tuple[str, ...]] = set()


def prepare_device(resources: Resources) -> None:
    """Threads on a CPU; on a GPU, no more of its memory than this stack's share."""
    torch.set_num_threads(resources.threads_per_stack)
    if _on_gpu(resources):
        torch.cuda.set_per_process_memory_fraction(
            device_bytes(resources) / torch.cuda.get_device_properties(0).total_memory
        )


def drawbacks(resources: Resources) -> tuple[str, ...]:
    """Reasons for slow training here, a sentence each, once a process."""
    if not _on_gpu(resources) or not (missing := lacking()) or missing in _SAID:
        return ()
    _SAID.add(missing)
    return (f"steps on the GPU run uncompiled, and slower: {', '.join(missing)} is missing on {platform.node()}",)


def device_bytes(resources: Resources) -> float:
    """The memory in bytes that a stack may use here; 0 if unknown."""
    if resources.device == "cuda" and not _on_gpu(resources):
        return 0.0
    return stack_bytes(resources, this_machine())


def is_out_of_memory(error: BaseException) -> bool:
    """True if an exception says that the device's memory is used up.

    Libraries below torch raise their own errors (cuBLAS, cuDNN, the CPU's allocator), which can only be told by their
    words. An error met while another was handled, as when the recording of a CUDA graph breaks off, may hide it.
    """
    return any(map(_says_out_of_memory, with_causes(error)))


def _says_out_of_memory(error: BaseException) -> bool:
    said = str(error)
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError) and any(words in said for words in EXHAUSTED)
    )


def free_memory() -> None:
    """Give unused memory back to the device."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


@functools.cache
def this_machine() -> Hardware:
    """The hardware of the machine this process runs on."""
    return hardware.detect()


def _on_gpu(resources: Resources) -> bool:
    """A family may use a GPU without torch, which then knows of none."""
    return resources.device == "cuda" and torch.cuda.is_available()
