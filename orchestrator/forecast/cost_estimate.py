"""Estimates the cost of a sweep for ``plan``: its runs, time and disk space.

The number of runs comes from rehearsals (rehearsals.py). The seconds of a run come from its number of operations.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from orchestrator.forecast.rehearsals import rehearse
from orchestrator.jobs.timetable import typical_seconds
from orchestrator.search.base import Request
from orchestrator.space.problem import searcher_of
from orchestrator.space.spec import SweepSpec
from orchestrator.space.stack_sizes import GPU_SPEED, GPU_STEP_S, StackSizes, choose_stacks, stacks_at_once
from orchestrator.space.tuning_settings import tuning_sizes
from orchestrator.system.hardware import Hardware
from trainables.base import Arm, Family, RunConfig, Speed

CPU_SPEED = Speed(4.5e10, 17_000.0)
"""Speed of torch on one core. It was fitted to float32 training of ListOps models with 1,200 to 116,000 parameters on a
shared server. It is accurate within 30% there; expect a factor of three elsewhere."""
STARTUP_S = 15.0
"""Seconds to start Ray and the workers."""
WEIGHT_BYTES_PER_PARAMETER = 4
"""Bytes of a stored weight (float32). Checkpoints are three times as large, but are removed when their stack ends."""
RECORD_BYTES = 200_000
"""Bytes of a run in addition to its weights: arrays, curves and pictures, in its directory and in MLflow. We measured
194 kB per run modulo 6 and 250 kB modulo 10, when every run had pictures in both places."""
SWEEP_BYTES = 1_500_000
"""Bytes of a sweep in addition to its runs: an empty MLflow database and the figures. Training data are not counted,
because sweeps share them."""


@dataclass(frozen=True)
class SizeCost:
    """Cost of the runs of one size.

    Attributes:
        size: The size.
        parameters: Number of parameters of a model.
        flops: Maximum number of floating-point operations of a run.
        seconds: Maximum seconds of a run.
        runs: Expected number of runs.
        stack: Maximum number of runs that train as one stack.
    """

    size: int
    parameters: float
    flops: float
    seconds: float
    runs: float
    stack: int


@dataclass(frozen=True)
class CostEstimate:
    """Expected cost of a sweep.

    Attributes:
        sizes: Cost of each size.
        flops: Floating-point operations of all runs.
        runs_at_best: Number of runs in the shortest rehearsal.
        runs_at_worst: Number of runs in the longest rehearsal. In a rehearsal, either all runs of a size learn or
            none of them does. Mixed outcomes may need more runs.
        runs_at_most: Maximum number of runs that the searcher may request.
        seconds_at_best: Seconds of the cheapest rehearsal, from start to answer, including the tuning.
        seconds_at_worst: Seconds of the most expensive rehearsal.
        stacks_at_once: Number of stacks that train at the same time.
        tuning_runs: Maximum number of tuning runs before the search. 0 if the settings are already tuned.
        tuning_seconds: Seconds of the tuning runs.
    """

    sizes: tuple[SizeCost, ...]
    flops: float
    runs_at_best: int
    runs_at_worst: int
    runs_at_most: int
    seconds_at_best: float
    seconds_at_worst: float
    stacks_at_once: int
    tuning_runs: int
    tuning_seconds: float

    @property
    def runs(self) -> float:
        """Expected number of runs."""
        return sum(size.runs for size in self.sizes)

    @property
    def disk_bytes(self) -> float:
        """Bytes on disk after the expected runs have ended."""
        sizes = ((size.runs, WEIGHT_BYTES_PER_PARAMETER * size.parameters + RECORD_BYTES) for size in self.sizes)
        return SWEEP_BYTES + sum(runs * run_bytes for runs, run_bytes in sizes)


def estimate_cost(spec: SweepSpec, hardware: Hardware, *, most_at_once: float = math.inf) -> CostEstimate:
    """Return the expected cost of a sweep.

    Args:
        spec: The sweep. Its ``auto`` settings must be replaced by numbers first
            (:func:`orchestrator.space.stack_sizes.choose_stacks`).
        hardware: Hardware that trains the sweep.
        most_at_once: Maximum number of stacks at the same time.
    """
    family = spec.make_family()
    seconds = run_seconds(spec)
    stacks = StackSizes(spec, hardware)
    rehearsals = rehearse(spec, search_seconds(spec))
    at_once = int(min(stacks_at_once(spec, hardware), most_at_once))
    sizes = tuple(
        SizeCost(
            size,
            family.parameters(size).total,
            max(sum(map(family.flops, phases)) for phases in _phases(spec, size)),
            seconds[size],
            sum(runs[size] for runs in rehearsals) / len(rehearsals),
            stacks.max_runs(size),
        )
        for size in spec.sizes
    )
    tuning_runs, tuning_s = _tuning(spec, seconds, at_once)
    donors = _donors(spec, family)
    donors_s = sum(_seconds(spec, family, [run]) for run in donors) / at_once

    def wall(searched_s: float) -> float:
        """Return the seconds from start to answer, given the seconds of the search's runs one after another."""
        return STARTUP_S + searched_s / at_once + tuning_s + donors_s

    runs_at_worst = max(runs.total() for runs in rehearsals)
    searched_s = [sum(count * seconds[size] for size, count in runs.items()) for runs in rehearsals]
    return CostEstimate(
        sizes,
        flops=sum(size.runs * size.flops for size in sizes) + sum(map(family.flops, donors)),
        runs_at_best=min(runs.total() for runs in rehearsals),
        runs_at_worst=runs_at_worst,
        runs_at_most=max(runs_at_worst, sum(mix.runs_left for mix in searcher_of(spec).progress())),
        seconds_at_best=wall(min(searched_s)),
        seconds_at_worst=wall(max(searched_s)),
        stacks_at_once=at_once,
        tuning_runs=tuning_runs,
        tuning_seconds=tuning_s,
    )


