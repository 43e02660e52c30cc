"""When and how steps are compiled with ``torch.compile``.

Compiling takes some 20 to 60 s for each width. It fuses what stands between matrix products, which on a GPU, where a
run takes many thousand steps and each such kernel reads and writes device memory, is worth it. On a CPU it is not:
measured in tests/bench/RESULTS.md.
"""

from __future__ import annotations

import functools
import logging
import os
import shutil
import sysconfig
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

P = ParamSpec("P")
R = TypeVar("R")

MOST_VERSIONS = 1024
"""Versions of one function in a process: one for each width, and for stacks of one and of several."""


def can_compile(device: torch.device) -> bool:
    """Whether steps on this device are compiled: on a GPU, with Triton and what it needs to build its launcher."""
    if device.type != "cuda":
        return False
    if find_spec("triton") is None or _c_compiler() is None or not _python_header().is_file():
        logging.getLogger(__name__).warning(
            "without Triton, a C compiler and Python's headers, steps on the GPU run uncompiled and slower"
        )
        return False
    return True


@functools.cache
def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """``function``, compiled anew for every shape but the size of the stack (see :func:`let_grow`)."""
    import torch._dynamo

    # Past its limit torch would go back to the uncompiled function with no more than a warning.
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, MOST_VERSIONS)
    torch._dynamo.config.accumulated_recompile_limit = max(
        torch._dynamo.config.accumulated_recompile_limit, 4 * MOST_VERSIONS
    )
    return torch.compile(function, dynamic=False)


def let_grow(*tensors: Tensor) -> None:
    """Mark the stack axis, the first, of a compiled function's inputs: a stack that loses runs needs no new version."""
    import torch._dynamo

    for tensor in tensors:
        torch._dynamo.maybe_mark_dynamic(tensor, 0)


def _python_header() -> Path:
    return Path(sysconfig.get_path("include")) / "Python.h"


def _c_compiler() -> str | None:
    return next((path for name in (os.environ.get("CC", "cc"), "gcc", "clang") if (path := shutil.which(name))), None)
