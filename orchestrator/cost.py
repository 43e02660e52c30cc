"""The cost of a sweep: the estimate that ``plan`` prints, and the cost so far.

The estimate comes from *rehearsals*: the sweep's own searcher runs to its end with invented outcomes, for each of
several assumed transitions. (``simulation.py`` compares searchers, and predicts what more runs would decide.)
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import numpy as np

from orchestrator.search.base import AUTO, Request, Searcher
from orchestrator.search.registry import METHODS
from orchestrator.search.results import cost_model
from orchestrator.space.problem import problem_of, searcher_of
from orchestrator.space.runs import Run
from orchestrator.space.spec import SweepSpec
from orchestrator.space.tuning_settings import tuning_sizes
from orchestrator.stacks import AUTO_GPU_SHARE, StackSizes, choose_stacks
from orchestrator.system.hardware import Hardware, Machine
from orchestrator.transition.types import Point
from trainables.base import Arm, Family, RunConfig, Speed

LEARNED = 0.98
"""Accuracy of runs in a rehearsal that are at or above the transition."""
UNLEARNED = 0.2
"""Accuracy of runs in a rehearsal that are below the transition."""
MOST_REHEARSALS = 16
"""Maximum number of transitions to rehearse."""
GRID_SEEDS = 3
"""Number of seeds in the grid that a search is compared with. A search has many seeds because it uses each for one pair
only; a grid with all of them would be an unfair comparison."""
SOONER = 0.6
"""In half of the rehearsals (simulated searches), a mix's transition is this share of its baseline's."""

CPU_SPEED = Speed(4.5e10, 17_000.0)
"""Speed of torch on one core, fitted to float32 training of ListOps models with 1,200 to 116,000 parameters on a shared
server (within 30%; expect a factor of three elsewhere)."""
GPU_SPEED = Speed(3.0e13, 36_000.0)
"""Speed of torch on a GPU, from stacks of 64 runs of the profile `paper` on an H100 in float32: 239 us per run and step
at n_embed 16, 316 at 32 and 554 at 64 (within 8%), measured before the gradients of matrices were computed in parts
(trainables/transformer/model.py)."""
GPU_STEP_S = 5.7e-4
"""Seconds that each step of a stack on a GPU takes in addition, however small the stack is, because kernels for a few
runs do not fill a GPU. On the same H100, one run took 779 us a step at n_embed 16, 876 at 32 and 1,172 at 64."""
STARTUP_S = 15.0
"""Seconds to start Ray and the workers."""
WEIGHT_BYTES_PER_PARAMETER = 4
"""Float32. Checkpoints, three times as large while a stack trains, are removed when it ends."""
RECORD_BYTES = 200_000
"""Bytes of a run in addition to its weights: arrays, curves and pictures, in its directory and in MLflow. Measured as
194 kB per run modulo 6 and 250 kB modulo 10, when every run had pictures in both places."""
SWEEP_BYTES = 1_500_000
"""Bytes of a sweep: an empty MLflow database and the figures, without training data, which sweeps share."""


@dataclass(frozen=True)
class SizePlan:
    """Cost of one size. ``flops`` and ``seconds`` are the maximum for a run, ``runs`` the expected number of runs, and
    ``stack`` the maximum number of runs trained together."""

    size: int
    parameters: float
    flops: float
    seconds: float
    runs: float
    stack: int


@dataclass(frozen=True)
class Plan:
    """Expected cost of a sweep.

    Attributes:
        flops: Floating-point operations of all runs.
        runs_at_best: Number of runs in the shortest rehearsal.
        runs_at_worst: Number of runs in the longest rehearsal. In a rehearsal, either every run of a size
            learns or none does; mixed outcomes may need more runs.
        runs_at_most: The searcher's bound on the runs.
        seconds_at_best: Seconds of the cheapest rehearsal, from start to answer, including the tuning.
        seconds_at_worst: Seconds of the most expensive rehearsal.
        stacks_at_once: Number of stacks that train at the same time.
        tuning_runs: Maximum number of tuning runs before the sweep; 0 if another sweep tuned the same settings.
        tuning_seconds: Seconds of the tuning runs.
    """

    sizes: tuple[SizePlan, ...]
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
        """Disk space in bytes of the expected runs after they have ended."""
        sizes = ((size.runs, WEIGHT_BYTES_PER_PARAMETER * size.parameters + RECORD_BYTES) for size in self.sizes)
        return SWEEP_BYTES + sum(runs * run_bytes for runs, run_bytes in sizes)


def make_plan(spec: SweepSpec, hardware: Hardware, *, most_at_once: float = math.inf) -> Plan:
    """Return the expected cost on ``hardware`` of ``spec``, after :func:`orchestrator.stacks.choose_stacks`, if it
    trains at most ``most_at_once`` stacks at the same time."""
    family = spec.make_family()
    seconds = run_seconds(spec)
    stacks = StackSizes(spec, hardware)
    rehearsals = rehearse(spec, seconds)
    at_once = int(min(stacks_at_once(spec, hardware), most_at_once))
    sizes = tuple(
        SizePlan(
            size,
            family.parameters(size).total,
            max(sum(map(family.flops, phases)) for phases in _phases(spec, size)),
            seconds[size],
            sum(runs[size] for runs in rehearsals) / len(rehearsals),
            stacks.most(size),
        )
        for size in spec.sizes
    )
    tuning_runs, tuning_s = _tuning(spec, seconds, at_once)
    donors = _donors(spec, family)
    donors_s = sum(_seconds(spec, family, [run]) for run in donors) / at_once

    def wall(searched_s: float) -> float:
        return STARTUP_S + searched_s / at_once + tuning_s + donors_s

    runs_at_worst = max(runs.total() for runs in rehearsals)
    searched_s = [sum(count * seconds[size] for size, count in runs.items()) for runs in rehearsals]
    return Plan(
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
    """Return a sweep and its expected cost on ``hardware`` as plain JSON values, with names that do not change between
    versions. Times are in seconds."""
    spec = choose_stacks(spec, hardware)
    plan = make_plan(spec, hardware)
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
    """Return the maximum seconds of a run by size, at typical rates."""
    family = spec.make_family()
    return {size: max(_seconds(spec, family, phases) for phases in _phases(spec, size)) for size in spec.sizes}


def _tuning(spec: SweepSpec, seconds: Mapping[int, float], at_once: int) -> tuple[int, float]:
    """Return the number of tuning runs before a sweep and their seconds, if every trial trains all sizes and seeds."""
    tune = spec.tune
    if tune is None or spec.tuned:
        return 0, 0.0
    at_size = len(spec.mixes) * tune.trials * tune.seeds
    sizes = tuning_sizes(spec.sizes)
    return at_size * len(sizes), math.ceil(at_size / at_once) * sum(seconds[size] for size in sizes)


def rehearse(spec: SweepSpec, seconds: Mapping[int, float]) -> list[Counter[int]]:
    """Return the number of runs that the searcher requests by size, for each of several assumed transitions: equal ones
    of all mixes, and then smaller ones of the mixes that are compared with a baseline."""
    # All recipes are searched in the same way, so the first represents all.
    problem = problem_of(spec, spec.baseline.recipe)
    mixes = problem.mixes
    transitions = [*spec.sizes, math.inf]
    if len(transitions) > MOST_REHEARSALS:
        places = np.linspace(0, len(transitions) - 1, MOST_REHEARSALS).round().astype(int)
        transitions = [transitions[place] for place in places]
    compared = {mix for mix, _ in problem.comparisons}
    worlds = [dict.fromkeys(mixes, transition) for transition in transitions]
    if compared:
        worlds += [{mix: at * (SOONER if mix in compared else 1) for mix, at in world.items()} for world in worlds]
    rehearsals = []
    for world in worlds:
        searcher = METHODS[spec.search.method](problem, **spec.search.settings)
        counts = played_to_the_end(searcher, world, seconds)
        rehearsals.append(Counter({size: round(runs * len(spec.mixes) / len(mixes)) for size, runs in counts.items()}))
    return rehearsals


def stacks_at_once(spec: SweepSpec, hardware: Hardware) -> int:
    """Return the number of stacks that train at the same time. If needed GPUs are missing, assume one."""
    machines = hardware.machines or (Machine(hardware.cpus, hardware.gpus),)
    if found := sum(map(spec.resources.stacks_on, machines)):
        return found
    share = spec.resources.gpus
    return int(1 / share + 1e-9) if 0 < share < 1 else 1


def played_to_the_end(
    searcher: Searcher, transitions: Mapping[str, float], seconds: Mapping[int, float]
) -> Counter[int]:
    """Return the number of further runs that a searcher requests by size, if runs learn from ``transitions`` on."""

    def tell(request: Request) -> None:
        accuracy = LEARNED if request.size >= transitions[request.mix] else UNLEARNED
        searcher.tell(request, request.point(accuracy, UNLEARNED, seconds[request.size]))

    for request in searcher.pending:
        tell(request)
    runs: Counter[int] = Counter()
    while wanted := searcher.ask(4):
        for request in wanted:
            runs[request.size] += 1
            tell(request)
    return runs


def _phases(spec: SweepSpec, size: int) -> list[Sequence[RunConfig]]:
    """Return the phases of a run of each mix, without those that runs of all sizes share."""
    runs = [(mix, spec.config(Request(mix.name, size, spec.seed))) for mix in spec.mixes]
    return [run.phases[_shared(mix) :] for mix, run in runs]


def _donors(spec: SweepSpec, family: Family) -> Collection[RunConfig]:
    """Return the phases from which runs of all sizes continue, each trained once per seed."""
    pairs = [(mix, Request(mix.name, spec.sizes[0], seed)) for mix in spec.mixes for seed in spec.seed_list]
    shared = [phase for mix, request in pairs for phase in spec.config(request).phases[: _shared(mix)]]
    return {family.key(phase): phase for phase in shared}.values()


def _shared(mix: Arm) -> int:
    """Return the number of an arm's first phases with a fixed size, which runs of all sizes share."""
    return [phase.size is not None for phase in mix.phases if phase.share].index(False)


