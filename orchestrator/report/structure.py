"""Whether the runs whose similarities are shown hold a structure, by the probe ``separation``: a line a run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from orchestrator.report.answer import Answer
from orchestrator.report.panels import pairs
from orchestrator.report.probes import CHANCE, PREFIX
from orchestrator.store.probed import numbers_of
from orchestrator.store.records import RunRecord
from trainables.base import Family
from trainables.probes.separation import SHUFFLES

SEPARATION = f"{PREFIX}separation/"
BEYOND_CHANCE = 0.05
"""A score is called beyond chance where at most this share of random orders of the items score as high."""
ERRORS = 3.0
"""Standard errors by which a share of random orders may lie above what it would be of all orders."""
Score = tuple[float, str, float]
"""``(p, name, score)``."""


def structure_lines(answer: Answer, runs: Sequence[RunRecord], family: Family) -> tuple[str, ...]:
    """For each run shown below or above a transition what the probe ``separation`` found in it, the least likely by
    chance first. Runs that it did not look at have no line."""
    groupings = family.groupings()
    least = {name: smallest_chance(labels) for name, labels in groupings.items()}
    items = f"{max(map(len, groupings.values()), default=0)} {answer.words.item}s"
    shown = ((pair.mix, side, getattr(pair, side)) for pair in pairs(answer, runs) for side in ("below", "above"))
    lines = []
    for mix, side, run in shown:
        scores = _scores(run) if run is not None else []
        if scores:
            where = f"{mix}, {side}: {answer.size_axis} {run.config.size}, seed {run.config.seed}"
            lines.append(f"{where}: {_judged(scores, least, items)}")
    return tuple(lines)


def smallest_chance(labels: Sequence[int]) -> float:
    """The share of all orders of the items that group them as ``labels`` [n] do: no p of that grouping is smaller."""
    sizes = Counter(labels).values()
    alike = math.prod(map(math.factorial, Counter(sizes).values()))
    return math.prod(map(math.factorial, sizes)) * alike / math.factorial(len(labels))


def _scores(run: RunRecord) -> list[Score]:
    """The probe's scores, the smallest p first."""
    numbers = {name.removeprefix(SEPARATION): value for name, value in numbers_of(run.directory).items()}
    return sorted(
        (chance, name, numbers[name]) for name in numbers if (chance := numbers.get(name + CHANCE)) is not None
    )


def _judged(scores: Sequence[Score], least: Mapping[str, float], items: str) -> str:
    clear = [each for each in scores if each[0] <= BEYOND_CHANCE]
    highest = [each for each in scores if each not in clear and _is_highest(each, least)]
    rest = [each for each in scores if each not in clear and each not in highest]
    said = [f"beyond chance {_listed(clear)}"] if clear else []
    said += [f"as high as {items} can score, too few to exclude chance: {_listed(highest)}"] if highest else []
    said += [f"{'not' if said else 'nothing beyond chance:'} {_listed(rest)}"] if rest else []
    return "; ".join(said)


def _is_highest(score: Score, least: Mapping[str, float]) -> bool:
    """Whether no order of the items scores higher, as far as so many random ones say."""
    chance, name, _ = score
    smallest = least.get(name, 0.0)
    return chance <= smallest + ERRORS * math.sqrt(smallest * (1 - smallest) / SHUFFLES)


def _listed(scores: Sequence[Score]) -> str:
    return ", ".join(f"{name} {score:.2f} (p {chance:.2g})" for chance, name, score in scores)
