"""The device a worker trains on: its threads, its share of memory, and how it says that memory is at an end."""

from __future__ import annotations

import functools
import platform

import torch

from orchestrator.engine.gpu_turns import this_gpu
from orchestrator.space import hardware
from orchestrator.space.hardware import Hardware
from orchestrator.space.resources import Resources
from trainables.gpu_step import lacking

CONTEXT_BYTES = 1e9
"""What each process holds on a GPU beside torch's own memory: context and kernels, about, on cards of compute
capability 9."""
_SAID: set[tuple[str, ...]] = set()


def prepare_device(resources: Resources) -> None:
    """Threads on a CPU; on a GPU, no more of its memory than this stack's share."""
    torch.set_num_threads(resources.threads_per_stack)
    if _on_gpu(resources):
        torch.cuda.set_per_process_memory_fraction(
            device_bytes(resources) / torch.cuda.get_device_properties(0).total_memory
        )


def gpu_of(resources: Resources) -> str:
    """The GPU that a stack trains on, as :func:`orchestrator.engine.gpu_turns.this_gpu` names it; ``""`` on a CPU."""
    return this_gpu() if _on_gpu(resources) else ""


def drawbacks(resources: Resources) -> tuple[str, ...]:
    """What makes training slower here than it could be, in sentences, each said once a process."""
    if not _on_gpu(resources) or not (missing := lacking()) or missing in _SAID:
        return ()
    _SAID.add(missing)
    return (f"steps on the GPU run uncompiled, and slower: {', '.join(missing)} is missing on {platform.node()}",)


def device_bytes(resources: Resources) -> float:
    """The memory a stack may use: its share of its GPU less its process's context, or its share of this machine's, by
    cores. 0 where that is not known."""
    if _on_gpu(resources):
        return gpu_bytes(resources.gpus, torch.cuda.get_device_properties(0).total_memory)
    if resources.device == "cuda":
        return 0.0
    here = this_machine()
    return 1e9 * here.memory_gb * min(1.0, resources.cpu_per_stack / here.cpus)


def gpu_bytes(share: float, total_bytes: float) -> float:
    """What of a GPU's memory a process with this share of it may fill with tensors. Shares of one GPU sum to 1, and
    every process's context comes on top; a share too small for its context keeps a tenth of itself."""
    mine = min(1.0, share) * total_bytes
    return max(mine - CONTEXT_BYTES, mine / 10)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that the device's memory is at an end.

    Libraries below torch raise their own errors (cuBLAS, cuDNN, the CPU's allocator), which can only be told by their
    words. An error met while another was handled, as when the recording of a CUDA graph breaks off, may hide it.
    """
    seen: BaseException | None = error
    while seen is not None:
        if _says_out_of_memory(seen):
            return True
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
    return False


def _says_out_of_memory(error: BaseException) -> bool:
    said = str(error)
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or (
        isinstance(error, RuntimeError)
        and any(words in said for words in ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "can't allocate memory"))
    )


def free_memory() -> None:
    """Give back what nobody uses any more."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


@functools.cache
def this_machine() -> Hardware:
    """The hardware of the machine this process runs on."""
    return hardware.detect()


def _on_gpu(resources: Resources) -> bool:
    """A family may use a GPU without torch, which then knows of none."""
    return resources.device == "cuda" and torch.cuda.is_available()