def _seconds(spec: SweepSpec, family: Family, phases: Iterable[RunConfig]) -> float:
    """Return the seconds of one or more phases of a run, in the stacks that the searcher requests."""
    share, seconds = spec.resources.gpu_per_stack, 0.0
    speed = family.speed(spec.resources.device) or (GPU_SPEED if share else CPU_SPEED)
    for run in phases:
        seconds += speed.seconds(family.flops(run), family.parameters(run.size).total)
        if share:
            seconds += family.steps(run) * GPU_STEP_S / _runs_together(spec)
    # Processes that share a GPU take turns.
    return seconds / (min(1.0, AUTO_GPU_SHARE if share == AUTO else share) if share else 1.0)


def _runs_together(spec: SweepSpec) -> int:
    """Return the number of runs of a typical stack on a GPU, 1 before :func:`orchestrator.stacks.choose_stacks`."""
    stack = spec.search.settings.get("stack", AUTO)
    return stack if isinstance(stack, int) and spec.make_family().stacks else 1


@dataclass(frozen=True)
class Cost:
    """Seconds of training. Each run counts for its share of its stack.

    Attributes:
        spent_s: Seconds of the ``runs`` trained for the sweep.
        found_s: Seconds that the ``found`` reused runs took to train.
        grid_s: Seconds of all ``grid_runs`` runs of the whole grid, or None before the first run has ended.
        grid_seeds: Number of seeds at each size of the grid: all of a sweep by grid, else at most :data:`GRID_SEEDS`.
    """

    spent_s: float
    grid_s: float | None
    runs: int
    grid_runs: int
    grid_seeds: int
    found_s: float = 0.0
    found: int = 0

    @property
    def share(self) -> float | None:
        """Seconds of the runs that ended, including reused runs, relative to the grid's."""
        return (self.spent_s + self.found_s) / self.grid_s if self.grid_s else None


