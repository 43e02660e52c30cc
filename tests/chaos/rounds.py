"""One round: a sweep, a fault in its middle, ``--resume`` until it is answered, and what is left compared."""

from __future__ import annotations

import io
import sqlite3
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from orchestrator.drive.sweep import RunOptions, run_sweep
from orchestrator.space.spec import SweepSpec
from orchestrator.store import lifecycle
from orchestrator.store.files import Home
from orchestrator.store.remains import OUTCOME
from tests.chaos.faults import FAULTS, small_disk
from tests.chaos.paced import RUNS, SPACE, write_space
from tests.chaos.program import Program, journalled

PACE_S = 0.15
"""Between two evaluations: a fault meets a run in its middle as often as not."""
RESUMES = 4
"""How often a sweep is resumed before it counts as lost."""
Cell = tuple[str, int, int]


@dataclass(frozen=True)
class Truth:
    """What a sweep without any fault finds: its outcomes by mix, size and seed, and what it prints of its answer."""

    outcomes: dict[Cell, dict[str, Any]]
    answer: str


@dataclass(frozen=True)
class Round:
    """What a fault after ``after`` runs did. ``lost`` runs have no good outcome, left no files or are not in MLflow,
    ``doubled`` ones stand in the journal or in MLflow more than once, ``changed`` ones have another outcome;
    ``same_answer`` is whether it is printed to the letter."""

    fault: str
    after: int
    resumes: int
    lost: int
    doubled: int
    changed: int
    same_answer: bool
    seconds: float

    @property
    def good(self) -> bool:
        return self.same_answer and not (self.lost or self.doubled or self.changed)


def truth(directory: Path) -> Truth:
    """A sweep in this process, at any pace."""
    console = Console(file=io.StringIO(), width=200)
    spec = SweepSpec.model_validate(SPACE)
    run_sweep(spec, RunOptions(home=directory, local_debug=True), console)
    said = console.file
    assert isinstance(said, io.StringIO)
    entries = journalled(directory)
    assert len(entries) == RUNS
    outcomes = {(each.request.mix, each.request.size, each.request.seed): each.outcome.to_json() for each in entries}
    return Truth(outcomes, answer_in(said.getvalue()))


def play(fault: str, after: int, expected: Truth, directory: Path, rng: np.random.Generator) -> Round | None:
    """One round in an empty directory; None where a disk is wanted for it and none can be mounted."""
    begun = time.monotonic()
    disk = directory / "disk"
    disk.mkdir()
    space, log = write_space(directory, pace_s=PACE_S), directory / "log"
    if fault != "disk full":
        return _play(fault, after, expected, (space, disk / "home", log), rng, begun)
    with small_disk(disk) as mounted:
        return _play(fault, after, expected, (space, disk / "home", log), rng, begun) if mounted else None


def _play(
    fault: str,
    after: int,
    expected: Truth,
    where: tuple[Path, Path, Path],
    rng: np.random.Generator,
    begun: float,
) -> Round:
    space, home, log = where
    program = Program(space, home, log)
    try:
        program.wait_for_runs(after)
        FAULTS[fault](program, rng)
        code, resumes = program.end(), 0
        while code and resumes < RESUMES:
            resumes += 1
            program = Program(space, home, log, "--resume")
            code = program.end()
    finally:
        program.kill()
    [sweep_id] = Home(home).sweep_ids()
    entries = journalled(home)
    kept = {
        (each.request.mix, each.request.size, each.request.seed): each
        for each in lifecycle.recall(Home(home).sweep(sweep_id)).ended
    }
    whole = {
        cell for cell, each in kept.items() if not each.outcome.error and (home / "runs" / each.key / OUTCOME).is_file()
    }
    in_journal = Counter(each.key for each in entries)
    in_mlflow = Counter(recorded(home))
    return Round(
        fault,
        after,
        resumes,
        lost=len(expected.outcomes.keys() - whole) + max(0, RUNS - len(in_mlflow)),
        doubled=sum(count - 1 for counts in (in_journal, in_mlflow) for count in counts.values()),
        changed=sum(kept[cell].outcome.to_json() != expected.outcomes[cell] for cell in whole),
        same_answer=answer_in(log.read_text()) == expected.answer,
        seconds=time.monotonic() - begun,
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


def answer_in(said: str) -> str:
    """The last answer that was printed; ``""`` where none was."""
    _, found, rest = said.rpartition("\ntarget add\n")
    return rest.partition("\nfigure ")[0].strip() if found else ""
