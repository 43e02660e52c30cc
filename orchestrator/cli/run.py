"""Search spaces: list, show, plan and run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from orchestrator import environment
from orchestrator.cli.options import (
    HomeOption,
    SpaceName,
    hardware_at,
    load_variants,
    resolve,
    with_options,
)
from orchestrator.cli.status import warn
from orchestrator.errors import UserError
from orchestrator.sweep.run_options import RunOptions, SizedOptions

if TYPE_CHECKING:
    from orchestrator.cost import Plan
    from orchestrator.space.hardware import Hardware
    from orchestrator.space.spec import SweepSpec


@with_options(RunOptions, home=HomeOption)
def run_command(space: SpaceName, options: RunOptions) -> None:
    """Run a sweep and print the transitions it finds.

    A space with several variants is one sweep per variant.

    Examples:

      run add_vs_add_prod --profile smoke

      run my_space.yaml --set seeds=5 --max-time 2h

      run my_space.yaml --resume
    """
    options = options.started(space)
    hardware = hardware_at(options.address)
    if (other := environment.hiding("orchestrator", [environment.working_directory() or ""])) is not None:
        warn(f"in this directory `python -m orchestrator` runs {other}: run the printed commands in another directory")
    specs = load_variants(space, options, hardware)
    options = replace(options, hardware=hardware, several=len(specs) > 1)
    _check_begin(specs, options, hardware)
    console = _Output(quiet=options.quiet)
    if options.several:
        _run_variants(specs, options, hardware, console)
        return
    _start(specs[0], options, console)
    from orchestrator.sweep.run import run_sweep

    answer = run_sweep(specs[0], options, console)
    if console.quiet:
        from orchestrator.report import table
        from orchestrator.report.words.next_step import next_step

        typer.echo(table.plain(table.answer_table(answer), next_step(specs[0], answer)))


class _Output(Console):
    """Console of a sweep. It reports a broken pipe before the program exits."""

    def on_broken_pipe(self) -> None:
        """Report the broken pipe. rich calls this method, which does not return."""
        typer.echo(
            "error: the program that reads this output has exited; --resume continues the sweep if it had begun",
            err=True,
        )
        super().on_broken_pipe()


def _check_begin(specs: Sequence[SweepSpec], options: RunOptions, hardware: Hardware) -> None:
    """Check everything before anything starts. Raises ``UserError``."""
    from orchestrator.home.files import Home
    from orchestrator.sweep.beginning import check_begin

    if options.several and (options.resume or options.extend is not None):
        names = ", ".join(spec.variant for spec in specs)
        option = "--resume" if options.resume else "--extend"
        raise UserError(
            f"{option} applies to one sweep, but {options.space} has several: also give --variant ({names})"
        )
    for spec in specs:
        _check_gpus(spec, hardware, options.address)
    resume = None if options.several else options.resume
    for spec in specs:
        check_begin(spec, Home(options.home.resolve()), hardware, options, resume=resume)
    if options.dashboard:
        from orchestrator.engine.ray.session import check_dashboard  # Ray takes a second to import.

        check_dashboard(options.address)


def _run_variants(specs: Sequence[SweepSpec], options: RunOptions, hardware: Hardware, console: Console) -> None:
    """Run sweeps one after another under one Ray, and compare them. A resume only runs unfinished variants."""
    from orchestrator.cli.report import print_comparison
    from orchestrator.cli.status import open_sweep
    from orchestrator.home.files import Home
    from orchestrator.home.journal import recall
    from orchestrator.home.resuming import newest_sweep
    from orchestrator.sweep.beginning import one_ray
    from orchestrator.sweep.run import logged_to, run_sweep

    ended: list[str] = []
    home = Home(options.home.resolve())
    with one_ray(replace(options, begun=lambda sweep: ended.append(sweep.id))) as shared:
        for spec in specs:
            with logged_to(console):
                newest = None if options.resume is None else newest_sweep(spec, home)
            if newest is not None and recall(newest.files, runs=False).answered:
                text = f"{spec.variant}: answered by {newest.id}"
                console.print(text, markup=False, highlight=False, soft_wrap=True)
                ended.append(newest.id)
                continue
            _start(spec, options, console)
            run_sweep(spec, replace(shared, resume=None if newest is None else newest.id), console)
    stored = [open_sweep(sweep_id, options.home) for sweep_id in ended]
    print_comparison(stored, stored[-1].sweep.files.directory / "variants.png")


@with_options(SizedOptions)
def show_command(
    options: SizedOptions,
    space: Annotated[
        str | None, typer.Argument(metavar="[NAME_OR_FILE]", help="A search space's name, or a YAML file.")
    ] = None,
) -> None:
    """List the search spaces, or print a resolved one as YAML that can be run, with its comments."""
    from orchestrator.space.files import names
    from orchestrator.space.spaces import comments_of, open_space
    from orchestrator.space.strict_yaml import commented
    from orchestrator.terminal.briefing import print_spaces

    if space is None:
        print_spaces([open_space(name) for name in names()], Console())
        return
    written = resolve(space, options).to_yaml()
    comments = comments_of(space, options.profile, options.assignments, variant=options.variant)
    typer.echo(commented(written, comments), nl=False)


@with_options(SizedOptions)
def plan_command(space: SpaceName, options: SizedOptions) -> None:
    """Print what a sweep would cost, without starting it.

    Example:

      plan my_space.yaml --set "sizes={from: 8, to: 256, count: 16}"
    """
    from orchestrator.terminal.briefing import print_plan

    hardware, console = hardware_at(None), Console()
    for spec in load_variants(space, options, hardware):
        settled_spec, plan = _planned(spec, hardware)
        print_plan(settled_spec, hardware, plan, console)


def _start(spec: SweepSpec, options: RunOptions, console: Console) -> None:
    from orchestrator.terminal.briefing import print_start

    assert options.hardware is not None
    settled_spec, plan = _planned(spec, options.hardware)
    print_start(settled_spec, options.hardware, plan, console, options.plan_line)


def _planned(spec: SweepSpec, hardware: Hardware) -> tuple[SweepSpec, Plan]:
    """Return a sweep with its stacks sized for this hardware, and its plan."""
    from orchestrator.cost import make_plan
    from orchestrator.stacks import settled

    settled_spec = settled(spec, hardware)
    return settled_spec, make_plan(settled_spec, hardware)


def _check_gpus(spec: SweepSpec, hardware: Hardware, address: str | None) -> None:
    """Raise ``UserError`` if a sweep needs GPUs and there are none."""
    if not spec.resources.gpu_per_stack or hardware.gpus or hardware.grows:
        return
    where, share = f"at {address}" if address else "here", spec.resources.gpu_per_stack
    needs = "a share of a GPU" if isinstance(share, str) else f"{share:g} GPU"
    raise UserError(
        f"each stack of this sweep needs {needs}, but no GPU was found {where}. Give the --address of a Ray cluster "
        "with GPUs, another --profile, or --set resources.gpu_per_stack=0 to train on the CPU, slowly."
    )
