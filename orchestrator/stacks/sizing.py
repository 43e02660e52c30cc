"""The sizes of one sweep's stacks, from what is known about the device it trains on."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import metadata

from orchestrator.search.base import Request
from orchestrator.space.hardware import Hardware
from orchestrator.space.resources import AUTO
from orchestrator.space.spec import SweepSpec
from orchestrator.stacks import choice
from orchestrator.stacks.measured import Conditions, Measured

STEPS_A_PROBE = {"cpu": 5, "cuda": 25}
"""About as many steps as a probe of one stack takes, with those that warm it up."""
UNMEASURED_GPU_SHARE = 0.5
"""Two processes keep a GPU busy while one of them reads, evaluates or writes; not measured."""


def conditions_of(spec: SweepSpec, hardware: Hardware) -> Conditions:
    """What this sweep's measurements on this machine are kept under."""
    family, resources = spec.make_family(), spec.resources
    threads = resources.threads_per_stack
    on_cpu = f"{hardware.cpu_name or 'CPU'}, {threads} thread{'s' if threads > 1 else ''}"
    device = hardware.gpu_name if resources.device == "cuda" else on_cpu
    software = f"torch {metadata.version('torch')}, {family.name} {family.version}"
    return Conditions(device, software, family.precision(), family.workload())


class Sizing:
    """Answers for one sweep; learns while it runs.

    ``conditions`` is that of the device at hand; measurements from workers on another kind of device move it there.
    """

    def __init__(self, spec: SweepSpec, conditions: Conditions, known: Iterable[Measured] = ()) -> None:
        self._spec = spec
        self._family = spec.make_family()
        self._conditions = conditions
        self._known = {each.identity: each for each in known}

    @property
    def known(self) -> tuple[Measured, ...]:
        """Everything measured, of other settings, too."""
        return tuple(self._known.values())

    def learn(self, measured: Iterable[Measured]) -> None:
        """Take in measurements from this sweep's workers."""
        new = tuple(measured)
        if new:
            self._known |= {each.identity: each for each in new}
            self._conditions = new[-1].conditions

    def most(self, size: int) -> int:
        """The most runs of this size to train as one stack. At least 1."""
        asked = self._spec.resources.max_stack
        return asked if isinstance(asked, int) else self._measured_best(size) or self._typical(size)

    def together(self) -> int:
        """How many seeds a searcher does well to ask for at one size, by the middle one: as many as cost little more
        than one. At least 1; on a CPU 1 until that was measured."""
        size = self._spec.sizes[len(self._spec.sizes) // 2]
        most = min(self.most(size), self._spec.seeds)
        near = self._comparable(size)
        if near is None:
            return most if self._spec.resources.device == "cuda" else 1
        return min(choice.cheap_stack(self._by_stack(near)), most)

    def probes(self, size: int, steps: int, runs: int) -> tuple[int, ...]:
        """The stack sizes a worker should try out before it trains so many runs of this size for ``steps``."""
        if self._spec.resources.max_stack != AUTO or self._by_stack(size, probed=True):
            return ()
        device = self._spec.resources.device
        return choice.probe_sizes(device, choice.LARGEST[device], STEPS_A_PROBE[device], steps * runs)

    def seconds_a_step(self, size: int) -> float | None:
        """One run's share of a step, evaluations included, in stacks as they would be chosen; None where nothing near
        was measured. Of what was trained the quickest counts, else of what was probed."""
        for probed in (False, True):
            sizes = {each.size for each in self._mine(probed=probed)}
            quickest = {each: min(self._by_stack(each, probed=probed).values()) for each in sizes}
            found = choice.interpolated(size, quickest)
            if found is not None:
                return found
        return None

    def gpu_share(self, runs_at_once: int, *, mps: bool = False) -> float | None:
        """The share of a GPU for each stack of the sweep, by the middle one of its measured sizes; None: unknown."""
        known = sorted({each.size for each in self._mine(probed=True)} & set(self._spec.sizes))
        if not known:
            return None
        return choice.gpu_share(self._by_stack(known[len(known) // 2], probed=True), runs_at_once, mps=mps)

    def _measured_best(self, size: int) -> int | None:
        near = self._comparable(size)
        return None if near is None else choice.best_stack(self._by_stack(near))

    def _comparable(self, size: int) -> int | None:
        """The size nearest to this one of which several stacks were measured."""
        known = [each for each in {m.size for m in self._mine(probed=True)} if len(self._by_stack(each)) > 1]
        return choice.nearest(size, known)

    def _typical(self, size: int) -> int:
        config = self._spec.config(Request(self._spec.baseline.name, size, self._spec.seed))
        flops_a_step = self._family.flops(config) / self._family.steps(config)
        return choice.typical_stack(flops_a_step, self._spec.resources.device)

    def _by_stack(self, size: int, *, probed: bool = True) -> dict[int, float]:
        return {each.stack: each.seconds for each in self._mine(probed=probed) if each.size == size}

    def _mine(self, *, probed: bool) -> list[Measured]:
        return [each for each in self._known.values() if each.conditions == self._conditions and each.probed == probed]


def with_stack(spec: SweepSpec, sizing: Sizing) -> SweepSpec:
    """The sweep with a number for the seeds its searcher asks for together where that was left open."""
    return spec.model_copy(update={"search": spec.search.with_stack(sizing.together())})


def settled(spec: SweepSpec, sizing: Sizing, runs_at_once: int, *, mps: bool = False) -> SweepSpec:
    """The sweep with a number for the share of a GPU where that was left open; ``mps`` as in
    :func:`orchestrator.stacks.choice.gpu_share`."""
    if spec.resources.gpu_per_stack != AUTO:
        return spec
    share = sizing.gpu_share(runs_at_once, mps=mps) or UNMEASURED_GPU_SHARE
    return spec.model_copy(update={"resources": spec.resources.model_copy(update={"gpu_per_stack": share})})
