"""A sweep at one moment, as plain values: what the live view shows, and what is exported to whoever monitors it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orchestrator.search.base import MixProgress
from orchestrator.simulation.remaining import Remaining


@dataclass(frozen=True)
class RunProgress:
    """A run in training. ``accuracy`` is the target's at its last evaluation, None before the first; ``left_s`` the
    time it still takes at most, None while that is unknown."""

    mix: str
    size: int
    seed: int
    step: int
    steps: int
    accuracy: float | None
    left_s: float | None = None


@dataclass(frozen=True)
class Counts:
    """How a mix's runs ended so far."""

    finished: int = 0
    diverged: int = 0
    failed: int = 0

    @property
    def total(self) -> int:
        return self.finished + self.diverged + self.failed


@dataclass(frozen=True)
class Verdict:
    """What a mix's runs say so far: the transition as the answer's table words it, the ``line`` that the answer will
    have, with the seeds that learned, and whether a transition was ``found``."""

    words: str
    line: str
    found: bool


@dataclass(frozen=True)
class Snapshot:
    """A sweep at one moment.

    ``posteriors`` holds, for a mix with runs, the probability that its transition lies at each of the sizes (above the
    one before it) and, last, beyond all of them, ``verdicts`` what is said of it. ``left_s`` is the most time left at
    the rate so far, ``forecast`` a range of it, ``late`` whether an earlier range has run out while nothing ended.
    ``trained_s`` is the training time spent so far, summed over runs,
    ``grid_s`` what every size with every seed would take, None while that is unknown; ``steps_per_s`` counts optimizer
    steps of all runs together over the last minute.
    """

    size_axis: str
    sizes: tuple[int, ...]
    mixes: tuple[MixProgress, ...]
    counts: Mapping[str, Counts] = field(default_factory=dict)
    in_flight: tuple[RunProgress, ...] = ()
    elapsed_s: float = 0.0
    left_s: float | None = None
    trained_s: float = 0.0
    grid_s: float | None = None
    steps_per_s: float | None = None
    posteriors: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    forecast: Remaining | None = None
    late: bool = False
    warnings: tuple[str, ...] = ()
