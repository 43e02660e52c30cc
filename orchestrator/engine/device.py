"""The device on which a process trains: its threads, its memory, and why it may be slow."""

from __future__ import annotations

import platform

import torch

from orchestrator.jobs.resources import Resources, stack_bytes
from orchestrator.system import hardware
from trainables.base import Family


def prepare_device(resources: Resources) -> None:
    """Set the threads of a CPU, and limit this process to the stack's share of the GPU's memory."""
    torch.set_num_threads(resources.threads_per_stack)
    if _on_gpu(resources):
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(device_bytes(resources) / total)


def slowness(family: Family, resources: Resources) -> tuple[str, ...]:
    """Return why a family trains slowly on the GPU of this machine, with the machine's name, or an empty tuple. For
    CPUs, the driver has printed the same before the sweep."""
    reason = family.slowness(resources.device) if _on_gpu(resources) else ""
    return (f"{platform.node()}: {reason}",) if reason else ()


def device_bytes(resources: Resources) -> float:
    """Return the memory in bytes that a stack may use on this machine, or 0 if unknown."""
    if resources.device == "cuda" and not _on_gpu(resources):
        return 0.0
    return stack_bytes(resources, hardware.detect())


def _on_gpu(resources: Resources) -> bool:
    """Return True if torch can use the GPU. Families without torch may use a GPU that torch cannot use."""
    return resources.device == "cuda" and torch.cuda.is_available()
