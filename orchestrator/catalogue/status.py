"""The progress of a sweep, mix by mix: plain values for a table or for other programs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from orchestrator.catalogue.reading import StoredSweep
from orchestrator.cost import Cost, cost_of
from orchestrator.home.journal import State
from orchestrator.home.sweeps import Unreadable
from orchestrator.report.answer import MixAnswer
from orchestrator.report.rows import Row, targets
from orchestrator.report.words.transitions import verdict_line
from orchestrator.search.base import MixProgress, Request
from orchestrator.space.evidence import searcher_of
from orchestrator.terminal.snapshot import by_size
from trainables.base import Words


@dataclass(frozen=True)
class RunStatus:
    """One run. ``step`` is the last one reported; ``accuracy`` is the target's at its last evaluation or at its end."""

    key: str
    mix: str
    size: int
    seed: int
    status: str
    step: int
    accuracy: float | None


@dataclass(frozen=True)
class MixStatus:
    """One mix. ``done`` counts the runs that its transition rests on; ``learned`` ones learned the target;
    ``left`` is the most that may still come (None once the sweep has ended); ``transition``, ``parameters`` and
    ``words`` are text; ``posterior`` is the probability of the transition at each size (above the one before it) and,
    last, beyond all; empty before any run."""

    mix: str
    done: int
    learned: int
    diverged: int
    failed: int
    training: int
    left: int | None
    note: str
    verdict: str
    transition: str
    parameters: str
    value: float | None
    low: float | None
    high: float | None
    posterior: tuple[float, ...]
    words: str


@dataclass(frozen=True)
class SweepStatus:
    """A sweep as ``status`` shows it. Times are ISO 8601 in UTC; ``damage`` says what could not be read;
    ``words`` are the family's."""

    id: str
    question: str
    profile: str
    state: State
    begun: str
    changed: str
    size_axis: str
    sizes: tuple[int, ...]
    target: str
    words: Words
    mixes: tuple[MixStatus, ...]
    runs: tuple[RunStatus, ...]
    cost: Cost
    damage: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; names are kept from version to version."""
        values = {name: value for name, value in asdict(self).items() if name != "words"}
        return values | {"state": self.state.value, "cost": asdict(self.cost) | {"share": self.cost.share}}


def status_of(stored: StoredSweep) -> SweepStatus:
    """The progress of a sweep."""
    spec, found = stored.spec, stored.answer
    progress = _progress(stored)
    return SweepStatus(
        id=stored.id,
        question=spec.question,
        profile=spec.profile,
        state=stored.state,
        begun=stored.begun.isoformat(timespec="seconds"),
        changed=stored.changed.isoformat(timespec="seconds"),
        size_axis=spec.size_axis,
        sizes=spec.sizes,
        target=spec.target,
        words=found.words,
        mixes=tuple(
            _mix(stored, mix, row, progress.get(mix.mix)) for mix, row in zip(found.mixes, targets(found), strict=True)
        ),
        runs=tuple(_runs(stored)),
        cost=cost_of(spec, stored.runs),
        damage=stored.damage,
    )


def unreadable_json(found: Unreadable) -> dict[str, Any]:
    """A sweep that cannot be read, as plain JSON values."""
    return {"id": found.id, "state": "unreadable", "why": found.why}


def _mix(stored: StoredSweep, mix: MixAnswer, row: Row, progress: MixProgress | None) -> MixStatus:
    found = mix.target.transition
    running = stored.state is State.RUNNING
    return MixStatus(
        mix=mix.mix,
        done=mix.runs,
        learned=mix.learned,
        diverged=mix.diverged,
        failed=mix.failed,
        training=sum(run.config.label == mix.mix for run in stored.training) if running else 0,
        left=None if progress is None else progress.runs_left,
        note="" if progress is None else progress.note,
        verdict=found.verdict.value,
        transition=row.size_words,
        parameters=row.count_words,
        value=found.relative.value,
        low=found.relative.low,
        high=found.relative.high,
        posterior=() if found.density is None else by_size(found.density, stored.spec.sizes),
        words=verdict_line(stored.answer, mix),
    )


def _runs(stored: StoredSweep) -> list[RunStatus]:
    """The runs that ended, then those in training or interrupted."""
    target, word = stored.spec.target, "training" if stored.state is State.RUNNING else "interrupted"
    ended = [(run.key, run.config, run.outcome.status.value, run.outcome.steps, run.outcome) for run in stored.runs]
    begun = [(run.key, run.config, word, run.step, run.curve[-1] if run.curve else None) for run in stored.training]
    return [
        RunStatus(
            *(key, config.label, config.size, config.seed),
            *(status, step, None if scored is None else scored.accuracy.get(target)),
        )
        for key, config, status, step, scored in [*ended, *begun]
    ]


def _progress(stored: StoredSweep) -> dict[str, MixProgress]:
    """The searcher's progress by mix, none for a finished sweep."""
    if stored.state is State.FINISHED:
        return {}
    spec = stored.spec
    ended = [
        (Request(run.config.label, run.config.size, run.config.seed), run.outcome)
        for run in stored.runs
        if run.config.label in spec.mix_named  # The others are phases that they go on from.
    ]
    searcher = searcher_of(spec, ended, stored.blocks)
    for mix in stored.stopped:
        searcher.stop(mix)
    return {each.mix: each for each in searcher.progress()}
