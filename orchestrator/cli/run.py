"""Search spaces: list them, show one, plan what it would cost, run it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer
from rich.console import Console

from orchestrator.cli.options import (
    DEFAULT_HOME,
    Address,
    Dashboard,
    Debug,
    Extend,
    Fresh,
    GpuFraction,
    HomeOption,
    LocalDebug,
    MaxTime,
    Override,
    Profile,
    Quiet,
    Resume,
    RetryFailed,
    ScratchOption,
    SpaceName,
    StackOption,
    VariantOption,
    Watch,
    load_resolved,
    load_variants,
    repeated,
    seconds_of,
    with_sizes,
    words_of,
)
from orchestrator.errors import UserError

if TYPE_CHECKING:
    from orchestrator.cost import Plan
    from orchestrator.space.hardware import Hardware
    from orchestrator.space.spec import SweepSpec
    from orchestrator.sweep.run import RunOptions


def run_command(
    space: SpaceName,
    profile: Profile = None,
    variant: VariantOption = None,
    override: Override = None,
    stack: StackOption = None,
    gpu_fraction: GpuFraction = None,
    home: HomeOption = DEFAULT_HOME,
    scratch: ScratchOption = None,
    address: Address = None,
    resume: Resume = None,
    retry_failed: RetryFailed = False,
    extend: Extend = None,
    fresh: Fresh = False,
    local_debug: LocalDebug = False,
    dashboard: Dashboard = False,
    watch: Watch = False,
    max_time: MaxTime = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Run a sweep and print the transitions it finds; a space of several variants is a sweep for each.

    Examples:

      run add_vs_add_prod --profile smoke

      run my_space.yaml --set seeds=5 --max-time 2h

      run my_space.yaml --resume
    """
    _check_options(
        resume=resume, extend=extend, fresh=fresh, retry_failed=retry_failed,
        address=address, local_debug=local_debug, dashboard=dashboard, quiet_watch=quiet and watch,
    )  # fmt: skip
    seconds = _time_given(max_time)
    asked = with_sizes(override, stack, gpu_fraction, scratch)
    specs, hardware = load_variants(space, profile, asked, variant, address)
    several = len(specs) > 1
    if several and (resume or extend is not None):
        _refuse_several(specs, space, "--resume" if resume else "--extend")
    for spec in specs:
        _check_gpus(spec, hardware, address)
    from orchestrator.home.bucket_home import home_words
    from orchestrator.home.files import Home
    from orchestrator.sweep.beginning import check_begin
    from orchestrator.sweep.run import RunOptions
    from orchestrator.sweep.stopping import Command, TimeLimit

    for spec in specs:
        check_begin(spec, Home(home.resolve()), hardware, resume=None if several else resume, extend=extend)
    if dashboard:
        from orchestrator.engine.ray.session import check_dashboard  # Ray takes a second.

        check_dashboard(address)
    again = repeated(
        ["run", space],
        {"--profile": profile, "--variant": variant, "--set": override, "--stack": stack},
        {"--gpu-fraction": gpu_fraction, "--scratch": scratch, "--address": address, "--max-time": max_time},
        {
            "--home": None if home == DEFAULT_HOME else home_words(home),
            "--local-debug": local_debug,
            "--dashboard": dashboard,
        },
        {"--watch": watch},
    )
    options = RunOptions(
        home=home,
        address=address,
        hardware=hardware,
        resume=resume,
        retry_failed=retry_failed,
        extend=extend,
        fresh=fresh,
        local_debug=local_debug,
        dashboard=dashboard,
        limit=TimeLimit(seconds),
        again=Command(again, several=several),
    )
    console = Console(quiet=quiet)
    if address is None and any(spec.resources.gpu_per_stack for spec in specs):
        _ask_for_a_doctor(home, hardware, console)
    kept = {"--address": address, "--local-debug": local_debug}
    page = _watched(home, console, words_of(kept)) if watch else nullcontext()
    if several:
        with page:
            _run_variants(specs, options, hardware, console)
        return
    _brief(specs[0], hardware, home, console)
    with page:
        _run_one(specs[0], options, console)


def _time_given(max_time: str | None) -> float | None:
    """Seconds, None for as many as it takes. Raises :class:`UserError`, for no time at all too."""
    seconds = None if max_time is None else seconds_of("--max-time", max_time)
    if seconds == 0:
        raise UserError(f"--max-time {max_time!r}: no time is too little for any run; leave it out, or write 2h, say")
    return seconds


def _run_one(spec: SweepSpec, options: RunOptions, console: Console) -> None:
    """Run one sweep; on a quiet console its answer alone is printed."""
    from orchestrator.sweep.run import run_sweep

    found = run_sweep(spec, options, console)
    if console.quiet:
        from orchestrator.report import table
        from orchestrator.report.words.advice import next_step

        typer.echo(table.plain(table.answer_table(found), next_step(spec, found)))


def _run_variants(specs: Sequence[SweepSpec], options: RunOptions, hardware: Hardware, console: Console) -> None:
    """Run one sweep after the other, and set what they found side by side."""
    from orchestrator.cli.report import print_comparison
    from orchestrator.cli.status import open_sweep
    from orchestrator.sweep.variants import run_variants

    ended = run_variants(specs, options, lambda spec: _brief(spec, hardware, options.home, console), console)
    stored = [open_sweep(each, options.home) for each in ended]
    print_comparison(stored, stored[-1].sweep.directory / "variants.png")


