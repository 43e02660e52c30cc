"""Searchers and statistics on sweeps drawn from pools of real runs: coverage, and comparisons of what is the same.

    python -m tests.bench.drawn_sweeps --sweeps 200 --jobs 2            # do intervals hold the truth?
    python -m tests.bench.drawn_sweeps --same --sweeps 100 --jobs 2     # both mixes from one pool: true ratio 1
    python -m tests.bench.drawn_sweeps --truths --sweeps 50             # made-up truths at the laptop's sizes

A pool (tests/data/README.md) holds every run of many sweeps of the laptop profile; a recipe is a pool of its own. Each
run of a drawn sweep, on two workers, ends as some run of the pool at its mix and size, and costs what runs of that size
cost. The truth is where the pool's own mean, made to rise, passes 80 % of its asymptote; no curve is
assumed. With ``--same`` both mixes are drawn from one mix of a pool, as it is and reshaped; every decision is wrong.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from orchestrator.search.base import Observation, Problem, Request
from orchestrator.search.evidence import points
from orchestrator.simulation import Cluster, simulate
from orchestrator.space.evidence import searcher_of
from orchestrator.space.spaces import load_space
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.comparison import synergy
from orchestrator.transition.transition import transition
from orchestrator.transition.types import LEVEL, Doubt, Verdict
from tests.bench.machine import describe, write_json
from tests.bench.pool import Pool, recipes_of
from tests.simulation.truths import Truth, TruthKind
from tests.simulation.truths import draw as draw_truth

SPACE = "add_vs_add_prod"
DATA = Path(__file__).parent.parent / "data"
METHODS = ("bisection", "bayes")
WORKERS = 2
SEED = 20250523
FORMER, RECIPES = DATA / "add_vs_add_prod_laptop_runs.csv", DATA / "laptop_recipes_runs.csv"
RECORDED = DATA / "add_vs_add_prod_2000_steps.csv"
SEARCHED = {
    FORMER.name: ("search.max_cost=null", "search.precision=0.25", "search.worth=0.006"),
    RECORDED.name: ("search.max_cost=null",),
}
"""The laptop profile's search when a pool's sweeps were made, where it has changed since."""
FALLS_FROM = 18
RESHAPED = "start_0.2"


def _failing(seen: Observation, rng: np.random.Generator, share: float) -> Observation:
    if rng.random() >= share:
        return seen
    return replace(seen, accuracy=max(seen.floor + 0.03 * float(rng.normal()), 0.0))


def _lower(seen: Observation, share: float) -> Observation:
    return replace(seen, accuracy=min(seen.accuracy, seen.floor + share * (seen.accuracy - seen.floor)))


SHAPES: dict[str, Callable[[Observation, int, np.random.Generator], Observation]] = {
    "": lambda seen, size, rng: seen,
    "0.7 of the rise": lambda seen, size, rng: _lower(seen, 0.7),
    "0.85 of the rise": lambda seen, size, rng: _lower(seen, 0.85),
    "half fail from 18": lambda seen, size, rng: _failing(seen, rng, 0.5 * (size >= FALLS_FROM)),
    "0.3 fail anywhere": lambda seen, size, rng: _failing(seen, rng, 0.3),
}
"""Outcomes of runs of reshaped pools. Those but the first are drawn of the recipe :data:`RESHAPED`."""


@dataclass(frozen=True)
class Drawn:
    """One drawn sweep: seconds on :data:`WORKERS` workers, runs, and mix by mix the verdict and the interval. ``doubt``
    says why the two mixes were not told apart, empty if they were; ``cost`` is all runs' seconds."""

    seconds: float
    runs: int
    verdicts: dict[str, Verdict]
    intervals: dict[str, tuple[float | None, float | None]]
    doubt: Doubt = Doubt.NONE
    cost: float = 0.0

    def width(self, mix: str) -> float:
        """The width of a mix's interval in ln size, infinite where a side is open."""
        low, high = self.intervals[mix]
        return math.log(high / low) if low and high else math.inf

    def holds(self, mix: str, size: float) -> bool:
        """True if a mix's interval, of which something is known, holds the size."""
        low, high = self.intervals[mix]
        return (low is not None or high is not None) and (low or 0) <= size <= (high or math.inf)


@cache
def asked(path: Path, recipe: str, method: str, overrides: tuple[str, ...]) -> SweepSpec:
    """The laptop profile's sweep over the sizes of a pool, searched by a method."""
    sizes = sorted({size for _, size in pool_of(path, recipe).runs})
    own = SEARCHED.get(path.name, ()) if method == "bayes" else ()
    return load_space(SPACE, "laptop", [f"search.method={method}", f"sizes={sizes}", *own, *overrides])


