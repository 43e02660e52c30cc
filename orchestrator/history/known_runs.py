"""The runs of a stored sweep, read from its journal and from the directories of the runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from orchestrator.history.journal import Ended, JournalEntry, Memory, memory_of, read_journal
from orchestrator.history.sweeps import Sweep
from orchestrator.home.run_files import read_run
from orchestrator.home.run_store import RunStore
from orchestrator.search.base import Request
from orchestrator.space.runs import Run
from trainables.base import Status


def recall_sweep(sweep: Sweep) -> Memory:
    """Read a sweep's journal and runs, and note damage. Leave out entries that do not fit its specification; they also
    count as damage."""
    files, spec = sweep.files, sweep.spec
    lines = list(read_journal(files.journal))
    memory = memory_of(files, lines)
    damaged = list(memory.damaged)
    misfits: list[str] = []
    lost: list[str] = []
    runs: list[Run] = []
    is_imported = files.is_imported
    for line in _last_of_each_run(lines):
        directory = files.home.runs / line.key
        outcome = line.failure or read_run(directory)
        if isinstance(outcome, str):
            damaged.append(f"{directory} is damaged ({outcome}), so the run is ignored")
            lost.append(line.key)
            continue
        try:
            origin = line.trained_for if is_imported or line.failure else _origin(sweep, line)
            run = sweep.run(line.key, line.request, outcome, origin, line.at)
            _check_tasks_of(run)
        except (KeyError, IndexError, ValueError, TypeError, AttributeError, ArithmeticError) as error:
            misfits.append(
                f"{files.journal}: run {line.key} does not fit the sweep ({_reason(error)}), so it is ignored"
            )
        else:
            runs.append(run)
    blocks = tuple(block for block in memory.blocks if {block.mix, block.baseline} <= spec.mix_named.keys())
    if len(blocks) < len(memory.blocks):
        damaged.append(f"{files.journal}: {len(memory.blocks) - len(blocks)} pairs are of other mixes and are ignored")
    return replace(
        memory,
        ended=tuple(run for run in runs if run.request.until is None),
        trials=tuple(run for run in runs if run.request.until is not None),
        blocks=blocks,
        damaged=(*damaged, *misfits),
        lost=tuple(lost),
    )


def _origin(sweep: Sweep, line: Ended) -> str:
    """Return the sweep that a run was trained for, as in the journal, unless an archive has brought the run since then,
    in the place of a damaged one."""
    store = RunStore(sweep.files.home, sweep.id)
    return (store.is_imported(line.key) and store.trained_for(line.key)) or line.trained_for


def _last_of_each_run(lines: Iterable[JournalEntry | str]) -> Iterable[Ended]:
    """Return the line that counts for each run, in order: the last one, if a failed run was trained again."""
    last: dict[tuple[str, Request], Ended] = {}
    for line in lines:
        if isinstance(line, Ended):
            last.pop((line.key, line.request), None)  # A later line also has a later place in the order.
            last[line.key, line.request] = line
    return last.values()


def _check_tasks_of(run: Run) -> None:
    """Raise ``ValueError`` unless the scores of a run are those of its tasks."""
    tasks = set(run.config.mix.tasks)
    if run.outcome.status is not Status.FAILED and run.config.until is None:
        _check_tasks("accuracy", run.outcome.accuracy, tasks)
    for point in run.outcome.curve:
        _check_tasks("learning curve", point.accuracy, tasks)


def _check_tasks(what: str, scores: Mapping[str, float], tasks: AbstractSet[str]) -> None:
    if scores.keys() != tasks:
        raise ValueError(
            f"its {what} is of {', '.join(sorted(scores)) or 'no task'}, not of {', '.join(sorted(tasks))}"
        )


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0][:200]