def cost_of(spec: SweepSpec, runs: Iterable[Run]) -> Cost:
    """Return the cost of a sweep's runs.

    A cell of the full grid costs the mean of its own runs. If it has none, it costs the mean of all runs of its size,
    and if there are none, what a power law fitted to the measured sizes predicts. Earlier phases are assumed to add the
    same share of time as in the measured runs.
    """
    ended = [(run, run.outcome.measures.get("seconds", 0.0)) for run in runs]
    # Counts are as in the table, but the seconds include first phases.
    counted = [(run, spent) for run, spent in ended if run.request.mix in spec.mix_named and run.is_evidence]
    cells: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    sizes: defaultdict[int, list[float]] = defaultdict(list)
    seen: dict[Request, Point | None] = {}
    for run, spent in counted:
        if spent > 0:
            cells[run.config.label, run.config.size].append(spent)
            sizes[run.config.size].append(spent)
            seen[run.request] = run.request.point(0.0, 0.0, spent)
    grid_s = None
    grid_seeds = spec.seeds if spec.search.method == "grid" else min(spec.seeds, GRID_SEEDS)
    if seen:
        model = cost_model(seen)
        expected = [cells[mix.name, size] or sizes[size] or [model.cost(size)] for mix, size in spec.cells]
        phases_s = sum(spent for run, spent in ended if run.config.label not in spec.mix_named)
        grid_s = grid_seeds * sum(map(fmean, expected)) * (1 + phases_s / sum(map(sum, cells.values())))
    spent_s = sum(spent for run, spent in ended if not run.trained_for)
    found_s = sum(spent for _, spent in ended) - spent_s
    reused = sum(bool(run.trained_for) for run, _ in counted)
    grid_runs = grid_seeds * len(spec.cells)
    return Cost(spent_s, grid_s, len(counted) - reused, grid_runs, grid_seeds, found_s, reused)
