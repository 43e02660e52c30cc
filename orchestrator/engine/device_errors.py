"""Recognizes errors of the device that trains: exhausted memory, and a GPU that the process can no longer use."""

from __future__ import annotations

import platform

import torch

from orchestrator.system.machine_errors import error_and_causes

EXHAUSTED = (
    "out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_NOT_INITIALIZED",  # There was no room for its handle.
    "can't allocate memory",
)
"""Parts of the messages with which the libraries below torch report that memory is exhausted."""
UNUSABLE = (
    "CUDA error",
    "No CUDA GPUs are available",
    "Unexpected error from cudaGetDeviceCount",
    "CUDA driver initialization failed",
    "The NVIDIA driver on your system is too old",
    "Found no NVIDIA driver",
    "Torch not compiled with CUDA",
)
"""Starts of torch's messages about a GPU. A message with one of the :data:`CODE_FAULTS` is about something else."""
CODE_FAULTS = (
    "device-side assert",
    "illegal memory access",
    "misaligned address",
    "illegal instruction",
    "too many resources",
    "captur",
    "invalid",
    "INVALID",
    "NOT_SUPPORTED",
)
"""Parts of CUDA's messages about errors in the code that runs on the GPU."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if an exception or one of its causes reports that the device's memory is exhausted."""
    # Libraries below torch (cuBLAS, cuDNN, the CPU's allocator) raise plain errors, so we compare their messages.
    return any(
        isinstance(cause, torch.OutOfMemoryError | MemoryError)
        or (isinstance(cause, RuntimeError) and any(words in str(cause) for words in EXHAUSTED))
        for cause in error_and_causes(error)
    )


def lost_device(error: BaseException) -> str:
    """Return a sentence if an exception or one of its causes reports that the GPU is broken, in use or not accessible.
    Return an empty string for all other exceptions, such as errors in the code that runs on the GPU."""
    for cause in error_and_causes(error):
        first_line = str(cause).partition("\n")[0]
        if isinstance(cause, RuntimeError | AssertionError) and first_line.startswith(UNUSABLE):
            if any(words in first_line for words in (*EXHAUSTED, *CODE_FAULTS)):
                return ""
            return f"the GPU of {platform.node()} cannot be used ({first_line}): check it with `doctor`"
    return ""


def ends_device(error: BaseException) -> bool:
    """Return True if no kernel can run in this process after an exception, although the GPU is intact."""
    return isinstance(error, torch.AcceleratorError) and not is_out_of_memory(error)