@cache
def pool_of(path: Path, recipe: str) -> Pool:
    """A recipe's pool in a file, read once a process."""
    return Pool.read(path, recipe)


def draw(
    path: Path, recipe: str, method: str, overrides: tuple[str, ...], key: int, same: str = "", shape: str = ""
) -> Drawn:
    """One sweep from a recipe's pool in ``path``; with ``same`` both mixes end as the pool's runs of that one do."""
    spec = asked(path, recipe, method, overrides)
    searcher, world = searcher_of(spec), pool_of(path, recipe).world(key, same)
    problem = searcher.problem

    def shaped(request: Request) -> Observation:
        noise = np.random.default_rng([key, problem.mixes.index(request.mix), request.size, request.seed, 1])
        return SHAPES[shape](world(request), request.size, noise)

    trace = simulate(searcher, shaped, Cluster(WORKERS, even=False), np.random.default_rng([SEED, key]))
    found = {mix: transition(points(problem, trace.results, mix), problem.sizes) for mix in problem.mixes}
    intervals = {mix: (each.relative.low, each.relative.high) for mix, each in found.items()}
    family, (baseline, mix) = spec.make_family(), problem.mixes
    compared = synergy(found[baseline], found[mix], lambda size: family.parameters(size).total)
    verdicts, cost = {mix: each.verdict for mix, each in found.items()}, trace.cost
    return Drawn(trace.makespan, trace.runs, verdicts, intervals, compared.doubt, cost)


@dataclass(frozen=True)
class Cell:
    """One mix of one pool, as it is or reshaped, from which both mixes of a sweep are drawn."""

    path: Path
    recipe: str
    mix: str
    shape: str = ""


def cells() -> list[Cell]:
    """Every mix of every pool, and the reshaped ones."""
    pools = [(RECIPES, recipe) for recipe in recipes_of(RECIPES)] + [(FORMER, ""), (RECORDED, "")]
    mixes = ("add", "add+prod")
    plain = [Cell(path, recipe, mix) for path, recipe in pools for mix in mixes]
    return plain + [Cell(RECIPES, RESHAPED, mix, shape) for mix in mixes for shape in SHAPES if shape]


def same_table(sweeps: Mapping[tuple[Cell, str], Sequence[Drawn]]) -> str:
    """A line a cell and method, as Markdown: the share of sweeps that tell one from itself, and why others do not."""
    lines = ["| pool | mix | reshaped | | decided | undecided for | verdicts | runs | cost, s |", "|---" * 9 + "|"]
    for (cell, method), drawn in sweeps.items():
        doubts = Counter(each.doubt.name.lower().replace("_", " ") for each in drawn if each.doubt)
        verdicts = Counter(verdict.value for each in drawn for verdict in each.verdicts.values())
        said = (
            cell.recipe or cell.path.stem,
            cell.mix,
            cell.shape,
            method,
            _share([not each.doubt for each in drawn]),
            ", ".join(f"{name} {count / len(drawn):.2f}" for name, count in doubts.most_common()),
            ", ".join(f"{name} {count / len(drawn) / 2:.2f}" for name, count in verdicts.most_common()),
            f"{np.mean([each.runs for each in drawn]):.1f}",
            f"{np.mean([each.cost for each in drawn]):.0f}",
        )
        lines.append("| " + " | ".join(said) + " |")
    return "\n".join(lines)


