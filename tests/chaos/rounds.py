"""A sweep with several faults in its middle, ``--resume`` until it is answered, and what is left compared."""

from __future__ import annotations

import io
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from rich.console import Console

from orchestrator.home.files import Home, flaw_of
from orchestrator.home.journal import recall
from orchestrator.space.spec import SweepSpec
from orchestrator.sweep.run import run_sweep
from orchestrator.sweep.run_options import RunOptions
from tests.chaos.disturbed import Disturbed
from tests.chaos.faults import FAULTS, in_time
from tests.chaos.ground import Ground
from tests.chaos.paced import MIXES, SIZES, SPACE, write_space
from tests.chaos.program import journalled

PACE_S = 0.15
"""Between two evaluations: a fault meets a run in its middle as often as not."""
ROUNDS_A_SWEEP = 8
SEEDS = 4
RUNS = len(MIXES) * len(SIZES) * SEEDS
"""Runs of a sweep: three for each fault, of which at most two end before the next fault."""
EARLY = 0.5
"""The share of faults that can come at any time which do not wait until the sweep has got over the one before."""
MOST_TOGETHER = 3
"""Faults of one sweep: it restarts by itself three times, and would have to be resumed by hand after more."""
START_S = 12.0
"""Between a fault and an early one: about what a sweep takes to train again on an idle machine."""
SPARE = 4
"""With fewer runs left than that a sweep meets no further fault: one could come after its end."""
Cell = tuple[str, int, int]


@dataclass(frozen=True)
class Truth:
    """What a sweep without any fault finds: its outcomes by mix, size and seed, and what it prints of its answer."""

    outcomes: dict[Cell, dict[str, Any]]
    answer: str


@dataclass(frozen=True)
class Round:
    """A fault. ``seen`` is whether it was made and its effect was there; ``resumes`` is how often ``--resume`` was
    given until the next fault, or until a further run was journalled, ``seconds`` after this one; ``own`` is whether
    Ray was its own, ``early`` whether it met a sweep that was getting over another one."""

    fault: str
    own: bool
    seen: bool
    resumes: int
    seconds: float
    early: bool = False


@dataclass(frozen=True)
class Counted:
    """What is left of a sweep with faults. ``lost`` runs have no good outcome, left no whole files or are not in
    MLflow, ``doubled`` ones stand in the journal or in MLflow more than once, ``changed`` ones have another outcome;
    ``same_answer`` is whether it is printed to the letter."""

    lost: int
    doubled: int
    changed: int
    same_answer: bool

    @property
    def good(self) -> bool:
        return self.same_answer and not (self.lost or self.doubled or self.changed)


def truth(directory: Path, **changes: Any) -> Truth:
    """A sweep in this process, at any pace; ``changes`` are fields of its search space."""
    console = Console(file=io.StringIO(), width=200)
    spec = SweepSpec.model_validate(SPACE | {"seeds": SEEDS} | changes)
    run_sweep(spec, RunOptions(home=directory, engine="local"), console)
    output = console.file
    assert isinstance(output, io.StringIO)
    home = Home(directory)
    entries = [item for sweep_id in home.sweep_ids() for item in recall(home.sweep(sweep_id)).ended]
    assert len(entries) == len(spec.cells) * spec.seeds
    outcomes = {(item.request.mix, item.request.size, item.request.seed): item.outcome.to_json() for item in entries}
    answer = answer_in(output.getvalue())
    assert answer, "an undisturbed sweep has an answer"
    return Truth(outcomes, answer)


def play(
    faults: Sequence[str],
    ground: Ground,
    expected: Truth,
    directory: Path,
    rng: np.random.Generator,
    played: Callable[[Round], object],
) -> Counted:
    """A sweep with these faults, its home on ``directory / "disk"``, its output in ``directory / "log"``.
    ``played`` is told of each fault; those that it has no runs left for do not happen. Raises :class:`LostError` where
    the sweep does not go on."""
    sweep = Disturbed(
        write_space(directory, pace_s=PACE_S, seeds=SEEDS), directory / "disk" / "home", directory / "log", ground
    )
    try:
        for group in grouped(faults, rng):
            if sweep.runs > RUNS - SPARE:
                break
            sweep.go_on_until(max(1, sweep.runs) + int(rng.integers(2)))
            time.sleep(float(rng.uniform(0, 3 * PACE_S)))
            for item in _make(group, sweep, rng):
                played(item)
        sweep.go_on_to_the_answer()
    finally:
        sweep.program.kill()
    return count(sweep.home, sweep.log, expected)


