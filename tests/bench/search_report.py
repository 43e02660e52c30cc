"""The searchers' benchmark as a table, a list of goals and a plot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.bench.search import Row
from tests.simulation.grading import RIGHT, Spread, Summary, summarise
from tests.simulation.truths import OTHER_SHAPES, TruthKind

COVERED = 0.88
"""Share of 90 % intervals, at least, that hold the truth."""
WALL_SHARE = 1 / 3
"""The wall clock of eight workers on one mix, at most, against that of one."""


@dataclass(frozen=True)
class Figures:
    """The figures of one row: ``wall`` in units of one run, ``busy`` the share of the workers' time, ``ask_ms`` the
    median processor time of one ``ask``."""

    grades: Summary
    wall: float
    busy: float
    ask_ms: float


def figures(row: Row) -> Figures:
    """The figures of one row."""
    return Figures(
        summarise(row.scenario.kind, row.grades),
        float(np.mean(row.wall)),
        float(np.mean(row.busy)),
        1000 * float(np.median(row.ask_s)),
    )


def print_table(rows: list[Row]) -> None:
    """One line a scenario. Wall clock in units of one run."""
    print(
        f"{'method':26s} {'truths':12s} {'cost~n^':>7s} {'error median':>20s} {'p90':>20s} {'cost':>6s} {'runs':>5s}"
        f" {'cover':>6s} {'width':>6s} {'found':>6s} {'false':>6s} {'wall':>6s} {'busy':>5s} {'ask ms':>6s}"
    )
    for row in rows:
        scenario, found = row.scenario, figures(row)
        grades = found.grades
        print(
            f"{scenario.name:26s} {scenario.kind.value:12s} {scenario.exponent:7.2f}"
            f" {_spread(grades.error_median):>20s} {_spread(grades.error_p90):>20s}"
            f" {grades.cost:6.3f} {grades.runs:5.1f} {_text(grades.coverage):>6s} {_text(grades.width):>6s}"
            f" {_text(grades.declared):>6s} {_text(grades.false_alarms, 3):>6s}"
            f" {found.wall:6.1f} {found.busy:5.2f} {found.ask_ms:6.1f}"
        )


def _text(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _spread(spread: Spread | None) -> str:
    return "-" if spread is None else f"{spread.value:.3f} [{spread.low:.3f}, {spread.high:.3f}]"


@dataclass(frozen=True)
class Goal:
    """A figure that one row has to reach: at most, or at least, ``bound``."""

    name: str
    kind: TruthKind
    exponent: float
    figure: str
    bound: float
    at_least: bool = False


FIGURES: dict[str, Callable[[Figures], float | None]] = {
    "cost": lambda found: found.grades.cost,
    "error median": lambda found: None if found.grades.error_median is None else found.grades.error_median.value,
    "error p90": lambda found: None if found.grades.error_p90 is None else found.grades.error_p90.value,
    "coverage": lambda found: found.grades.coverage,
    "declared": lambda found: found.grades.declared,
    "false alarms": lambda found: found.grades.false_alarms,
    "busy": lambda found: found.busy,
    "ask ms": lambda found: found.ask_ms,
}
"""Figures that goals are about."""


def goals() -> list[Goal]:
    """The goals of the searchers."""
    found: list[Goal] = []
    for exponent, cost, median, p90 in ((1.75, 1 / 6, 0.04, 0.13), (0.9, 1 / 4, 0.05, 0.16), (0.0, 1 / 3, 0.05, 0.16)):
        found += _located("bayes", exponent, cost, median, p90)
    found += _located("bayes, stacks of 4", 1.75, 1 / 5, 0.05, 0.15)
    found += _located("bayes, 8 workers", 1.75, 0.28, 0.05, 0.16)
    many = "bayes, 8 workers, 8 mixes"
    found += [
        Goal(many, TruthKind.MATCHED, 1.75, "cost", 1 / 6),
        Goal(many, TruthKind.MATCHED, 1.75, "busy", 0.9, at_least=True),
    ]
    for name in ("grid 16x3, posterior", "bisection", "bayes"):
        found.append(Goal(name, TruthKind.MATCHED, 1.75, "coverage", COVERED, at_least=True))
        found.append(Goal(name, TruthKind.MATCHED, 1.75, "coverage", 0.98))
    for name in ("grid", "bisection", "bayes"):
        found += [Goal(name, kind, 1.75, "coverage", COVERED, at_least=True) for kind in OTHER_SHAPES]
    for kind in RIGHT:
        found.append(Goal("bayes", kind, 1.75, "declared", 0.95, at_least=True))
        if kind is not TruthKind.LEVELS_OFF:
            # That accuracy levels off, only the dearest sizes say.
            found.append(Goal("bayes", kind, 1.75, "cost", 1 / 4))
    found.append(Goal("bayes", TruthKind.MATCHED, 1.75, "false alarms", 0.01))
    found.append(Goal("bayes", TruthKind.MATCHED, 1.75, "ask ms", 20))
    return found


def _located(name: str, exponent: float, cost: float, median: float, p90: float) -> list[Goal]:
    bounds = (("cost", cost), ("error median", median), ("error p90", p90))
    return [Goal(name, TruthKind.MATCHED, exponent, figure, bound) for figure, bound in bounds]


def print_goals(rows: list[Row]) -> None:
    """Goals, met or missed. The wall clock of eight workers is held against that of one."""
    known = {(row.scenario.name, row.scenario.kind, row.scenario.exponent): figures(row) for row in rows}
    print("\ngoals")
    for goal in goals():
        found = known.get((goal.name, goal.kind, goal.exponent))
        value = None if found is None else FIGURES[goal.figure](found)
        if value is not None:
            met = value >= goal.bound if goal.at_least else value <= goal.bound
            what = f"{goal.name}, {goal.kind.value}, cost~n^{goal.exponent}: {goal.figure}"
            _print_goal(met, f"{what} {value:.3f} {'>=' if goal.at_least else '<='} {goal.bound:.3f}")
    one, many = (known.get((name, TruthKind.MATCHED, 1.75)) for name in ("bayes", "bayes, 8 workers"))
    if one is not None and many is not None:
        share = many.wall / one.wall
        what = "8 workers on one mix: wall clock / one worker's"
        _print_goal(share <= WALL_SHARE, f"{what} {share:.3f} <= {WALL_SHARE:.3f}")


def _print_goal(met: bool, words: str) -> None:
    print(f"  {'met   ' if met else 'MISSED'} {words}")


def plot(rows: list[Row], path: Path) -> None:
    """Error against cost, one mark a scenario with a transition to find."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    picture, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    for row in rows:
        grades = figures(row).grades
        if row.scenario.kind not in (TruthKind.MATCHED, *OTHER_SHAPES) or grades.error_median is None:
            continue
        error = grades.error_median
        label = f"{row.scenario.name}, {row.scenario.kind.value}, cost~n^{row.scenario.exponent}"
        spread = [[error.value - error.low], [error.high - error.value]]
        axes.errorbar([grades.cost], [error.value], yerr=spread, marker="o", linestyle="", label=label)
    axes.set(xscale="log", xlabel="cost / grid's", ylabel="median |ln(estimate / truth)|")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=6)
    picture.savefig(path, dpi=150)
    plt.close(picture)