def table(
    drawn: Mapping[str, Sequence[Drawn]], truths: Mapping[str, float | None], low: Mapping[str, float | None]
) -> str:
    """A line a method and mix, as Markdown; widths and times are medians with quartiles. Mixes that level off too low
    have no truth: of the sweeps that call them found, those count that hold 80 % of that level, ``low``."""
    lines = ["| | mix | verdicts | 90 % interval holds the truth | width | runs | time, s |", "|---" * 7 + "|"]
    for method, sweeps in drawn.items():
        for mix, truth in truths.items():
            verdicts = Counter(each.verdicts[mix].value for each in sweeps)
            cells = (
                ", ".join(f"{verdict} {count / len(sweeps):.2f}" for verdict, count in verdicts.most_common()),
                _share([each.holds(mix, truth) for each in sweeps])
                if truth is not None
                else _of_found(sweeps, mix, low[mix]),
                "-" if truth is None else _quartiles([each.width(mix) for each in sweeps], ".2f"),
                f"{np.mean([each.runs for each in sweeps]):.1f}",
                _quartiles([each.seconds for each in sweeps], ".0f"),
            )
            lines.append(f"| {method} | {mix} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def against(first: Sequence[Drawn], second: Sequence[Drawn], mixes: Sequence[str]) -> str:
    """In which share of the sweeps the second way is sooner, and narrower on each mix."""
    pairs = list(zip(first, second, strict=True))
    narrower = [f"{mix} in {_share([b.width(mix) < a.width(mix) for a, b in pairs])}" for mix in mixes]
    return f"sooner in {_share([b.seconds < a.seconds for a, b in pairs])}; narrower: {', '.join(narrower)}"


def _of_found(sweeps: Sequence[Drawn], mix: str, low: float | None) -> str:
    found = [each for each in sweeps if each.verdicts[mix] is Verdict.FOUND]
    held = sum(low is not None and each.holds(mix, low) for each in found)
    return f"none; {held} of {len(found)} found hold " + ("-" if low is None else f"{low:.1f}")


KINDS: dict[str, tuple[TruthKind, Callable[[Truth], Truth]]] = {
    "shoulder": (TruthKind.SHOULDER, lambda truth: truth),
    "levels off at .8": (TruthKind.LEVELS_OFF, lambda truth: replace(truth, asymptote=0.8)),
    "seeds fail, .8 in the mean": (
        TruthKind.MATCHED,
        lambda truth: replace(truth, lapse=(truth.asymptote - 0.8) / (truth.asymptote - truth.floor)),
    ),
}
"""Made-up truths at the laptop's sizes, the hard ones."""
COST_S, COST_SIZE, COST_EXPONENT = 35.0, 14, 0.9
"""Seconds of a run of this size, and how they grow with size."""


def truths_table(method: str, name: str, sweeps: int, seed: int) -> str:
    """A line: verdicts on two made-up truths a sweep, and the share of 90 % intervals that hold theirs."""
    kind, changed = KINDS[name]
    spec = load_space(SPACE, "laptop", [f"search.method={method}"])
    rng = np.random.default_rng([seed, list(TruthKind).index(kind)])
    verdicts: Counter[str] = Counter()
    held, runs = [], 0
    for key in range(sweeps):
        searcher = searcher_of(spec)
        problem = searcher.problem
        keys = (10**6 * seed + 2 * key + place for place in range(len(problem.mixes)))
        truths = {
            mix: changed(draw_truth(kind, Problem(("m",), problem.sizes, (0,)), rng, each))
            for mix, each in zip(problem.mixes, keys, strict=True)
        }

        def world(request: Request, truths: Mapping[str, Truth] = truths) -> Observation:
            seen = truths[request.mix].run(request.size, request.seed, COST_EXPONENT, request.steps_factor)
            return replace(seen, cost=seen.cost * COST_S / COST_SIZE**COST_EXPONENT)

        trace = simulate(searcher, world, Cluster(WORKERS, even=False), np.random.default_rng([seed, key]))
        runs += trace.runs
        for mix, truth in truths.items():
            found, size = transition(points(problem, trace.results, mix), problem.sizes), truth.transition
            verdicts[found.verdict.value] += 1
            low, high = found.relative.low, found.relative.high
            if size is not None:
                held.append((low is not None or high is not None) and (low or 0) <= size <= (high or math.inf))
    said = ", ".join(f"{verdict} {count / verdicts.total():.2f}" for verdict, count in verdicts.most_common())
    return f"| {name} | {method} | {said} | {_share(held) if held else '-'} | {runs / sweeps:.1f} |"


def _share(of: Sequence[bool]) -> str:
    share = float(np.mean(of))
    return f"{share:.2f} +- {math.sqrt(share * (1 - share) / len(of)):.2f}"


def _quartiles(values: Sequence[float], form: str) -> str:
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75), method="inverted_cdf")
    return f"{middle:{form}} ({low:{form}}-{high:{form}})"


def told(pool: Pool, mix: str) -> str:
    """The crossing of the pool's runs of a mix, with its interval."""
    runs, truth = sum(len(pool.runs[mix, size]) for size in pool.sizes(mix)), pool.crossing(mix)
    if truth is None:
        return f"{mix}: {runs} runs, no transition among the sizes"
    low, high = pool.interval(mix, np.random.default_rng(SEED))
    return f"{mix}: {runs} runs, {LEVEL:.0%} of their asymptote at {truth:.2f}, drawn again {low:.2f} to {high:.2f}"


