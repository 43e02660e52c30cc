"""Whether the runs whose similarities are shown hold a structure, by the probe ``separation``: a line a run."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.report.answer import Answer
from orchestrator.report.panels import pairs
from orchestrator.report.probes import CHANCE, PREFIX
from orchestrator.store.probed import numbers_of
from orchestrator.store.records import RunRecord

SEPARATION = f"{PREFIX}separation/"
BEYOND_CHANCE = 0.05
"""A score is called beyond chance where at most this share of random orders of the items score as high."""


def structure_lines(answer: Answer, runs: Sequence[RunRecord]) -> tuple[str, ...]:
    """For each run shown below or above a transition what the probe ``separation`` found in it, the least likely by
    chance first. Runs that it did not look at have no line."""
    shown = ((pair.mix, side, getattr(pair, side)) for pair in pairs(answer, runs) for side in ("below", "above"))
    lines = []
    for mix, side, run in shown:
        scores = _scores(run) if run is not None else []
        if scores:
            where = f"{mix}, {side}: {answer.size_axis} {run.config.size}, seed {run.config.seed}"
            lines.append(f"{where}: {_judged(scores)}")
    return tuple(lines)


def _scores(run: RunRecord) -> list[tuple[float, str, float]]:
    """``(p, name, score)`` of each of the probe's scores, the smallest p first."""
    numbers = {name.removeprefix(SEPARATION): value for name, value in numbers_of(run.directory).items()}
    return sorted(
        (chance, name, numbers[name]) for name in numbers if (chance := numbers.get(name + CHANCE)) is not None
    )


def _judged(scores: Sequence[tuple[float, str, float]]) -> str:
    said = [f"{name} {score:.2f} (p {chance:.2g})" for chance, name, score in scores]
    clear = sum(chance <= BEYOND_CHANCE for chance, _, _ in scores)
    if not clear:
        return f"nothing beyond chance; {', '.join(said)}"
    rest = f"; not {', '.join(said[clear:])}" if said[clear:] else ""
    return f"beyond chance {', '.join(said[:clear])}{rest}"
