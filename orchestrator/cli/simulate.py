"""Simulated searches, without training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from orchestrator.cli.options import resolve, with_options
from orchestrator.errors import UserError, unknown
from orchestrator.report.table import plain_table
from orchestrator.sweep.run_options import SpaceOptions

if TYPE_CHECKING:
    from orchestrator.search.base import Problem


GENERIC_SIZES, GENERIC_SEEDS, GENERIC_EXPONENT = 46, 8, 1.75
"""Number of sizes from 8 to 256, number of seeds, and exponent of size in a run's cost, without a search space."""
NOTE = (
    "runs of one sweep; cost and wall clock relative to the full grid's; busy: share of the workers' time spent on "
    "runs; error: median of |ln(estimate / truth)|, 0.05 is about 5% in size; covers: share of 90% intervals that "
    "contain the truth"
)


@with_options(SpaceOptions)
def simulate_command(
    options: SpaceOptions,
    space: Annotated[
        str | None,
        typer.Argument(metavar="[NAME_OR_FILE]", help="A search space; by default one mix and 46 sizes from 8 to 256."),
    ] = None,
    truths: Annotated[int, typer.Option(min=1, max=10_000, help="Sweeps to simulate, each with new transitions.")] = 40,
    method: Annotated[
        list[str] | None, typer.Option(help="Try this method (repeatable); by default all of them.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, max=10_000, help="Stacks that train at the same time.")] = 1,
    stack: Annotated[int, typer.Option(min=1, max=1_000, help="Maximum number of runs in a stack.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the transitions.")] = 0,
) -> None:
    """Try the searchers without training: cost, error, coverage."""
    from orchestrator.simulation import compare

    problem, methods, costs = _problem(space, options, method, stack)
    console = Console()
    with console.status("simulating"):
        results = compare(problem, methods, costs, sweeps=truths, seed=seed, workers=workers, stack=stack)
    table = plain_table("method", "runs", "cost", "wall", "busy", "error", "covers")
    for place, column in enumerate(table.columns):
        column.justify, column.no_wrap = "right" if place else "left", True
    for row in results:
        figures = (f"{row.runs:.1f}", f"{row.cost:.2f}", f"{row.wall:.2f}", f"{row.busy:.0%}")
        table.add_row(row.method, *figures, "-" if row.error is None else f"{row.error:.3f}", f"{row.holds:.0%}")
    mixes = len(problem.mixes)
    console.print(Text(f"simulated sweeps: {truths}, mixes in each: {mixes}", style="bold"))
    console.print(table)
    console.print(Text(NOTE, style="dim"))


def _problem(
    space: str | None, options: SpaceOptions, names: list[str] | None, stack: int
) -> tuple[Problem, Mapping[str, Mapping[str, Any]], Mapping[int, float]]:
    """Return the problem of a search space (or a general one), methods with their settings, and costs by size."""
    import numpy as np

    from orchestrator.cost import run_seconds
    from orchestrator.search.base import Problem
    from orchestrator.search.registry import METHODS
    from orchestrator.space.evidence import problem_of

    for name in names or ():
        if name not in METHODS:
            raise unknown("search method", name, METHODS, where="--method")
    methods: dict[str, Mapping[str, Any]] = {name: {"stack": stack} for name in names or METHODS}
    if space is None:
        if options.words():
            raise UserError("--profile, --variant and --set apply only to a search space: name one")
        sizes = tuple(int(size) for size in np.unique(np.geomspace(8, 256, GENERIC_SIZES).round().astype(int)))
        costs = {size: float(size) ** GENERIC_EXPONENT for size in sizes}
        return Problem(("mix",), sizes, tuple(range(GENERIC_SEEDS))), methods, costs
    spec = resolve(space, options)
    if spec.search.method in methods:
        methods[spec.search.method] = spec.search.with_stack(stack).settings
    return problem_of(spec), methods, run_seconds(spec)
