"""The training step on a GPU: recorded once as a CUDA graph, compiled, and padded for matrix units.

A graph repeats the same kernels on the same addresses with one launch instead of hundreds. The recorded step must keep
its tensors in place, read no changing values from the host, and never wait for the device. Compiling fuses the
operations between matrix products. It takes 25 to 60 s for each width (14 at once on 16 cores), and 5 to 14 s from the
compiler's cache (measured in tests/bench/results/throughput.md).
"""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import shutil
import stat
import sysconfig
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import ParamSpec, TypeVar

import torch
from filelock import FileLock
from torch import Tensor
from torch.nn import functional

from trainables.contract.other_writers import is_private_group, lists_others
from trainables.transformer.architecture import BIAS, ModelSettings

P = ParamSpec("P")
R = TypeVar("R")

WARM_UP_CALLS = 3
"""Calls before the recording, during which kernels are compiled and libraries allocate their workspaces."""
MOST_VERSIONS = 1024
"""Maximum number of versions of a function in a process: one per width for a single run, and one for larger stacks."""
CANONICAL_STACK = 8
"""Number of runs for which each width is compiled. All stacks use these kernels. If kernels were compiled for whichever
stack comes first, results would depend on the order. The number fits any device and suits large stacks."""
MOST_COMPILERS = 4
"""Maximum number of compiler processes of one worker. By default torch starts one for each core, in every worker of a
node."""

# Deterministic algorithms need this, and torch reads it once, at a process's first matrix product on a GPU.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


class CapturedStep:
    """Runs a step a few times, then records and replays it. Make a new object if a tensor of the step moves."""

    def __init__(self) -> None:
        self._calls = 0
        self._side = _side_stream(torch.cuda.current_device())
        self._graph: torch.cuda.CUDAGraph | None = None

    def run(self, step: Callable[[], None]) -> None:
        """Run ``step`` once. Every call must pass the same step."""
        self._calls += 1
        if self._calls <= WARM_UP_CALLS:
            # Recording requires that earlier steps ran on another stream.
            here = torch.cuda.current_stream()
            self._side.wait_stream(here)
            with torch.cuda.stream(self._side):
                step()
            here.wait_stream(self._side)
            return
        if self._graph is None:
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph, stream=self._side):
                step()
        self._graph.replay()


@functools.cache
def _side_stream(device: int) -> torch.cuda.Stream:
    """Return the stream for all recordings on a device: cuBLAS keeps a workspace for every stream."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def choose_kernels(precision: str) -> None:
    """Set, for this process, which kernels of torch train on a GPU in this precision."""
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    # A weight's gradient sums thousands of tokens, so several blocks that share the sum must add in float32.
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    # cuDNN plans every new shape of attention, and nearly every pass of an evaluation has a new shape.
    torch.backends.cuda.enable_cudnn_sdp(False)


@contextmanager
def repeatable() -> Iterator[None]:
    """Use kernels that give the same bits each time. An operation without such a kernel raises ``RuntimeError``."""
    before = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    fill = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    # Strict mode, because the mode that only warns does not sum attention's gradient in a fixed order. Strict mode also
    # stops the compiler from choosing kernels by their timing.
    torch.use_deterministic_algorithms(True)
    # Every element is written, so filling memory first is a wasted pass.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warn_only)
        torch.utils.deterministic.fill_uninitialized_memory = fill  # type: ignore[attr-defined]


def can_compile(device: torch.device) -> bool:
    """Return True if steps on this device are compiled: a GPU, with Triton and the tools to build its launcher."""
    return device.type == "cuda" and not lacking()


def lacking() -> tuple[str, ...]:
    """Return the tools for compiled steps on a GPU that this machine lacks."""
    needs = {
        "Triton": find_spec("triton"),
        "a C compiler (gcc or clang)": any(map(shutil.which, (os.environ.get("CC", "cc"), "gcc", "clang"))),
        "Python's headers (python3-dev)": Path(sysconfig.get_path("include"), "Python.h").is_file(),
    }
    return tuple(name for name, is_here in needs.items() if not is_here)


@functools.cache
def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Return ``function`` with a compiled version for every shape, except the stack size (see :func:`let_grow`)."""
    import torch._dynamo
    import torch._inductor.config

    own_cache()
    config = torch._inductor.config
    config.compile_threads = min(config.compile_threads or MOST_COMPILERS, MOST_COMPILERS)
    # Beyond its limit torch falls back to the uncompiled function with only a warning.
    limits = torch._dynamo.config
    limits.recompile_limit = max(limits.recompile_limit, MOST_VERSIONS)
    limits.accumulated_recompile_limit = max(limits.accumulated_recompile_limit, 4 * MOST_VERSIONS)
    return torch.compile(function, dynamic=False)


