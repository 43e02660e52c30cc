"""The runs of a stored sweep, read from its journal and from the directories of the runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import lru_cache

from orchestrator.history.journal import (
    MOST_DAMAGE_MESSAGES,
    Ended,
    JournalEntry,
    Memory,
    memory_of,
    read_journal,
)
from orchestrator.history.sweeps import Sweep
from orchestrator.home.directories import SweepDirectory
from orchestrator.home.ownership import is_of_others
from orchestrator.home.run_files import read_run
from orchestrator.home.run_store import RunStore
from orchestrator.search.base import Request
from orchestrator.space.runs import Run
from orchestrator.system.reading_time import check_reading_time, reading_limited
from trainables.base import Status

MOST_REQUESTS = 2
"""Requests of an imported sweep that one run may answer. Two mixes may have the same tasks under different names."""


def recall_sweep(sweep: Sweep) -> Memory:
    """Return a sweep's state with its runs.

    Entries that do not fit the specification are omitted. ``damaged`` has a message for each of them, and for damaged
    lines and runs.
    """
    with reading_limited(is_of_others(sweep.files)):
        return _recalled(sweep, list(read_journal(sweep.files.journal)))


def _recalled(sweep: Sweep, lines: Sequence[JournalEntry | str]) -> Memory:
    files = sweep.files
    memory = memory_of(files, lines)
    read = lru_cache(maxsize=None)(read_run)  # Many lines of a forged journal may name one run with a long curve.
    damaged = list(memory.damaged)
    misfits: list[str] = []
    lost: list[str] = []
    runs: list[Run] = []
    is_imported = files.is_imported
    requests = Counter[str]()
    for line in _last_of_each_run(lines):
        directory = files.home.runs / line.key
        check_reading_time()
        outcome = line.failure or read(directory)
        if isinstance(outcome, str):
            damaged.append(f"{directory} is damaged ({outcome}), so the run is ignored")
            lost.append(line.key)
            continue
        try:
            # If the whole sweep is imported, so are its runs, and the journal says more. A failed run has no directory.
            origin = line.trained_for if is_imported or line.failure else _origin(sweep, line)
            requests[line.key] += 1
            if is_imported and requests[line.key] > MOST_REQUESTS:
                raise ValueError(f"it answers more than {MOST_REQUESTS} requests")
            run = sweep.run(line.key, line.request, outcome, origin, line.at)
            _check_tasks_of(run)
        # The family decides what it raises for a request that it does not understand.
        except (KeyError, IndexError, ValueError, TypeError, AttributeError, ArithmeticError) as error:
            misfits.append(
                f"{files.journal}: run {line.key} does not fit the sweep ({_reason(error)}), so it is ignored"
            )
        else:
            runs.append(run)
    blocks = tuple(block for block in memory.blocks if {block.mix, block.baseline} <= sweep.spec.mix_named.keys())
    if len(blocks) < len(memory.blocks):
        ignored = len(memory.blocks) - len(blocks)
        damaged.append(f"{files.journal}: {ignored} pairs have mixes that the sweep lacks, and are ignored")
    return replace(
        memory,
        ended=tuple(run for run in runs if run.request.until is None),
        trials=tuple(run for run in runs if run.request.until is not None),
        blocks=blocks,
        damaged=(*damaged, *misfits[:MOST_DAMAGE_MESSAGES], *_rest_of(misfits, files)),
        lost=tuple(lost),
    )


def _rest_of(misfits: Sequence[str], files: SweepDirectory) -> list[str]:
    """Return a message about the runs that have no message of their own."""
    more = len(misfits) - MOST_DAMAGE_MESSAGES
    return [f"{files.journal}: {more:,} more runs do not fit the sweep, and are ignored"] if more > 0 else []


def _origin(sweep: Sweep, line: Ended) -> str:
    """Return the sweep that a run was trained for.

    Use the sweep named in the journal. But if an archive has replaced the (damaged) run since, use the archive's.
    """
    store = RunStore(sweep.files.home, sweep.id)
    return (store.is_imported(line.key) and store.trained_for(line.key)) or line.trained_for


def _last_of_each_run(lines: Iterable[JournalEntry | str]) -> Iterable[Ended]:
    """Return the last line about each run, in order. A failed run that was trained again has several lines."""
    last: dict[tuple[str, Request], Ended] = {}
    for line in lines:
        if isinstance(line, Ended):
            last.pop((line.key, line.request), None)  # So that the run moves to the end of the order.
            last[line.key, line.request] = line
    return last.values()


def _check_tasks_of(run: Run) -> None:
    """Raise ``ValueError`` unless a run has a score for each of its tasks and no others."""
    tasks = set(run.config.mix.tasks)
    if run.outcome.status is not Status.FAILED and run.config.until is None:
        _check_tasks("accuracy", run.outcome.accuracy, tasks)
    for point in run.outcome.curve:
        _check_tasks("learning curve", point.accuracy, tasks)


def _check_tasks(what: str, scores: Mapping[str, float], tasks: AbstractSet[str]) -> None:
    if scores.keys() != tasks:
        raise ValueError(
            f"its {what} has the tasks {', '.join(sorted(scores)) or '(none)'} instead of {', '.join(sorted(tasks))}"
        )


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0][:200]