def _refuse_several(specs: Sequence[SweepSpec], space: str, option: str) -> NoReturn:
    names = ", ".join(spec.variant for spec in specs)
    raise UserError(f"{option} names one sweep and {space} asks several: give --variant, too ({names})")


def _check_options(
    *,
    resume: str | None,
    extend: str | None,
    fresh: bool,
    retry_failed: bool,
    address: str | None,
    local_debug: bool,
    dashboard: bool,
    quiet_watch: bool,
) -> None:
    """Raise ``UserError`` for options of ``run`` that exclude one another."""
    if quiet_watch:
        raise UserError("--quiet prints the answer alone and --watch an address to open: give one of them")
    if resume is not None and extend is not None:
        raise UserError("--resume continues a sweep and --extend starts a new one: give one of them")
    if fresh and (resume is not None or extend is not None):
        other = "--extend" if resume is None else "--resume"
        raise UserError(f"--fresh trains every run anew and {other} begins with what is there: give one of them")
    if retry_failed and resume is None:
        raise UserError("--retry-failed trains runs of a sweep again that failed: say which with --resume [SWEEP]")
    if dashboard and local_debug:
        raise UserError("--local-debug trains without Ray, so there is no --dashboard: give one of them")
    if address is not None and local_debug:
        raise UserError("--local-debug trains in this process, without Ray, so there is no --address: give one of them")


def list_command(debug: Debug = False) -> None:
    """List the search spaces that come with the project."""
    from orchestrator.space.files import names
    from orchestrator.space.spaces import open_space
    from orchestrator.terminal.briefing import print_spaces

    print_spaces([open_space(name) for name in names()], Console())


def show_command(
    space: SpaceName,
    profile: Profile = None,
    variant: VariantOption = None,
    override: Override = None,
    stack: StackOption = None,
    gpu_fraction: GpuFraction = None,
    debug: Debug = False,
) -> None:
    """Print a resolved search space as YAML that can be run, with a comment beside each value: where it is written."""
    from orchestrator.space.sources import with_sources

    resolved, _ = load_resolved(space, profile, with_sizes(override, stack, gpu_fraction), variant)
    typer.echo(with_sources(resolved), nl=False)


def plan_command(
    space: SpaceName,
    profile: Profile = None,
    variant: VariantOption = None,
    override: Override = None,
    stack: StackOption = None,
    gpu_fraction: GpuFraction = None,
    home: HomeOption = DEFAULT_HOME,
    debug: Debug = False,
) -> None:
    """Print what a sweep would cost, without starting it.

    Example:

      plan my_space.yaml --set "sizes={from: 8, to: 256, count: 16}"
    """
    from orchestrator.terminal.briefing import print_plan

    specs, hardware = load_variants(space, profile, with_sizes(override, stack, gpu_fraction), variant)
    console = Console()
    for spec in specs:
        print_plan(spec, _brief(spec, hardware, home, console), console)


def _brief(spec: SweepSpec, hardware: Hardware, home: Path, console: Console) -> Plan:
    """Print what is about to be done; returns the plan that was shown."""
    from orchestrator.cost import make_plan
    from orchestrator.home.bucket_home import place_words
    from orchestrator.stacks import settled
    from orchestrator.terminal.briefing import print_briefing

    spec = settled(spec, hardware)
    plan = make_plan(spec, hardware)
    print_briefing(spec, hardware, plan, console, place_words(home))
    return plan


def _watched(home: Path, console: Console, options: Sequence[str]) -> AbstractContextManager[object]:
    """The page of all sweeps, served as long as a sweep runs; with these options it goes on with others."""
    from orchestrator.site.server import watched  # Figures take a second to import.

    return watched(home, partial(console.print, markup=False, highlight=False, soft_wrap=True), options)


def _check_gpus(spec: SweepSpec, hardware: Hardware, address: str | None) -> None:
    """Raise ``UserError`` where a sweep asks for GPUs and there are none."""
    if not spec.resources.gpu_per_stack or hardware.gpus or hardware.grows:
        return
    where = f"at {address}" if address else "here"
    raise UserError(
        f"this sweep asks for {_gpus(spec)} a stack and there is none {where}. Give the --address of a Ray cluster "
        "that has some, another --profile, or --set resources.gpu_per_stack=0 to train on the CPU, slowly."
    )


def _ask_for_a_doctor(home: Path, hardware: Hardware, console: Console) -> None:
    """Recommend ``doctor`` if no check-up of this GPU has passed."""
    from orchestrator.doctor.checkup import passed_here

    if not passed_here(home, hardware):
        said = f"no check-up of {hardware.gpu_name} has passed yet: run `python -m orchestrator doctor`"
        console.print(said, markup=False, highlight=False, soft_wrap=True)


def _gpus(spec: SweepSpec) -> str:
    asked = spec.resources.gpu_per_stack
    return "a share of a GPU" if isinstance(asked, str) else f"{asked:g} GPU"