def held(drawn: Sequence[Mapping[str, Sequence[Drawn]]], truths: Sequence[Mapping[str, float | None]]) -> str:
    """The share of all intervals that hold their truth, over recipes and mixes, method by method."""
    said = []
    for method in METHODS:
        of = [
            sweep.holds(mix, truth)
            for sweeps, true in zip(drawn, truths, strict=True)
            for mix, truth in true.items()
            if truth is not None
            for sweep in sweeps[method]
        ]
        said.append(f"{method} {_share(of)}" if of else f"{method} none")
    return f"90 % intervals that hold the truth, over all recipes and mixes: {', '.join(said)}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the sweeps, print what they found and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweeps", type=int, default=200, help="sweeps a method and recipe (default 200)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--pool", type=Path, default=RECIPES, help="a table of runs")
    parser.add_argument("--set", action="append", default=[], dest="overrides", help="a setting of the search space")
    parser.add_argument("--truth", type=float, help="hold intervals against this size, not where the pool crosses")
    parser.add_argument("--same", action="store_true", help="draw both mixes from one, of every pool")
    parser.add_argument("--truths", action="store_true", help="made-up truths at the laptop's sizes")
    parser.add_argument("--first", type=int, default=0, help="seed of the first sweep (default 0)")
    parser.add_argument("--json", type=Path, default=Path("results/bench/drawn_sweeps.json"))
    given = parser.parse_args(arguments)
    machine = describe("cpu")
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    keys = range(given.first, given.first + given.sweeps)
    if given.truths:
        print("| truths | | verdicts | 90 % interval holds the truth | runs a sweep |\n|---|---|---|---|---|")
        for name in KINDS:
            for method in METHODS:
                print(truths_table(method, name, given.sweeps, given.first), flush=True)
        return
    if given.same:
        told_apart: dict[tuple[Cell, str], list[Drawn]] = {}
        with ProcessPoolExecutor(given.jobs) as workers:
            for cell in cells():
                for method in METHODS:
                    sweep = partial(
                        draw, cell.path, cell.recipe, method, tuple(given.overrides), same=cell.mix, shape=cell.shape
                    )
                    told_apart[cell, method] = list(workers.map(sweep, keys))
                    print(same_table({(cell, method): told_apart[cell, method]}).splitlines()[-1], flush=True)
        print(same_table(told_apart))
        rows = [
            {"pool": cell.path.name, "recipe": cell.recipe, "mix": cell.mix, "shape": cell.shape, "method": method}
            | {"sweeps": [asdict(each) for each in drawn]}
            for (cell, method), drawn in told_apart.items()
        ]
        write_json(given.json, {"machine": machine, "overrides": given.overrides, "same": rows})
        return
    kept: list[dict[str, list[Drawn]]] = []
    truths: list[dict[str, float | None]] = []
    recipes = recipes_of(given.pool)
    with ProcessPoolExecutor(given.jobs) as workers:
        for recipe in recipes:
            pool = pool_of(given.pool, recipe)
            crossings = {mix: pool.crossing(mix) for mix in sorted({mix for mix, _ in pool.runs})}
            truths.append({mix: crossing and (given.truth or crossing) for mix, crossing in crossings.items()})
            print("\n".join(([f"recipe {recipe}"] if recipe else []) + [told(pool, mix) for mix in crossings]))
            drawn: dict[str, list[Drawn]] = {}
            for method in METHODS:
                sweep = partial(draw, given.pool, recipe, method, tuple(given.overrides))
                drawn[method] = list(workers.map(sweep, keys))
            kept.append(drawn)
            low = {mix: pool.crossing(mix, 0.0) for mix in crossings}
            print(table(drawn, truths[-1], low))
            found = [mix for mix, truth in truths[-1].items() if truth is not None]
            print(f"{METHODS[1]} against {METHODS[0]}: {against(drawn[METHODS[0]], drawn[METHODS[1]], found)}")
    print(held(kept, truths))
    pools = [
        {
            "recipe": recipe,
            "truths": true,
            "sweeps": {method: [asdict(each) for each in its] for method, its in of.items()},
        }
        for recipe, true, of in zip(recipes, truths, kept, strict=True)
    ]
    write_json(
        given.json, {"machine": machine, "pool": given.pool.name, "overrides": given.overrides, "recipes": pools}
    )


if __name__ == "__main__":
    main()
