"""Sweeps written to disk by the real writers (journal, run directories, stacks), without an engine or a record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace

import numpy as np

from orchestrator.history.journal import Answered, Asked, Ended, Journal
from orchestrator.history.sweeps import Sweep, create_sweep
from orchestrator.home.array_files import packed_arrays
from orchestrator.home.checkpoints import note_progress, write_members
from orchestrator.home.directories import Home
from orchestrator.home.new_home import make_home
from orchestrator.home.run_files import ARRAYS
from orchestrator.home.run_store import RunStore
from orchestrator.search.base import Request
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.evidence import Block
from tests.families import FLOOR, LogisticLearner
from tests.sweep.sweeps import spec
from trainables.base import Evaluation, Outcome, RunConfig, Status

TOKENS = 6
EVALUATIONS = 20


def runs_of(sweep_spec: SweepSpec) -> list[RunConfig]:
    """Return every run of a sweep: each cell with each seed."""
    return [sweep_spec.config(request) for request in sweep_spec.requests()]


def outcome_of(config: RunConfig) -> Outcome:
    """Return the logistic family's outcome of a run, with a learning curve that rises to it."""
    final = LogisticLearner([config]).accuracy(config)
    tasks = config.mix.tasks
    curve = tuple(
        Evaluation(step, 2.0 / step, dict.fromkeys(tasks, final * step / EVALUATIONS))
        for step in range(1, EVALUATIONS + 1)
    )
    measures = {"seconds": config.size / 10}
    return Outcome(
        Status.FINISHED, EVALUATIONS, dict.fromkeys(tasks, final), dict.fromkeys(tasks, FLOOR), curve, measures
    )


def write_sweep(
    home: Home,
    sweep_spec: SweepSpec | None = None,
    *,
    runs: Iterable[RunConfig] | None = None,
    outcomes: dict[int, Outcome] | None = None,
    answered: bool = True,
) -> Sweep:
    """Write and return a sweep with these runs (by default all of its runs). ``outcomes`` replaces outcomes by
    place."""
    sweep_spec = sweep_spec or spec()
    make_home(home.root)
    sweep = create_sweep(sweep_spec, home)
    files = home.sweep(sweep.id)
    family = sweep_spec.make_family()
    configs = runs_of(sweep_spec) if runs is None else list(runs)
    with Journal(files.journal) as journal:
        if blocks := pairs_of(sweep_spec, configs):
            journal.append(Asked(blocks))
        for place, config in enumerate(configs):
            outcome = (outcomes or {}).get(place) or outcome_of(config)
            key = family.key(config)
            if outcome.status is not Status.FAILED:
                leave_run(RunStore(home, sweep.id), key, config, outcome)
            request = Request(config.label, config.size, config.seed)
            journal.append(Ended.of(sweep.run(key, request, outcome)))
        if answered:
            journal.append(Answered())
    return sweep


def pairs_of(sweep_spec: SweepSpec, configs: Sequence[RunConfig]) -> tuple[Block, ...]:
    """Return blocks of every run with its baseline's run at the same size and seed, if both exist."""
    cells = {(config.label, config.size, config.seed) for config in configs}
    blocks = [
        Block(mix.name, sweep_spec.baseline_of(mix).name, size, size, seed)
        for seed in sweep_spec.seed_list
        for mix, size in sweep_spec.cells
        if mix != sweep_spec.baseline_of(mix)
    ]
    return tuple(block for block in blocks if cells.issuperset(block.runs))


def leave_run(runs: RunStore, key: str, config: RunConfig, outcome: Outcome) -> None:
    """Write a run's directory as a worker does."""
    embedding = np.random.default_rng(config.seed).normal(size=(TOKENS, config.size)).astype(np.float32)
    unit = embedding / np.linalg.norm(embedding, axis=1, keepdims=True)
    runs.put(key, outcome, {ARRAYS: packed_arrays({"embedding": embedding, "similarity": unit @ unit.T})})


def leave_stack(home: Home, sweep: Sweep, configs: list[RunConfig], evaluations: int) -> list[str]:
    """Write a stack in training. Return the keys of its runs."""
    family = sweep.spec.make_family()
    directory = home.sweep(sweep.id).stacks / "stack"
    requests = [Request(config.mix.name, config.size, config.seed) for config in configs]
    write_members(directory, [asdict(request) for request in requests])
    keys = [family.key(config) for config in configs]
    for step in range(1, evaluations + 1):
        curves = {
            key: Evaluation(step, 1.0, dict.fromkeys(config.mix.tasks, step / 10))
            for key, config in zip(keys, configs, strict=True)
        }
        note_progress(directory, curves.items())
    return keys


def failed(error: str = 'Traceback (most recent call last):\n  File "a.py"\nZeroDivisionError: by zero') -> Outcome:
    return Outcome(Status.FAILED, 0, {}, {}, error=error)


def diverged(config: RunConfig) -> Outcome:
    floor = dict.fromkeys(config.mix.tasks, FLOOR)
    return replace(outcome_of(config), status=Status.DIVERGED, accuracy=floor, floor=floor)