def grouped(faults: Sequence[str], rng: np.random.Generator) -> list[list[str]]:
    """These faults in order; those in one list happen before the sweep has got over the first of them."""
    groups: list[list[str]] = []
    for fault in faults:
        if groups and len(groups[-1]) < MOST_TOGETHER and FAULTS[fault].any_time and rng.random() < EARLY:
            groups[-1].append(fault)
        else:
            groups.append([fault])
    return groups


@dataclass(frozen=True)
class _Made:
    """A fault that was made, or could not be; ``log_length`` and ``resumes`` are of the time before it."""

    fault: str
    made: bool
    log_length: int
    resumes: int
    at: float


def _make(faults: Sequence[str], sweep: Disturbed, rng: np.random.Generator) -> list[Round]:
    """Make these faults, each while the sweep starts again after the one before, and wait until a further run is
    journalled and every expected message was printed."""
    own, runs, made = not sweep.ground.words, sweep.runs, list[_Made]()
    for fault in faults:
        if made:
            sweep.go_on_until(runs)
            _was_reported(made[-1], sweep)  # Who is to say it may be what the next one ends.
            time.sleep(float(rng.uniform(0, START_S)))
        before = sweep.log_length, sweep.resumes, time.monotonic()
        try:
            made.append(_Made(fault, FAULTS[fault].make(sweep, rng), *before))
        except psutil.NoSuchProcess:  # It had ended by itself before anything could be done to it.
            made.append(_Made(fault, False, *before))
    sweep.go_on_for_a_run()
    ended, resumes = time.monotonic(), [*(item.resumes for item in made[1:]), sweep.resumes]
    return [
        Round(
            item.fault,
            own,
            _was_reported(item, sweep),
            after - item.resumes,
            ended - item.at,
            early=place > 0,
        )
        for place, (item, after) in enumerate(zip(made, resumes, strict=True))
    ]


def _was_reported(fault: _Made, sweep: Disturbed) -> bool:
    """Whether a fault was made, and the program printed its message."""
    return fault.made and in_time(partial(sweep.logged, FAULTS[fault.fault].message, fault.log_length))


def count(home: Path, log: Path, expected: Truth) -> Counted:
    """What the sweep of a home has come to."""
    [sweep_id] = Home(home).sweep_ids()
    stored = {
        (item.request.mix, item.request.size, item.request.seed): item
        for item in recall(Home(home).sweep(sweep_id)).ended
    }
    whole = {cell for cell, item in stored.items() if not item.outcome.error and not flaw_of(home / "runs" / item.key)}
    in_journal = Counter(item.key for item in journalled(home))
    in_mlflow = Counter(recorded(home))
    return Counted(
        lost=len(expected.outcomes.keys() - whole) + max(0, len(expected.outcomes) - len(in_mlflow)),
        doubled=sum(count - 1 for counts in (in_journal, in_mlflow) for count in counts.values()),
        changed=sum(stored[cell].outcome.to_json() != expected.outcomes[cell] for cell in whole),
        same_answer=answer_in(log.read_text()) == expected.answer,
    )


def recorded(home: Path) -> list[str]:
    """The keys of the runs in MLflow's record, without those that it has thrown away, half written."""
    database = sqlite3.connect(f"file:{home / 'mlflow.db'}?mode=ro", uri=True)
    try:
        rows = database.execute(
            "select keys.value from tags keys join tags kinds using (run_uuid) join runs using (run_uuid) "
            "where kinds.key = 'kind' and kinds.value = 'run' and keys.key = 'run_key' "
            "and runs.lifecycle_stage = 'active'"
        )
        return [key for (key,) in rows]
    finally:
        database.close()


def answer_in(output: str) -> str:
    """Return the last answer that was printed, up to the empty line after it, or ``""`` if none was. The next step
    below it is a command on the command line, and settings from Python."""
    _, result, rest = output.rpartition(": size at ")
    return rest.partition("\n")[2].partition("\n\n")[0].strip() if result else ""