def plan_json(spec: SweepSpec, hardware: Hardware) -> dict[str, Any]:
    """Return a sweep and its expected cost as plain JSON values. Names do not change between versions. Times are in
    seconds."""
    spec = choose_stacks(spec, hardware)
    plan = estimate_cost(spec, hardware)
    return {
        "space": spec.name,
        "variant": spec.variant,
        "profile": spec.profile,
        "device": spec.resources.device,
        "stacks_at_once": plan.stacks_at_once,
        "runs": {"at_best": plan.runs_at_best, "at_worst": plan.runs_at_worst, "at_most": plan.runs_at_most},
        "seconds": {"at_best": plan.seconds_at_best, "at_worst": plan.seconds_at_worst},
        "tuning": {"runs": plan.tuning_runs, "seconds": plan.tuning_seconds},
        "flops": plan.flops,
        "disk_bytes": plan.disk_bytes,
        "sizes": list(map(asdict, plan.sizes)),
    }


def run_seconds(spec: SweepSpec) -> dict[int, float]:
    """Return the maximum seconds of a run by size, at typical speeds."""
    family = spec.make_family()
    return {size: max(_seconds(spec, family, phases) for phases in _phases(spec, size)) for size in spec.sizes}


def search_seconds(spec: SweepSpec) -> dict[int, float]:
    """Return the maximum seconds of a run by size as a search counts them. If the family knows the speed of a typical
    core, these are the seconds of that core (:func:`orchestrator.space.comparisons.search_points`)."""
    family = spec.make_family()
    speed = family.typical_speed(spec.resources.device)
    if speed is None:
        return run_seconds(spec)
    return {
        size: max(sum(typical_seconds(family, speed, run) for run in phases) for phases in _phases(spec, size))
        for size in spec.sizes
    }


def _tuning(spec: SweepSpec, seconds: Mapping[int, float], at_once: int) -> tuple[int, float]:
    """Return the maximum number of tuning runs before a search, and their seconds."""
    # The maximum, because a trial that cannot win trains only its smallest size.
    tune = spec.tune
    if tune is None or spec.tuned:
        return 0, 0.0
    at_size = len(spec.mixes) * tune.trials * tune.seeds
    sizes = tuning_sizes(spec.sizes)
    return at_size * len(sizes), math.ceil(at_size / at_once) * sum(seconds[size] for size in sizes)


def _phases(spec: SweepSpec, size: int) -> list[Sequence[RunConfig]]:
    """Return the phases of a run for each mix, without the phases that runs of all sizes share."""
    runs = [(mix, spec.config(Request(mix.name, size, spec.seed))) for mix in spec.mixes]
    return [run.phases[_shared(mix) :] for mix, run in runs]


def _donors(spec: SweepSpec, family: Family) -> Collection[RunConfig]:
    """Return the phases that runs of all sizes share, which are trained once per seed."""
    pairs = [(mix, Request(mix.name, spec.sizes[0], seed)) for mix in spec.mixes for seed in spec.seed_list]
    shared = [phase for mix, request in pairs for phase in spec.config(request).phases[: _shared(mix)]]
    return {family.key(phase): phase for phase in shared}.values()


def _shared(mix: Arm) -> int:
    """Return the number of an arm's first phases that have a fixed size, so that runs of all sizes share them."""
    return [phase.size is not None for phase in mix.phases if phase.share].index(False)


def _seconds(spec: SweepSpec, family: Family, phases: Iterable[RunConfig]) -> float:
    """Return the seconds of phases of a run, if the run trains in a stack of the size that the searcher requests."""
    share = spec.resources.gpu_per_stack
    speed = family.speed(spec.resources.device) or (GPU_SPEED if share else CPU_SPEED)
    seconds = 0.0
    for run in phases:
        seconds += speed.seconds(family.flops(run), family.parameters(run.size).total)
        if share:
            # On a GPU, each step takes a fixed time in addition, which the runs of a stack share.
            seconds += family.steps(run) * GPU_STEP_S / _runs_together(spec)
    if not isinstance(share, float) or not share:  # A CPU, or ``auto``, which counts as a whole GPU here.
        return seconds
    return seconds / min(1.0, share)  # Processes that share a GPU take turns.


def _runs_together(spec: SweepSpec) -> int:
    """Return the number of runs of a typical stack on a GPU. It is 1 while the searcher's ``stack`` is ``auto``."""
    stack = spec.search.settings.get("stack", "auto")
    return stack if isinstance(stack, int) and spec.make_family().stacks else 1
