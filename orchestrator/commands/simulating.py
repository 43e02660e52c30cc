"""Simulating a search before paying for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from orchestrator.commands.options import Debug, Override, Profile, VariantOption, load
from orchestrator.errors import UserError, unknown

if TYPE_CHECKING:
    from orchestrator.search.base import Observation, Request
    from orchestrator.simulation.simulator import Cluster
    from orchestrator.simulation.study import Benchmark
    from orchestrator.simulation.truths import TruthKind

GENERIC_SIZES, GENERIC_SEEDS, GENERIC_EXPONENT = 46, 8, 1.75
"""Without a search space: the number of sizes between 8 and 256, of seeds, and the power of size that a run costs."""


def simulate_command(
    space: Annotated[
        str | None,
        typer.Argument(metavar="[NAME_OR_FILE]", help="A search space; without one, 46 sizes from 8 to 256, one mix."),
    ] = None,
    profile: Profile = None,
    variant: VariantOption = None,
    override: Override = None,
    truths: Annotated[int, typer.Option(min=1, help="Sweeps to simulate, each with transitions of its own.")] = 40,
    kind: Annotated[
        str, typer.Option(help="The kind of synthetic truths: matched, misspecified, shoulder, levels-off, ...")
    ] = ("matched"),
    table: Annotated[
        Path | None, typer.Option(help="Replay the outcomes recorded in this CSV file instead of synthetic truths.")
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Try this method (repeatable); by default all of them.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Stacks that train at the same time.")] = 1,
    stack: Annotated[int, typer.Option(min=1, help="The most runs in a stack.")] = 1,
    latency: Annotated[float, typer.Option(min=0.0, help="Seconds before a stack starts.")] = 0.0,
    jitter: Annotated[float, typer.Option(min=0.0, help="Standard deviation of ln duration.")] = 0.0,
    stragglers: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of stacks that take 5 times as long.")] = 0,
    failures: Annotated[float, typer.Option(min=0.0, max=0.9, help="Share of runs that fail.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Fixes truths, delays and failures.")] = 0,
    debug: Debug = False,
) -> None:
    """Simulate the searchers without training: what they would cost, and how far off they would be."""
    from orchestrator.simulation import printing, study
    from orchestrator.simulation.simulator import Cluster

    cluster = Cluster(
        workers, stack, even=False, latency=latency, jitter=jitter, stragglers=stragglers, failures=failures
    )
    console = Console()
    with console.status("simulating"):
        if table is not None:
            if space is not None:
                raise UserError("--table replays the mixes, sizes and seeds of its file: leave the search space out")
            outcomes, benchmark = _recorded(table, method, cluster, seed)
            references = study.references_of(benchmark.problem, outcomes, seed)
            printing.print_replays(study.against_table(benchmark, outcomes, truths), references, truths, console)
        else:
            benchmark = _asked(space, profile, variant, override, method, cluster, seed)
            graded = study.against_truths(benchmark, _kind(kind), truths)
            printing.print_truths(graded, _kind(kind), truths, len(benchmark.problem.mixes), console)


def _recorded(
    table: Path, methods: list[str] | None, cluster: Cluster, seed: int
) -> tuple[dict[Request, Observation | None], Benchmark]:
    """A recorded table, and the benchmark that replays it."""
    from orchestrator.simulation import recorded
    from orchestrator.simulation.study import Benchmark

    outcomes = recorded.read_table(table)
    problem = recorded.table_problem(outcomes)
    benchmark = Benchmark(problem, _methods(methods, cluster.stack), recorded.table_costs(outcomes), cluster, seed)
    return outcomes, benchmark


def _asked(
    space: str | None,
    profile: str | None,
    variant: str | None,
    override: list[str] | None,
    methods: list[str] | None,
    cluster: Cluster,
    seed: int,
) -> Benchmark:
    """The benchmark for a search space, or the general one."""
    import numpy as np

    from orchestrator.cost.plan import run_seconds
    from orchestrator.search.base import Problem
    from orchestrator.simulation.study import Benchmark

    if space is None:
        if profile or variant or override:
            raise UserError("--profile, --variant and --set are about a search space: name one")
        sizes = tuple(int(size) for size in np.unique(np.geomspace(8, 256, GENERIC_SIZES).round().astype(int)))
        problem = Problem(("mix",), sizes, tuple(range(GENERIC_SEEDS)))
        costs = {size: float(size) ** GENERIC_EXPONENT for size in sizes}
        return Benchmark(problem, _methods(methods, cluster.stack), costs, cluster, seed)
    spec, _ = load(space, profile, override, variant)
    problem = Problem(tuple(mix.name for mix in spec.mixes), spec.sizes, spec.seed_list)
    costs = run_seconds(spec)
    tried = _methods(methods, cluster.stack)
    if spec.search.method in tried:
        tried[spec.search.method] = spec.search.with_stack(cluster.stack).settings
    return Benchmark(problem, tried, costs, cluster, seed)


def _methods(names: list[str] | None, stack: int) -> dict[str, dict[str, Any]]:
    """The methods to try, by default all of them, with the size of stacks."""
    from orchestrator.search.registry import METHODS

    for name in names or ():
        if name not in METHODS:
            raise unknown("search method", name, METHODS, where="--method")
    return {name: {"stack": stack} for name in names or METHODS}


def _kind(given: str) -> TruthKind:
    from orchestrator.simulation.truths import TruthKind

    if given not in list(TruthKind):
        raise unknown("kind of truths", given, [each.value for each in TruthKind], where="--kind")
    return TruthKind(given)
