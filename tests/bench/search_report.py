"""The searchers' benchmark as a table, a list of goals and a plot."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from orchestrator.search.truths import Kind
from orchestrator.transition.types import Verdict
from tests.bench.search import Row

RIGHT = {Kind.NEVER: Verdict.ABOVE, Kind.ABOVE: Verdict.ABOVE, Kind.BELOW: Verdict.BELOW}
CENSORED = (Verdict.ABOVE, Verdict.BELOW, Verdict.PLATEAU)
NAN = float("nan")
RESAMPLES = 1000


def summary(row: Row) -> dict[str, float | list[float]]:
    """The figures of one row. Intervals are 90 % bootstrap intervals over truths."""
    # A truth without an estimate counts as an error of one: a factor of e.
    errors = np.array([1.0 if found.error is None else found.error for found in row.found])
    located = row.scenario.kind not in RIGHT
    held = [found.held for found in row.found if found.held is not None]
    widths = [found.width for found in row.found if found.width is not None]
    right = [found.verdict is RIGHT.get(row.scenario.kind) for found in row.found]
    wrong = [found.verdict in CENSORED for found in row.found]
    return {
        "error_median": float(np.median(errors)) if located else NAN,
        "error_median_interval": bootstrap(errors, np.median) if located else [NAN, NAN],
        "error_p90": float(np.quantile(errors, 0.9)) if located else NAN,
        "error_p90_interval": bootstrap(errors, lambda sample: np.quantile(sample, 0.9)) if located else [NAN, NAN],
        "cost": float(np.mean([found.cost for found in row.found])),
        "runs": float(np.mean([found.runs for found in row.found])),
        "coverage": float(np.mean(held)) if held else NAN,
        "width": float(np.mean(widths)) if widths else NAN,
        "declared": NAN if located else float(np.mean(right)),
        "false_alarms": float(np.mean(wrong)) if located else NAN,
        "wall": float(np.mean(row.wall)),
        "busy": float(np.mean(row.busy)),
        "ask_ms": 1000 * float(np.median(row.ask_s)),
    }


def bootstrap(values: np.ndarray, statistic: Callable[[np.ndarray], float]) -> list[float]:
    """The central 90 % of a statistic over resamples of the truths."""
    rng = np.random.default_rng(0)
    found = [statistic(rng.choice(values, len(values))) for _ in range(RESAMPLES)]
    return [float(np.quantile(found, 0.05)), float(np.quantile(found, 0.95))]


def print_table(rows: list[Row]) -> None:
    """One line a scenario. Wall clock in units of one run."""
    print(
        f"{'method':26s} {'truths':12s} {'cost~n^':>7s} {'error median':>20s} {'p90':>20s} {'cost':>6s} {'runs':>5s}"
        f" {'cover':>6s} {'width':>6s} {'found':>6s} {'false':>6s} {'wall':>6s} {'busy':>5s} {'ask ms':>6s}"
    )
    for row in rows:
        figures = summary(row)
        scenario = row.scenario
        print(
            f"{scenario.name:26s} {scenario.kind.value:12s} {scenario.exponent:7.2f}"
            f" {_spread(figures, 'error_median'):>20s} {_spread(figures, 'error_p90'):>20s}"
            f" {_text(figures, 'cost', 3):>6s} {_text(figures, 'runs', 1):>5s} {_text(figures, 'coverage', 2):>6s}"
            f" {_text(figures, 'width', 2):>6s} {_text(figures, 'declared', 2):>6s}"
            f" {_text(figures, 'false_alarms', 3):>6s} {_text(figures, 'wall', 1):>6s} {_text(figures, 'busy', 2):>5s}"
            f" {_text(figures, 'ask_ms', 1):>6s}"
        )


def _text(figures: dict[str, float | list[float]], name: str, digits: int) -> str:
    value = figures[name]
    return "-" if not isinstance(value, float) or math.isnan(value) else f"{value:.{digits}f}"


def _spread(figures: dict[str, float | list[float]], name: str) -> str:
    interval = figures[f"{name}_interval"]
    if not isinstance(interval, list) or math.isnan(interval[0]):
        return "-"
    return f"{_text(figures, name, 3)} [{interval[0]:.3f}, {interval[1]:.3f}]"


@dataclass(frozen=True)
class Goal:
    """A figure that one row has to reach: at most, or at least, ``bound``."""

    name: str
    kind: Kind
    exponent: float
    figure: str
    bound: float
    at_least: bool = False


def goals() -> list[Goal]:
    """What the searchers are held to."""
    found: list[Goal] = []
    for exponent, cost, median, p90 in ((1.75, 1 / 6, 0.04, 0.13), (0.9, 1 / 4, 0.05, 0.16), (0.0, 1 / 3, 0.05, 0.16)):
        found += _located("bayes", exponent, cost, median, p90)
    found += _located("bayes, stacks of 4", 1.75, 1 / 5, 0.05, 0.15)
    found += _located("bayes, 8 workers", 1.75, 0.28, 0.05, 0.16)
    many = "bayes, 8 workers, 8 mixes"
    found += [
        Goal(many, Kind.MATCHED, 1.75, "cost", 1 / 6),
        Goal(many, Kind.MATCHED, 1.75, "busy", 0.9, at_least=True),
    ]
    for name in ("grid 16x3, posterior", "bisection", "bayes"):
        found.append(Goal(name, Kind.MATCHED, 1.75, "coverage", 0.85, at_least=True))
        found.append(Goal(name, Kind.MATCHED, 1.75, "coverage", 0.98))
    for name in ("grid", "bisection", "bayes"):
        found.append(Goal(name, Kind.MISSPECIFIED, 1.75, "coverage", 0.85, at_least=True))
    for kind in RIGHT:
        found.append(Goal("bayes", kind, 1.75, "declared", 0.95, at_least=True))
        found.append(Goal("bayes", kind, 1.75, "cost", 1 / 4))
    found.append(Goal("bayes", Kind.MATCHED, 1.75, "false_alarms", 0.01))
    found.append(Goal("bayes", Kind.MATCHED, 1.75, "ask_ms", 20))
    return found


def _located(name: str, exponent: float, cost: float, median: float, p90: float) -> list[Goal]:
    figures = (("cost", cost), ("error_median", median), ("error_p90", p90))
    return [Goal(name, Kind.MATCHED, exponent, figure, bound) for figure, bound in figures]


def print_goals(rows: list[Row]) -> None:
    """Which goals are met. The wall clock of eight workers is held against that of one."""
    figures = {(row.scenario.name, row.scenario.kind, row.scenario.exponent): summary(row) for row in rows}
    print("\ngoals")
    for goal in goals():
        known = figures.get((goal.name, goal.kind, goal.exponent))
        if known is None:
            continue
        value = known[goal.figure]
        assert isinstance(value, float)
        met = value >= goal.bound if goal.at_least else value <= goal.bound
        sign = ">=" if goal.at_least else "<="
        print(
            f"  {'met   ' if met else 'MISSED'} {goal.name}, {goal.kind.value}, cost~n^{goal.exponent}:"
            f" {goal.figure} {value:.3f} {sign} {goal.bound:.3f}"
        )
    one, many = (figures.get((name, Kind.MATCHED, 1.75)) for name in ("bayes", "bayes, 8 workers"))
    if one is not None and many is not None:
        share = float(many["wall"]) / float(one["wall"])  # type: ignore[arg-type]
        word = "met   " if share <= 1 / 3 else "MISSED"
        print(f"  {word} 8 workers on one mix: wall clock {share:.3f} of one worker's <= 0.333")


def plot(rows: list[Row], path: Path) -> None:
    """Error against cost, one mark a scenario with a transition to find."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    for row in rows:
        if row.scenario.kind not in (Kind.MATCHED, Kind.MISSPECIFIED):
            continue
        figures = summary(row)
        low, high = figures["error_median_interval"]  # type: ignore[misc]
        middle = float(figures["error_median"])  # type: ignore[arg-type]
        label = f"{row.scenario.name}, {row.scenario.kind.value}, cost~n^{row.scenario.exponent}"
        axes.errorbar(
            [float(figures["cost"])],  # type: ignore[arg-type]
            [middle],
            yerr=[[middle - low], [high - middle]],
            marker="o",
            linestyle="",
            label=label,
        )
    axes.set(xscale="log", xlabel="cost / grid's", ylabel="median |ln(estimate / truth)|")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=6)
    figure.savefig(path, dpi=150)
    plt.close(figure)
