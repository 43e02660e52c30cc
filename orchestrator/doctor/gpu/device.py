"""The GPU itself, as its driver shows it: what it can do, who may use it, what compiling for it needs."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess

import torch

from orchestrator.doctor.findings import Finding, ok, slow, wrong
from orchestrator.space.hardware import BF16_UNITS
from trainables.gpu_step import lacking

OLDEST_COMPUTE = (7, 0)
"""Compute capability that Triton needs at least."""
ASKED = ("driver_version", "compute_mode", "memory.used", "mig.mode.current")
GB = 1e9


def device() -> Finding:
    """Kind, compute capability and memory, and whether others hold some of it."""
    properties = torch.cuda.get_device_properties(0)
    free, total = torch.cuda.mem_get_info(0)
    capability = (properties.major, properties.minor)
    said = (
        f"{torch.cuda.device_count()} x {properties.name}, compute capability {capability[0]}.{capability[1]}, "
        f"{total / GB:.0f} GB, {free / GB:.0f} GB free"
    )
    figures = {"name": properties.name, "capability": list(capability), "total_gb": total / GB, "free_gb": free / GB}
    if capability < OLDEST_COMPUTE:
        return wrong(said, "compiled steps need compute capability 7.0: train on the CPU, or elsewhere", **figures)
    if free < 0.8 * total:
        return slow(said, "others hold memory here: stacks are smaller, and times say little (nvidia-smi)", **figures)
    if capability < BF16_UNITS:
        return slow(said, "it has no units for bf16: leave training.precision at float32", **figures)
    return ok(said, **figures)


def driver() -> Finding:
    """The driver and its compute mode, by nvidia-smi."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return slow("nvidia-smi is not here: driver and compute mode are not known", "nothing, unless processes fail")
    words = [command, f"--query-gpu={','.join(ASKED)}", "--format=csv,noheader,nounits"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=30)
    row = next(csv.reader(io.StringIO(done.stdout), skipinitialspace=True))
    found = dict(zip(ASKED, row, strict=True))
    said = f"driver {found['driver_version']}, compute mode {found['compute_mode']}, MIG {found['mig.mode.current']}"
    if found["compute_mode"] == "Prohibited":
        return wrong(said, "no process may use this GPU: nvidia-smi -c DEFAULT (as root)", **found)
    if found["compute_mode"] == "Exclusive_Process":
        return slow(said, "one process a GPU: give --gpu-fraction 1, or nvidia-smi -c DEFAULT (as root)", **found)
    return ok(said, **found)


def compiler() -> Finding:
    """What steps need to be compiled."""
    missing = lacking()
    if missing:
        return slow(f"steps run uncompiled: missing are {', '.join(missing)}", "install them", missing=list(missing))
    return ok("Triton, a C compiler and Python's headers are here: steps are compiled")
