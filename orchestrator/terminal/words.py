"""A sweep at one moment in words: what the live view and plain lines have in common."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from orchestrator.report.wording import duration, number, time_range
from orchestrator.search.base import MixProgress
from orchestrator.terminal.snapshot import Counts, RunProgress, Snapshot

SOON_S = 1.0
"""A time left of less than this is over."""
LATE = "longer than foreseen"
BAR = 16
"""Characters of the bar of time."""


@dataclass(frozen=True)
class TrainingCell:
    """The runs of a mix and size that train now, by seed."""

    mix: str
    size: int
    runs: tuple[RunProgress, ...]

    @property
    def accuracies(self) -> str:
        """The last ones, seed by seed: ``0.35 0.80 -``."""
        return " ".join("-" if run.accuracy is None else f"{run.accuracy:.2f}" for run in self.runs)

    @property
    def share(self) -> float:
        """Of their steps, on average."""
        return sum(run.step / max(run.steps, 1) for run in self.runs) / len(self.runs)


def training_cells(in_flight: Iterable[RunProgress]) -> list[TrainingCell]:
    """What trains now, by mix and size."""
    by_cell: dict[tuple[str, int], list[RunProgress]] = {}
    for run in sorted(in_flight, key=lambda run: (run.mix, run.size, run.seed)):
        by_cell.setdefault((run.mix, run.size), []).append(run)
    return [TrainingCell(mix, size, tuple(runs)) for (mix, size), runs in by_cell.items()]


def status_line(snapshot: Snapshot) -> str:
    """A snapshot in one line of plain text."""
    parts = []
    for mix in snapshot.mixes:
        now = sum(run.mix == mix.mix for run in snapshot.in_flight)
        done = snapshot.counts.get(mix.mix, Counts()).total
        cells = training_cells(run for run in snapshot.in_flight if run.mix == mix.mix)
        scores = ", ".join(f"{cell.size}: {cell.accuracies} at {cell.share:.0%}" for cell in cells)
        training = f"{now} now ({scores})" if scores else f"{now} now"
        parts.append(f"{mix.mix} {transition_words(snapshot, mix)}, {done} done, {training}, {left_words(mix)} left")
    return "; ".join([*parts, times_words(snapshot), cost_words(snapshot)])


def transition_words(snapshot: Snapshot, mix: MixProgress) -> str:
    """The verdict so far; before any run what is still open: ``24-40``, ``above 24``, ``up to 40``, ``any``."""
    if mix.mix in snapshot.verdicts:
        return snapshot.verdicts[mix.mix].words
    if mix.low is not None and mix.high is not None:
        return f"{mix.low}-{mix.high}"
    if mix.low is not None:
        return f"above {mix.low}"
    return "any" if mix.high is None else f"up to {mix.high}"


def left_words(mix: MixProgress) -> str:
    """How many runs of a mix may still come: ``<=5``."""
    return "0" if mix.done else f"<={mix.runs_left}"


def bar_of_time(snapshot: Snapshot, *, ascii_only: bool) -> str:
    """How much of the time is gone, by the middle of the forecast; ``""`` without one, and once one has run out."""
    if snapshot.forecast is None or snapshot.forecast.middle_s < SOON_S or snapshot.late:
        return ""
    share = snapshot.elapsed_s / (snapshot.elapsed_s + snapshot.forecast.middle_s)
    full, empty = "#." if ascii_only else "█░"
    gone = round(share * BAR)
    return f"{full * gone}{empty * (BAR - gone)} {share:.0%}  "


def times_words(snapshot: Snapshot) -> str:
    """What is gone and what is left: ``3 min 20 s gone, about 6 min (4 to 14) left``."""
    return f"{duration(snapshot.elapsed_s)} gone, {_left(snapshot)}"


def _left(snapshot: Snapshot) -> str:
    """The time left as a range, or as a bound; one that has run out says so, and no more than what trains does."""
    forecast, bound_s = snapshot.forecast, snapshot.left_s
    if forecast is not None and forecast.middle_s >= SOON_S:
        said = f"{time_range(forecast.low_s, forecast.middle_s, forecast.high_s)} left"
        return f"{LATE}, {said}" if snapshot.late else said
    if forecast is not None and forecast.high_s >= SOON_S and not snapshot.late:
        return f"over any moment, or in up to {duration(forecast.high_s)}"
    if forecast is None and bound_s is None:
        return "time left unknown"
    if forecast is None and bound_s is not None and bound_s >= SOON_S:
        return f"at most {duration(bound_s)} left"
    if not snapshot.in_flight and not snapshot.late:
        return "over any moment"
    training_s = max((run.left_s for run in snapshot.in_flight if run.left_s is not None), default=0.0)
    known = f": up to {duration(training_s)} for what trains" if training_s >= SOON_S else ""
    return f"{LATE}{known}"


def cost_words(snapshot: Snapshot) -> str:
    """``1 h 05 min of training, 34% of the grid's; 12 300 steps a second in all``."""
    said = f"{duration(snapshot.trained_s)} of training"
    if snapshot.grid_s:
        said += f", {snapshot.trained_s / snapshot.grid_s:.0%} of the grid's"
    if snapshot.steps_per_s is not None:
        said += f"; {number(snapshot.steps_per_s)} steps a second in all"
    return said
