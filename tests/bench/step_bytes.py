"""What a compiled step on a GPU moves, as the compiler counts it: bytes by kind of kernel. Needs no GPU.

    make emulate
    PYTHONPATH=. .emulation/python -m tests.bench.step_bytes --width 64
    PYTHONPATH=. TRANSITION_SWEEPS_FUSED=0 .emulation/python -m tests.bench.step_bytes --width 64

Of forward and backward pass, whose traffic is all but the optimizer's. Inductor counts every buffer that a kernel reads
or writes once. What torch's attention kernels move between their own parts is in nobody's count and comes on top; what
an own kernel fills, it takes for read, too. The count is of the canonical stack, to which a step's traffic is
proportional.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
import torch._inductor.config
import torch._inductor.metrics as counted
import torch._logging

from tests.bench.cases import SHAPES, Case
from trainables import fused
from trainables.compiled import CANONICAL_STACK


def kind(node: Any) -> str:
    """What a scheduled kernel is: the operation it calls, or one that was generated."""
    called = getattr(node, "node", None)
    name = getattr(called, "python_kernel_name", None) or getattr(called, "op_overload", None)
    return str(name or ("own kernel" if "Triton" in type(called).__name__ else "generated"))


def by_kind(case: Case, stack: int) -> Counter[str]:
    """Bytes that forward and backward pass of such a stack move, by kind of kernel. Compiles them."""
    # Counted only where it is logged.
    torch._logging.set_logs(inductor_metrics=True)  # type: ignore[attr-defined]
    torch._inductor.config.force_disable_caches = True  # What comes out of a cache is not counted.
    counted.reset()
    case.stack(stack, compile_step=True)
    found: Counter[str] = Counter()
    for node, _ in counted.node_runtimes:
        found[kind(node)] += stack * node.get_read_write_buffers_sizes() // CANONICAL_STACK
    return found


def main(arguments: Sequence[str] | None = None) -> Counter[str]:
    """Count, and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--shape", choices=SHAPES, default="paper")
    parser.add_argument("--stack", type=int, default=64)
    given = parser.parse_args(arguments)
    torch.backends.cuda.enable_cudnn_sdp(False)
    case = Case(SHAPES[given.shape], given.width, "bf16", "cuda")
    found = by_kind(case, given.stack)
    own = ", ".join(sorted(fused.USED)) or "none"
    print(f"n_embed {given.width}, stack of {given.stack}, {given.shape} shape, bf16, own kernels: {own}")
    print("| kernels | GB a step |\n|---|---|")
    for name, moved in found.most_common():
        print(f"| {name} | {moved / 1e9:.2f} |")
    print(f"| all | {found.total() / 1e9:.2f} |")
    print(f"{case.flops_a_step * given.stack / 1e9:.0f} GFLOP a step")
    return found


if __name__ == "__main__":
    main()
