"""Benchmark of the searchers: ``python -m tests.bench.search``.

Every method faces the same synthetic truths in the simulator. Prints a table, says which goals are met and writes
JSON and a plot to ``--out``. Costs are relative to a grid of 16 sizes x 3 seeds on the same truths (with stacks:
to that grid trained in stacks).
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.search.base import Problem, Request, Searcher
from orchestrator.search.evidence import points, stack_cost
from orchestrator.search.registry import make_searcher
from orchestrator.simulation import Cluster, simulate
from tests.simulation.grading import Grade, grade
from tests.simulation.truths import OTHER_SHAPES, Truth, TruthKind, draw, truths_world

RECORDED = Path(__file__).parent.parent / "data" / "add_vs_add_prod_2000_steps.csv"
SEED = 20250523
COARSE = tuple(int(size) for size in np.unique(np.geomspace(8, 256, 16).round().astype(int)))
FINE = tuple(int(size) for size in np.unique(np.geomspace(8, 256, 46).round().astype(int)))
GRID_SEEDS = 3
SEEDS = 8


@dataclass(frozen=True)
class Scenario:
    """One row of the table: a method on one kind of truths. ``by_fit`` estimates by least squares, as in the paper."""

    name: str
    method: str = "bayes"
    kind: TruthKind = TruthKind.MATCHED
    exponent: float = 1.75
    workers: int = 1
    stack: int = 1
    mixes: int = 1
    by_fit: bool = False
    jitter: float = 0.0

    @property
    def sizes(self) -> tuple[int, ...]:
        return COARSE if self.method == "grid" else FINE

    def problem(self) -> Problem:
        seeds = SEEDS if self.method == "bayes" else GRID_SEEDS
        return Problem(tuple(f"mix{place}" for place in range(self.mixes)), self.sizes, tuple(range(seeds)))

    def searcher(self) -> Searcher:
        return make_searcher(self.method, self.problem(), stack=self.stack)


@dataclass
class Row:
    """A scenario's results: one entry a truth in ``grades``, one a simulated sweep in ``wall`` and ``busy``."""

    scenario: Scenario
    grades: list[Grade] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    ask_s: list[float] = field(default_factory=list)


def scenarios() -> list[Scenario]:
    """The table of the benchmark."""
    rows = [
        Scenario("grid 16x3, least squares", "grid", by_fit=True),
        Scenario("grid 16x3, posterior", "grid"),
        Scenario("bisection", "bisection"),
        Scenario("bayes"),
        Scenario("bayes", exponent=0.9),
        Scenario("bayes", exponent=0.0),
        Scenario("bayes, stacks of 4", stack=4),
        Scenario("bayes, 8 workers", workers=8, jitter=0.2),
        Scenario("bayes, 8 workers, 8 mixes", workers=8, mixes=8, jitter=0.2),
    ]
    for kind in OTHER_SHAPES:
        rows += [Scenario(method, method, kind) for method in ("grid", "bisection", "bayes")]
    odd = (TruthKind.NON_MONOTONE, TruthKind.LEVELS_OFF, TruthKind.NEVER, TruthKind.ABOVE, TruthKind.BELOW)
    return rows + [Scenario(method, method, kind) for kind in odd for method in ("bisection", "bayes")]


def grid_cost(scenario: Scenario) -> float:
    """Cost of the reference grid for one mix, trained as the scenario trains."""
    load = stack_cost(GRID_SEEDS) if scenario.stack >= GRID_SEEDS else GRID_SEEDS
    return load * sum(math.exp(scenario.exponent * math.log(size)) for size in COARSE)


def measure(scenario: Scenario, truths: int) -> Row:
    """Run one scenario on its truths, the same for every scenario of that kind."""
    rng = np.random.default_rng([SEED, list(TruthKind).index(scenario.kind)])
    drawn = [draw(scenario.kind, Problem(("mix",), COARSE, (0,)), rng, key) for key in range(truths)]
    row = Row(scenario)
    for start in range(0, truths - scenario.mixes + 1, scenario.mixes):
        sweep(row, drawn[start : start + scenario.mixes], start)
    return row


def sweep(row: Row, truths: list[Truth], key: int) -> None:
    """One simulated sweep, added to the row."""
    scenario = row.scenario
    problem = scenario.problem()
    named = dict(zip(problem.mixes, truths, strict=True))
    cluster = Cluster(scenario.workers, scenario.stack, jitter=scenario.jitter)
    searcher = timed(scenario.searcher(), row.ask_s)
    world = truths_world(named, scenario.exponent)
    trace = simulate(searcher, world, cluster, np.random.default_rng([SEED, key]))
    row.wall.append(trace.makespan)
    row.busy.append(trace.busy)
    for mix, truth in named.items():
        cost = trace.mix_cost(mix) / grid_cost(scenario)
        runs = points(problem, trace.results, mix)
        row.grades.append(grade(runs, scenario.sizes, truth, cost, by_fit=scenario.by_fit))


def timed(searcher: Searcher, into: list[float]) -> Searcher:
    """The searcher, the processor time of each ``ask`` noted down."""
    ask: Callable[[int], list[Request]] = searcher.ask

    def measured(limit: int) -> list[Request]:
        start = time.process_time()
        wanted = ask(limit)
        into.append(time.process_time() - start)
        return wanted

    searcher.ask = measured  # type: ignore[method-assign]
    return searcher


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark and write its report."""
    from tests.bench.search_report import figures, plot, print_goals, print_table

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--truths", type=int, default=300, help="truths a scenario (default 300)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--only", default="", help="only scenarios whose name holds this")
    parser.add_argument("--kinds", default="", help="only truths of these kinds, a comma between (default: all)")
    parser.add_argument("--out", type=Path, default=Path("bench-results"), help="where JSON and plot go")
    given = parser.parse_args(arguments)
    kinds = [TruthKind(kind) for kind in given.kinds.split(",")] if given.kinds else list(TruthKind)
    chosen = [scenario for scenario in scenarios() if given.only in scenario.name and scenario.kind in kinds]
    started = time.monotonic()
    with ProcessPoolExecutor(given.jobs) as pool:
        rows = list(pool.map(measure, chosen, [given.truths] * len(chosen)))
    print_table(rows)
    print_goals(rows)
    given.out.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {
        "truths": given.truths,
        "seed": SEED,
        "seconds": time.monotonic() - started,
        "rows": [{"scenario": asdict(row.scenario), **asdict(figures(row))} for row in rows],
        "raw": [[asdict(found) for found in row.grades] for row in rows],
    }
    (given.out / "search.json").write_text(json.dumps(record, indent=1))
    plot(rows, given.out / "search.png")
    print(f"\nWritten to {given.out / 'search.json'} and {given.out / 'search.png'}")


if __name__ == "__main__":
    main()
