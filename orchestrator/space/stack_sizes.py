"""How many runs of a sweep are trained together as one batched model, and how many such stacks at once."""

from __future__ import annotations

import math

from orchestrator.jobs.resources import FULL, stack_bytes
from orchestrator.search.base import Request
from orchestrator.search.registry import METHODS
from orchestrator.space.spec import SweepSpec
from orchestrator.system.hardware import Hardware, Machine
from trainables.base import Speed

STACK_FLOPS = 5e11
"""Operations per step of a stack on a GPU above which a larger one gains little. On an H100, going from 16 to 64 runs
at n_embed 64 (1.8e11 to 7.3e11 operations) raised throughput by a factor of 1.45; more were not measured."""
LARGEST_STACK = 256
"""Largest stack chosen on a GPU. On an H100, going from 16 to 64 runs at n_embed 16 raised throughput by a factor of
2.0; 256 were not tried."""
GPU_SPEED = Speed(3.0e13, 36_000.0)
"""Speed of torch on a GPU, from stacks of 64 runs of the profile `paper` on an H100 in float32. A step of a run took
239 us at n_embed 16, 316 at 32 and 554 at 64 (within 8%). This was measured before the gradients of matrices were
computed in parts (trainables/transformer/model.py)."""
GPU_STEP_S = 5.7e-4
"""Seconds that each step of a stack on a GPU takes in addition, even if the stack is small, because kernels for a few
runs do not fill a GPU. On the same H100, one run took 779 us a step at n_embed 16, 876 at 32 and 1,172 at 64."""
PAIRS = 8
"""Number of pairs that a decision is expected to take: 4 if all agree, some 30 if the mixes are much alike. Simulated
searches decide about as soon with other numbers (tests/bench/results/searchers.md, "Stacks on a GPU")."""
MPS_SHARE = 0.5
"""Share of a GPU per process if ``auto`` and NVIDIA's MPS runs, so that another process trains while one starts or
compiles. Without MPS two processes take turns, and a single stack in training kept an H100 busy 98% of the time. Two at
once were not measured."""


class StackSizes:
    """Largest stack at each size for a sweep on this hardware.

    It is ``resources.max_stack``, or follows from the work of a step and the memory of a run. If a stack still runs out
    of memory, it is halved (engine/worker.py).
    """

    def __init__(self, spec: SweepSpec, hardware: Hardware) -> None:
        self._spec = spec
        self._family = spec.make_family()
        self._bytes = stack_bytes(spec.resources, hardware)

    def max_runs(self, size: int) -> int:
        """Return the maximum number of runs of this size to train as one stack, at least 1."""
        if not self._family.stacks:
            return 1
        max_stack = self._spec.resources.max_stack
        if isinstance(max_stack, int):
            return max_stack
        if self._spec.resources.device == "cpu":
            return 1  # Stacks do not speed up a core, and single runs end as soon as they have learned.
        config = self._spec.config(Request(self._spec.baseline.name, size, self._spec.seed))
        flops_a_step = self._family.flops(config) / self._family.steps(config)
        largest = largest_stack(flops_a_step, self._family.memory(size), self._bytes)
        if not METHODS[self._spec.search.method].prefers_small_stacks:
            return largest
        speed = self._family.speed(self._spec.resources.device) or GPU_SPEED
        return min(largest, soonest_stack(speed.seconds(flops_a_step, self._family.parameters(size).total)))

    def together(self) -> int:
        """Return how many seeds to request together, based on the middle size. On a CPU it is 1."""
        if self._spec.resources.device == "cpu":
            return 1
        return min(self.max_runs(self._spec.sizes[len(self._spec.sizes) // 2]), self._spec.seeds)


def largest_stack(flops_a_step: float, run_bytes: float, stack_bytes: float) -> int:
    """Return a good stack size for a GPU, a power of 2, given a run's operations and peak memory (0 if unknown)."""
    most = min(STACK_FLOPS / max(flops_a_step, 1.0), LARGEST_STACK)
    if run_bytes and stack_bytes:
        most = min(most, FULL * stack_bytes / run_bytes)
    return int(2 ** math.floor(math.log2(max(most, 1.0))))


def soonest_stack(step_s: float) -> int:
    """Return the number of runs in a stack with which pairs decide soonest on a GPU. It is at least 2, a pair.

    ``step_s`` is the number of seconds that a run adds to a step.

    A decision that takes n pairs, b at a time, takes n / b stacks, and on average half a stack too many. A step of a
    stack takes the fixed seconds f and 2 b step_s. So (n / b + 1/2) (f + 2 b step_s) is least if b squared is
    n f / step_s.
    """
    return 2 * max(1, round(math.sqrt(PAIRS * GPU_STEP_S / max(step_s, GPU_STEP_S / LARGEST_STACK**2))))


def auto_share(hardware: Hardware) -> float:
    """Return the share of a GPU of each stack if it is ``auto``."""
    return MPS_SHARE if hardware.has_mps else 1.0


def choose_stacks(spec: SweepSpec, hardware: Hardware) -> SweepSpec:
    """Return the sweep with numbers instead of ``auto`` for the share of a GPU and for the searcher's ``stack``."""
    if spec.resources.gpu_per_stack == "auto":
        shared = spec.resources.model_copy(update={"gpu_per_stack": auto_share(hardware)})
        spec = spec.substitute(resources=shared)
    return spec.substitute(search=spec.search.with_stack(StackSizes(spec, hardware).together()))


def stacks_at_once(spec: SweepSpec, hardware: Hardware) -> int:
    """Return the number of stacks that train at the same time. If needed GPUs are missing, assume one."""
    machines = hardware.machines or (Machine(hardware.cpus, hardware.gpus),)
    if found := sum(map(spec.resources.stacks_on, machines)):
        return found
    share = spec.resources.gpus
    # Rounding may put 1 / share slightly below a whole number.
    return int(1 / share + 1e-9) if 0 < share < 1 else 1
