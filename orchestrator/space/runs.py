"""The runs of a sweep: what was trained, how it ended, and what it counts for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.search.base import Observation, Request
from orchestrator.search.results import learned_runs
from orchestrator.space.observations import observe, problem_of, scores, typical_seconds
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.evidence import ERROR, LEARNED, Block, Comparison, compare, counted
from orchestrator.transition.types import Point
from trainables.base import Evaluation, Outcome, RunConfig, Status

IMPORTED = "(imported)"
"""End of :attr:`Run.found_in` for a run that came with an archive."""


@dataclass(frozen=True)
class Run:
    """A run that ended.

    Attributes:
        request: What the sweep asked for. It says whether the run is evidence.
        config: What was trained.
        key: Hash of everything that changes the result.
        directory: Its files. A failed run has none on disk.
        found_in: "" if the run was trained for this entry of the journal, otherwise the id of the sweep that it was
            trained for, which can be this sweep if two arms share the run.
        at: When it ended or was found (ISO 8601), or "".
    """

    request: Request
    config: RunConfig
    outcome: Outcome
    key: str = ""
    directory: Path = Path()
    found_in: str = ""
    at: str = ""

    @property
    def is_imported(self) -> bool:
        """True if the run came with an archive, perhaps of somebody else."""
        return self.found_in.endswith(IMPORTED)

    @property
    def is_evidence(self) -> bool:
        """True if the run counts for an answer: :attr:`orchestrator.search.base.Request.is_evidence`."""
        return self.request.is_evidence

    @property
    def is_typical(self) -> bool:
        """True if the model and its training are typical of the size: evidence that was trained to its end."""
        return self.is_evidence and self.outcome.status is Status.FINISHED

    def point(self, task: str) -> Point | None:
        """Return the run as a point for a task, or None if it failed."""
        config, result = self.config, scores(self.outcome, task)
        return None if result is None else Point(config.size, config.seed, *result, self.outcome.settled(task))


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


def observer_of(spec: SweepSpec) -> Callable[[Run], Observation | None]:
    """Return a function that converts a run that ended into an observation for the sweep's searcher."""
    family, device = spec.make_family(), spec.resources.device

    def observe_run(run: Run) -> Observation | None:
        return observe(run.outcome, spec.target, typical_seconds(family, device, run.config, run.outcome))

    return observe_run


def comparisons(spec: SweepSpec, blocks: Sequence[Block], runs: Iterable[Run]) -> dict[str, Comparison]:
    """Return the comparisons of a sweep by mix, from its blocks and the runs that are evidence. Baselines and
    methods without blocks have none."""
    observations = {run.request: observe(run.outcome, spec.target) for run in runs}
    error = spec.search.settings.get("error", ERROR)
    learned = learned_runs(observations, spec.search.settings.get("learned", LEARNED))
    family = spec.make_family()
    own = {
        mix: [block for block in blocks if (block.mix, block.baseline) == (mix, baseline)]
        for mix, baseline in problem_of(spec).comparisons
    }
    return {
        mix: compare(counted(asked, learned), family.parameters, error, spec.looks.get(mix, 0))
        for mix, asked in own.items()
        if asked
    }
