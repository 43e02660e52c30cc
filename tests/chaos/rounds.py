"""A sweep with several faults, ``--resume`` until it has an answer; a comparison of its results, and a summary."""

from __future__ import annotations

import io
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
from rich.console import Console

from orchestrator.home.directories import Home
from orchestrator.home.seals import flaw_of
from orchestrator.space.spec import SweepSpec
from orchestrator.sweep.run_options import RunOptions
from orchestrator.sweep.several_sweeps import run_sweep
from tests.chaos.disturbed import Disturbed
from tests.chaos.faults import FAULTS, in_time
from tests.chaos.ground import OwnRay
from tests.chaos.paced import MIXES, SIZES, SPACE, write_space
from tests.chaos.program import journalled
from tests.sweep.sweeps import ended

PACE_S = 0.15
"""Seconds between two evaluations, chosen so that about half of all faults hit a run in its middle."""
ROUNDS_A_SWEEP = 8
SEEDS = 4
RUNS = len(MIXES) * len(SIZES) * SEEDS
"""Runs of a sweep: three for each fault, at most two of which end before the next fault."""
EARLY = 0.5
"""Share of the ``any_time`` faults that happen before the sweep has recovered from the previous fault."""
MOST_TOGETHER = 3
"""Maximum number of faults before a sweep recovers."""
START_S = 12.0
"""Longest delay between a fault and an early fault, in seconds: about the time of a restart on an idle machine."""
SPARE = 4
"""Minimum number of remaining runs for another fault, which could otherwise come after the sweep's end."""
Cell = tuple[str, int, int]


@dataclass(frozen=True)
class Truth:
    """Results of a sweep without faults: its outcomes by mix, size and seed, and its printed answer."""

    outcomes: dict[Cell, dict[str, Any]]
    answer: str


class Round(NamedTuple):
    """A fault. ``seen`` is True if it happened and had its effect, ``early`` if the sweep was recovering from another
    fault."""

    fault: str
    seen: bool
    early: bool


@dataclass(frozen=True)
class Counted:
    """Damage to a sweep with faults.

    ``lost`` runs have no good outcome, lack whole files or are not in MLflow; ``doubled`` runs are in the journal or in
    MLflow more than once; ``changed`` runs have another outcome. ``same_answer`` means identical printed answers.
    """

    lost: int
    doubled: int
    changed: int
    same_answer: bool

    @property
    def good(self) -> bool:
        return self.same_answer and not (self.lost or self.doubled or self.changed)


def truth(directory: Path, **changes: Any) -> Truth:
    """Run a sweep without faults in this process, at any pace; ``changes`` replace fields of its search space."""
    console = Console(file=io.StringIO(), width=200)
    spec = SweepSpec.model_validate(SPACE | {"seeds": SEEDS} | changes)
    run_sweep(spec, RunOptions(home=directory, engine="local"), console)
    output = console.file
    assert isinstance(output, io.StringIO)
    home = Home(directory)
    entries = [item for sweep_id in home.sweep_ids() for item in ended(directory, sweep_id)]
    assert len(entries) == len(spec.cells) * spec.seeds
    assert [item.outcome.error for item in entries if item.outcome.error] == []
    outcomes = {(item.request.mix, item.request.size, item.request.seed): item.outcome.to_json() for item in entries}
    answer = answer_in(output.getvalue())
    assert answer, "an undisturbed sweep has an answer"
    return Truth(outcomes, answer)


def play(
    faults: Sequence[str],
    ground: OwnRay,
    expected: Truth,
    directory: Path,
    rng: np.random.Generator,
    played: Callable[[Round], object],
) -> Counted:
    """Run a sweep with these faults, its home in ``directory / "disk"`` and its output in ``directory / "log"``.

    ``played`` is called with each fault. Faults for which too few runs remain are skipped. Raises :class:`LostError` if
    the sweep cannot continue.
    """
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
    """Group the faults in order; the faults of a group happen before the sweep has recovered from the first of them."""
    groups: list[list[str]] = []
    for fault in faults:
        if groups and len(groups[-1]) < MOST_TOGETHER and FAULTS[fault].any_time and rng.random() < EARLY:
            groups[-1].append(fault)
        else:
            groups.append([fault])
    return groups


def _make(faults: Sequence[str], sweep: Disturbed, rng: np.random.Generator) -> list[Round]:
    """Make these faults, each during the restart after the previous fault, and wait for another run and all
    messages."""
    runs, made = sweep.runs, list[tuple[str, bool, int]]()
    for fault in faults:
        if made:
            sweep.go_on_until(runs)
            _was_reported(sweep, *made[-1])  # The next fault may end the process that would report this fault.
            time.sleep(float(rng.uniform(0, START_S)))
        log_length = sweep.log_length
        try:
            happened = FAULTS[fault].make(sweep, rng)
        except psutil.NoSuchProcess:  # The process ended by itself before the fault.
            happened = False
        made.append((fault, happened, log_length))
    sweep.go_on_for_a_run()
    return [Round(item[0], _was_reported(sweep, *item), early=place > 0) for place, item in enumerate(made)]


def _was_reported(sweep: Disturbed, fault: str, happened: bool, log_length: int) -> bool:
    """Return True if a fault happened and the program printed its message."""
    return happened and in_time(partial(sweep.logged, FAULTS[fault].message, log_length))


def count(home: Path, log: Path, expected: Truth) -> Counted:
    """Compare the results in a home with the expected results."""
    [sweep_id] = Home(home).sweep_ids()
    stored = {(item.request.mix, item.request.size, item.request.seed): item for item in ended(home, sweep_id)}
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
    """Return the keys of the runs in MLflow's record, without deleted runs."""
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
    """Return the last printed answer up to its empty line, or ``""``; the text below differs between interfaces."""
    _, result, rest = output.rpartition(": size at ")
    return rest.partition("\n")[2].partition("\n\n")[0].strip() if result else ""
