"""The runs of a sweep: what was trained, how it ended, and what it counts for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.jobs.timetable import typical_seconds
from orchestrator.search.base import Request
from orchestrator.search.pairs import Pairs
from orchestrator.search.reachable_pairs import Shortfall
from orchestrator.search.results import learned_runs
from orchestrator.space.problem import problem_of, searcher_of
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.comparison import Comparison, compare
from orchestrator.transition.evidence import ERROR, LEARNED, Block, counted_pairs
from orchestrator.transition.types import Point
from trainables.base import Evaluation, Outcome, RunConfig, Status

IMPORTED = "(imported)"
"""End of :attr:`Run.trained_for` for a run that came with an archive."""


@dataclass(frozen=True)
class Run:
    """A run that ended.

    Attributes:
        request: What the sweep asked for. It says whether the run is evidence.
        config: What was trained.
        key: Hash of everything that changes the result.
        directory: Its files. A failed run has none on disk.
        trained_for: "" if the run was trained for this entry of the journal, otherwise the id of the sweep that it was
            trained for, which can be this sweep if two arms share the run.
        at: When it ended or was found (ISO 8601), or "".
    """

    request: Request
    config: RunConfig
    outcome: Outcome
    key: str = ""
    directory: Path = Path()
    trained_for: str = ""
    at: str = ""

    @property
    def is_imported(self) -> bool:
        """True if the run came with an archive, perhaps of another user."""
        return self.trained_for.endswith(IMPORTED)

    @property
    def is_evidence(self) -> bool:
        """True if the run counts for an answer: it was requested as evidence (:attr:`Request.is_evidence`). A failed
        run also counts, but has no :meth:`point`."""
        return self.request.is_evidence

    @property
    def is_typical(self) -> bool:
        """True if the model and its training are typical of the size: evidence that was trained to its end."""
        return self.is_evidence and self.outcome.status is Status.FINISHED

    def point(self, task: str) -> Point | None:
        """Return what the run shows about a task, for searchers and answers, or None if it failed. A diverged run did
        not learn: it is at its floor."""
        outcome = self.outcome
        if outcome.status is Status.FAILED:
            return None
        floor = outcome.floor[task]
        accuracy = floor if outcome.status is Status.DIVERGED else outcome.accuracy[task]
        seconds = outcome.measures.get("seconds", 0.0)
        return Point(self.config.size, self.config.seed, accuracy, floor, outcome.settled(task), seconds)


@dataclass(frozen=True)
class RunInTraining:
    """A run that has begun but not ended.

    Attributes:
        curve: Evaluations so far, the last of them last. The driver of a sweep has only the last.
        steps: Largest number of steps of the run, or 0 if it is unknown.
        left_s: Seconds left at most, or None if that is unknown.
    """

    request: Request
    config: RunConfig
    key: str = ""
    curve: tuple[Evaluation, ...] = ()
    steps: int = 0
    left_s: float | None = None

    @property
    def step(self) -> int:
        """Step of the last evaluation, or 0 before the first."""
        return self.curve[-1].step if self.curve else 0

    def accuracy(self, task: str) -> float | None:
        """Return the last accuracy on a task, or None before the first evaluation."""
        return self.curve[-1].accuracy.get(task) if self.curve else None


def search_points(spec: SweepSpec) -> Callable[[Run], Point | None]:
    """Return a function that says what a run shows the sweep's searcher.

    A search weighs sizes by what their runs cost. Measured seconds would make it request other runs on a busy machine,
    and on another one, so a family that knows the speed of a core predicts them
    (:func:`orchestrator.jobs.timetable.typical_seconds`).
    """
    family = spec.make_family()
    speed = family.typical_speed(spec.resources.device)

    def search_point(run: Run) -> Point | None:
        point = run.point(spec.target)
        if point is None or speed is None:
            return point
        trained = run.outcome.steps / family.steps(run.config)
        return replace(point, cost=trained * typical_seconds(family, speed, run.config))

    return search_point


def comparisons(spec: SweepSpec, blocks: Sequence[Block], runs: Iterable[Run]) -> dict[str, Comparison]:
    """Return the comparisons of a sweep by mix, from its blocks and the runs that are evidence. Baselines and
    methods without blocks have none."""
    results = {run.request: run.point(spec.target) for run in runs}
    error = spec.search.settings.get("error", ERROR)
    learned = learned_runs(results, spec.search.settings.get("learned", LEARNED))
    family = spec.make_family()
    blocks_of = {
        mix: [block for block in blocks if (block.mix, block.baseline) == (mix, baseline)]
        for mix, baseline in problem_of(spec).comparisons
    }
    return {
        mix: compare(counted_pairs(requested, learned), family.parameters, error, spec.looks.get(mix, 0))
        for mix, requested in blocks_of.items()
        if requested
    }


def shortfalls(spec: SweepSpec, blocks: Sequence[Block], runs: Iterable[Run]) -> dict[str, Shortfall]:
    """Return, by mix, why comparisons of a sweep cannot be decided any more within their budget.

    A comparison that could have been decided, and has used up its budget, is left out: it is simply undecided.
    """
    searcher = searcher_of(spec, blocks)
    if not isinstance(searcher, Pairs):  # Other methods have no budget that could run out.
        return {}
    point = search_points(spec)
    for run in runs:
        searcher.tell(run.request, point(run))
    shortfall_of = {mix: searcher.shortfall((mix, baseline)) for mix, baseline in searcher.problem.comparisons}
    return {mix: short for mix, short in shortfall_of.items() if short is not None and (short.room or short.from_start)}