def own_cache() -> Path:
    """Create and return the directory of the compiler's cache. Raises ``PermissionError`` if another user could write
    or replace it. Torch loads programs and pickles from there, and by default its name in ``/tmp`` is known
    beforehand."""
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    # Torch reads the variable in this process and in the processes of its compiler. Torch itself would set it, too.
    place = _private(os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", default_cache_dir()))
    if triton := os.environ.get("TRITON_CACHE_DIR"):  # By default, it is in the other one.
        _private(triton)
    return place


def _private(path: str) -> Path:
    """Create and return a directory of the compiler. Raises ``PermissionError`` as :func:`own_cache` does."""
    place = Path(os.path.abspath(path))
    for missing in reversed([above for above in (place, *place.parents) if not above.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    status = place.lstat()
    is_exchangeable = any(_others_can_rename(above) for above in (*place.parents, *place.resolve().parents))
    is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
    if is_exchangeable or not is_own or lists_others(place, groups=True):
        raise PermissionError(
            errno.EPERM,
            "Other users can write or replace the compiler's cache: remove it, or set "
            "TORCHINDUCTOR_CACHE_DIR and, if you have set it, TRITON_CACHE_DIR",
            str(place),
        )
    return place


def _others_can_rename(directory: Path) -> bool:
    """Return True if other users can rename what is in a directory, or replace the link that leads to it.

    Everyone who can write a directory without the sticky bit can do that, and the directory's owner in any case.
    """
    status = directory.stat()
    writers = stat.S_IWOTH if is_private_group(status.st_gid) else stat.S_IWOTH | stat.S_IWGRP
    can_write = status.st_mode & writers or lists_others(directory, groups=True)
    is_open = can_write and not status.st_mode & stat.S_ISVTX
    # In some containers, root's files seem to belong to an unknown user.
    owners = {0, os.getuid(), os.stat("/").st_uid}
    return bool(is_open) or not {status.st_uid, directory.lstat().st_uid} <= owners


def let_grow(*tensors: Tensor, axis: int = 0) -> None:
    """Mark an axis (the stack) of a compiled function's inputs as dynamic, so that smaller stacks can use it."""
    import torch._dynamo

    for tensor in tensors:
        torch._dynamo.maybe_mark_dynamic(tensor, axis)


@contextmanager
def compiling(form: Hashable) -> Iterator[None]:
    """Let only one process of this user compile a form. Other processes wait, and then read it from the compiler's
    cache."""
    digest = hashlib.sha256(repr(form).encode()).hexdigest()[:12]
    with FileLock(own_cache() / f"transition-sweeps-{digest}.lock"):
        yield


def pad_parameters(settings: ModelSettings, parameters: Mapping[str, Tensor], multiple: int) -> Mapping[str, Tensor]:
    """Return the stack of models with all inner widths, and the head's vocabulary, padded to a multiple.

    Tensor cores read rows of 16 bytes. A model with additional zero columns computes the same: zeros stay zeros
    forward, get a zero gradient backward, and the layer norm uses the true width (model.py). Parameters are stored and
    updated without padding, and each forward pass pads them. Heads are padded one by one. Norm gains and their biases
    keep the true width, which the forward pass reads from them.
    """
    _, vocabulary, width = parameters["token"].shape
    heads = settings.n_head
    depth = width // heads
    sizes = (width, depth, settings.feed_forward * width, vocabulary)
    columns, within_head, within_hidden, words = (-size % multiple for size in sizes)
    if not any((columns, within_head, within_hidden, words)):
        return parameters
    # Numbers of zeros before and after the last axis, then before and after the one before it.
    zeros = {
        "token": (0, columns),
        "position": (0, columns),
        "qkv": (0, 0, 0, columns),
        "attention_out": (0, columns),
        f"attention_out_{BIAS}": (0, columns),
        "feed_forward_in": (0, within_hidden, 0, columns),
        f"feed_forward_in_{BIAS}": (0, within_hidden),
        "feed_forward_out": (0, columns, 0, within_hidden),
        f"feed_forward_out_{BIAS}": (0, columns),
        "head": (0, words, 0, columns),
        # A tied head is the padded token embedding, whose vocabulary is not padded.
        f"head_{BIAS}": (0, 0 if settings.tied else words),
    }
    padded = {}
    for name, parameter in parameters.items():
        kind = name.rpartition(".")[2]
        if kind in ("qkv", f"qkv_{BIAS}"):
            by_head = parameter.view(*parameter.shape[:-1], 3 * heads, depth)
            parameter = functional.pad(by_head, (0, within_head)).flatten(-2)
        elif kind == "attention_out":
            parameter = functional.pad(parameter.view(-1, heads, depth, width), (0, 0, 0, within_head)).flatten(1, 2)
        padded[name] = functional.pad(parameter, zeros[kind]) if kind in zeros else parameter
    return padded
