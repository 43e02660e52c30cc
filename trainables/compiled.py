"""When and how steps are compiled with ``torch.compile``.

Compiling takes some 20 to 60 s for each width. It fuses what stands between matrix products, which on a GPU, where a
run takes many thousand steps and each such kernel reads and writes device memory, is worth it. On a CPU it is not:
measured in tests/bench/results/throughput.md.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import sysconfig
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

try:
    import fcntl
except ImportError:  # Windows has no such locks: workers compile there whatever others compile, too.
    fcntl = None  # type: ignore[assignment]

P = ParamSpec("P")
R = TypeVar("R")

MOST_VERSIONS = 1024
"""Versions of one function in a process: one for each width, and for stacks of one and of several."""
CANONICAL_STACK = 8
"""The stack a width is compiled at first. Kernels are laid out for the stack they are compiled at and kept for all
others: were it the one at hand, bits would depend on which stack came first. Small enough to fit wherever a stack
does, large enough for layouts that suit large ones."""
MOST_COMPILERS = 4
"""Processes that one worker compiles with. torch takes one for each core, which every worker of a node would do at
once; more than a step has kernels worth waiting for gain nothing."""
COMPILERS = "TORCHINDUCTOR_COMPILE_THREADS"
"""The environment variable that says how many those are, where it is set."""


def can_compile(device: torch.device) -> bool:
    """Whether steps on this device are compiled: on a GPU, with Triton and what it needs to build its launcher."""
    return device.type == "cuda" and not lacking()


def lacking() -> tuple[str, ...]:
    """What is missing on this machine for compiled steps on a GPU; () where nothing is."""
    needs = {
        "Triton": find_spec("triton") is not None,
        "a C compiler (gcc or clang)": _c_compiler() is not None,
        "Python's headers (python3-dev)": _python_header().is_file(),
    }
    return tuple(name for name, there in needs.items() if not there)


@functools.cache
def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """``function``, compiled anew for every shape but the size of the stack (see :func:`let_grow`)."""
    import torch._dynamo
    import torch._inductor.config

    if COMPILERS not in os.environ:
        threads = torch._inductor.config.compile_threads or MOST_COMPILERS
        torch._inductor.config.compile_threads = min(threads, MOST_COMPILERS)
    # No kernel is chosen by what it happened to take where that choice changes the bits.
    torch._inductor.config.deterministic = True
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


@contextmanager
def compiling(form: Hashable) -> Iterator[None]:
    """A block in which no other process of this user on this machine compiles what has this form: whoever comes later
    finds it in the compiler's cache, which lies beside the lock."""
    if fcntl is None:
        yield
        return
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    place = Path(cache_dir())
    place.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(repr(form).encode()).hexdigest()[:12]
    with (place / f"transition-sweeps-{digest}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _python_header() -> Path:
    return Path(sysconfig.get_path("include")) / "Python.h"


def _c_compiler() -> str | None:
    return next((path for name in (os.environ.get("CC", "cc"), "gcc", "clang") if (path := shutil.which(name))), None)
