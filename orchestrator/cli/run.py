"""Commands that show and plan search spaces, and that run, stop and reproduce sweeps. sweep/run_options.py has their
options."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn
from zlib import crc32

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from orchestrator.cli.options import (
    HomeOption,
    Json,
    OneSweep,
    SpaceName,
    SpaceNames,
    hardware_at,
    load_variants,
    open_sweep,
    open_sweeps,
    resolve,
    wide_console,
    with_options,
)
from orchestrator.cli.results import print_comparison
from orchestrator.forecast.cost_estimate import plan_json
from orchestrator.history.journal import recall
from orchestrator.history.other_code import check_shown
from orchestrator.history.resume import newest_sweep
from orchestrator.history.stop_requests import ask_to_stop
from orchestrator.home.directories import Home
from orchestrator.home.ownership import check_own
from orchestrator.home.safe_writing import own_directory
from orchestrator.report import answer_table
from orchestrator.report.sentences.next_step import next_step
from orchestrator.report.sentences.origin import origin_line
from orchestrator.report.verdicts.table import HEADER, markdown, over_table, summary
from orchestrator.space.expectations import expectations_of
from orchestrator.space.expected_findings import check_expectations, resolve_expectations
from orchestrator.space.spaces import names, open_space, variant_names, written
from orchestrator.space.spec import SweepSpec
from orchestrator.space.strict_yaml import commented
from orchestrator.sweep.engine_choice import shipment_of
from orchestrator.sweep.invocation import Invocation, TimeLimit
from orchestrator.sweep.reproduce import Experiment, Reproduction
from orchestrator.sweep.run_options import PlaceOptions, RunOptions, SizedOptions, SpaceOptions
from orchestrator.sweep.several_sweeps import Attempt, check_answered, run_sweeps
from orchestrator.sweep.starting import check_startable, find_earlier, prepare_home
from orchestrator.system.commands import command_line
from orchestrator.system.did_you_mean import unknown
from orchestrator.system.environment import HOME
from orchestrator.system.errors import SweepError, UserError
from orchestrator.system.files import replace_whole
from orchestrator.system.hardware import Hardware
from orchestrator.system.printing import Console, echo
from orchestrator.system.text import counted, duration, listed
from orchestrator.terminal.briefing import print_plan, print_start
from orchestrator.terminal.console_log import logged_to
from orchestrator.terminal.output import Output

MOST_PLANS = 50
"""Maximum number of variants whose plans are printed. Each takes about a tenth of a second to simulate."""


@with_options(SizedOptions)
def show_command(
    options: SizedOptions,
    space: Annotated[
        str | None, typer.Argument(metavar="[NAME_OR_FILE]", help="A search space's name, or a YAML file.")
    ] = None,
) -> None:
    """List the search spaces, or print a resolved one as YAML that can be run, with its comments."""
    if space is None:
        wide_console().print(_spaces_view())
        return
    resolved = resolve(space, options).to_yaml()
    values = written(space, options.profile, options.assignments, variant=options.variant)
    echo(commented(resolved, values.comments), nl=False)


def _spaces_view() -> RenderableType:
    """Return the shipped search spaces with their questions and profiles. Profiles that several spaces share are listed
    once."""
    listed = answer_table.plain_table("search space", "question")
    listed.columns[0].no_wrap = True
    sharing: dict[str, list[str]] = {}
    for space in map(open_space, names()):
        listed.add_row(space.name, Text(str(space.top.get("question", ""))))
        sharing.setdefault(", ".join(space.profiles), []).append(space.name)
    usual, *others = sorted(sharing, key=lambda profiles: -len(sharing[profiles]))
    lines = [f"Profiles: {usual}", *(f"Profiles of {', '.join(sharing[profiles])}: {profiles}" for profiles in others)]
    return Group(listed, Text(), *map(Text, lines), Text("Start with `run add_vs_add_prod --profile quick`: a minute."))


@with_options(SizedOptions)
def plan_command(space: SpaceName, options: SizedOptions, json_: Json = False) -> None:
    """Print what a sweep would cost, without starting it. With --json, a list with an entry for each variant.

    Example:

      plan my_space.yaml --set "sizes={from: 8, to: 256, count: 16}"
    """
    hardware = hardware_at(None)
    console = Console()
    opened = open_space(space)
    has_expected = bool(expectations_of(opened.files[0]))  # They may be about any variant.
    specs = load_variants(space, options, hardware, most=None if has_expected else MOST_PLANS)

    def load_profile(profile: str) -> list[SweepSpec]:
        return load_variants(space, replace(options, profile=profile), hardware)

    check_expectations(opened, specs, options.variant, options.overrides, load_profile)
    planned = specs[:MOST_PLANS]
    for spec in planned:
        spec.check_device()
        spec.check_startable()
        if not json_:
            print_plan(spec, hardware, console)
    if json_:
        echo(json.dumps([plan_json(spec, hardware) for spec in planned]))
    if options.variant is None and (others := variant_names(space, options.profile, hardware)[MOST_PLANS:]):
        more = f"{counted(len(others), 'more variant')} not planned here: add --variant NAME, such as {others[0]}"
        echo(more, err=json_)


@with_options(RunOptions, home=HomeOption)
def run_command(spaces: SpaceNames, options: RunOptions) -> None:
    """Run sweeps and print the transitions that they find.

    A space with several variants is one sweep per variant. Several sweeps share the machine: the next one begins when
    those before it leave it idle.

    Examples:

      run add_vs_add_prod --profile smoke

      run my_space.yaml --set seeds=5 --max-time 2h

      run my_space.yaml --resume

      run my_space.yaml another.yaml
    """
    options = options.checked()
    limit = TimeLimit(options.limit_s)
    hardware = hardware_at(options.address)
    if twice := [space for space in spaces if spaces.count(space) > 1]:
        raise UserError(f"{twice[0]} is listed twice: a sweep runs once")
    attempts = [attempt for space in spaces for attempt in _attempts(space, options, hardware)]
    _check_begin(attempts, options, hardware)
    console = Output(quiet=options.quiet)
    wanted = _without_answered(attempts, console) if len(attempts) > 1 else attempts
    for attempt in wanted:
        line = attempt.options.plan_line
        attempt.announce = partial(print_start, attempt.spec, hardware, console, line, is_local=options.local)
        attempt.ended = partial(_print_ended, console, len(attempts) > 1)
    if wanted:
        run_sweeps(wanted, console, Invocation(limit=limit, hardware=hardware, owns_process=True))
    if len(attempts) > 1 and any(attempt.answer is None for attempt in wanted):
        unfinished = command_line("run", *spaces, *options.words(), "--resume")
        console.print(f"Continue all with\n{unfinished}", markup=False, highlight=False, soft_wrap=True)
    check_answered(wanted)
    for space in spaces:
        _compare_variants([attempt for attempt in attempts if attempt.options.space == space])


def _attempts(space: str, options: RunOptions, hardware: Hardware) -> list[Attempt]:
    """Return the sweeps of a search space. Each has the options that would run only that sweep."""
    specs = load_variants(space, options, hardware)
    own = replace(options, space=space)
    if len(specs) == 1:
        return [Attempt(spec=specs[0], options=own)]
    return [Attempt(spec=spec, options=replace(own, variant=spec.variant)) for spec in specs]


def _check_begin(attempts: Sequence[Attempt], options: RunOptions, hardware: Hardware) -> None:
    """Check all sweeps before the first starts. Raises ``UserError`` if a sweep could not run."""
    is_one = len(attempts) == 1
    if not is_one and (options.resume or options.extend is not None):
        _refuse_one_sweep("--resume" if options.resume else "--extend", attempts)
    shipment_of([attempt.spec for attempt in attempts], options)
    for attempt in attempts:
        checked = attempt.options if is_one else replace(attempt.options, resume=None, retry_failed=False)
        home = Home(options.home.resolve())
        check_startable(attempt.spec, checked, hardware)
        find_earlier(attempt.spec, home, checked)
        prepare_home(attempt.spec, home, checked)
    if options.dashboard:
        from orchestrator.engine.ray.session import check_dashboard  # Ray takes a second to import.

        check_dashboard()


def _refuse_one_sweep(option: str, attempts: Sequence[Attempt]) -> NoReturn:
    """Raise ``UserError`` because an option applies to one sweep, but the user requested several."""
    spaces = {attempt.options.space for attempt in attempts}
    if len(spaces) > 1:
        raise UserError(f"{option} applies to one sweep: name one search space instead of {listed(sorted(spaces))}")
    variants = ", ".join(attempt.spec.variant for attempt in attempts)
    raise UserError(f"{option} applies to one sweep, but {spaces.pop()} has several: also pass --variant ({variants})")


def _without_answered(attempts: Sequence[Attempt], console: Console) -> list[Attempt]:
    """Return the sweeps to run. With ``--resume``, each continues its newest sweep. Omit sweeps that already have an
    answer."""
    wanted: list[Attempt] = []
    for attempt in attempts:
        options = attempt.options
        newest = None
        if options.resume is not None:
            with logged_to(console):
                newest = newest_sweep(attempt.spec, Home(options.home.resolve()))
        if newest is not None and not options.retry_failed and recall(newest.files).answered:
            warning = check_shown(attempt.spec, newest)
            answered = "\n".join(filter(None, (warning, f"{attempt.spec.title}: answered by {newest.id}")))
            console.print(answered, markup=False, highlight=False, soft_wrap=True)
            attempt.sweep = newest
            continue
        resume = None if newest is None else newest.id
        attempt.options = replace(options, resume=resume, retry_failed=options.retry_failed and newest is not None)
        wanted.append(attempt)
    return wanted


def _print_ended(console: Console, is_named: bool, attempt: Attempt) -> None:
    """Print the answer of a sweep if the console is quiet. If there are several sweeps, print its error too."""
    if attempt.answer is not None and attempt.sweep is not None and console.quiet:
        heading = f"{attempt.spec.title}: {attempt.spec.question}" if is_named else ""
        text = answer_table.plain(attempt.answer, next_step(attempt.spec, attempt.answer))
        origin = origin_line(open_sweep(attempt.sweep.id, attempt.sweep.files.home).origin)
        echo("\n".join(filter(None, (heading, text, origin))))
    elif is_named and isinstance(attempt.error, SweepError):
        echo(f"{attempt.spec.title}: {attempt.error}", err=True)


def _compare_variants(attempts: Sequence[Attempt]) -> None:
    """Print the answers of the variants of a search space next to each other."""
    sweeps = [attempt.sweep.id for attempt in attempts if attempt.sweep is not None]
    if len(sweeps) > 1:
        home = Home(attempts[0].options.home.resolve())
        stored = open_sweeps(sweeps, home)
        print_comparison(stored, stored[-1].sweep.files.directory / "variants.png", replace_whole)


def stop_command(
    sweep: OneSweep,
    mix: Annotated[str | None, typer.Option(help="Stop only this mix; the sweep continues with the others.")] = None,
    home: HomeOption = HOME,
) -> None:
    """Stop a running sweep as Ctrl-C does, or stop one of its mixes. Finished runs are kept.

    Examples:

      stop add_vs_add_prod                  the newest sweep of this space; run ... --resume continues it

      stop add_vs_add_prod --mix add+prod   no more runs of this mix; the answer mentions it
    """
    stored = open_sweep(sweep, Home(home.resolve()))
    ask_to_stop(stored.sweep, mix or "")
    echo(f"{stored.id} will stop {mix or 'the whole sweep'} at the next evaluation of a stack")


@with_options(PlaceOptions, home=HomeOption)
def reproduce_command(
    options: PlaceOptions,
    spaces: Annotated[
        list[str] | None, typer.Argument(metavar="[SPACE]...", help="Search spaces; by default all shipped ones.")
    ] = None,
    profile: Annotated[str, typer.Option(help="The profile in which to run each search space.")] = "laptop",
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Override a field of every search space by its path: --set settings.model.init.std=0.2.",
        ),
    ] = None,
    only_table: Annotated[
        bool, typer.Option("--only-table", help="Run nothing: compare the sweeps that the home already has.")
    ] = False,
) -> None:
    """Run all experiments and compare them with expectations.

    Finished sweeps are not run again, and unfinished sweeps continue. You can interrupt this command and run it again.
    """
    shared = RunOptions(**vars(options)).checked()
    place = Home(options.home.resolve())
    check_own(place.root)
    hardware = hardware_at(options.address)
    invocation = Invocation(hardware=hardware, owns_process=True)
    choice = SpaceOptions(profile=profile, overrides=overrides or [])
    experiments = [_experiment(name, choice, hardware) for name in spaces or _all(profile)]
    reproduction = Reproduction(experiments, place, Output())
    overridden = f"_{crc32(json.dumps(choice.overrides).encode()):08x}" if choice.overrides else ""
    path = _directory_of_table(place, f"{profile}{overridden}") / "table.md"
    try:
        if not only_table:
            reproduction.run(shared, invocation, lambda: _write(reproduction, choice, path))
    finally:
        rows = over_table(reproduction.rows())
        shown = answer_table.plain_table(*HEADER)
        for row in rows:
            shown.add_row(*map(Text, row.cells))
        wide_console().print(shown)
        echo(summary(rows))
        for line in reproduction.imported:
            echo(line)
        _write(reproduction, choice, path)
        echo(f"table   {path}")
        if reproduction.missing:
            how = "omit --only-table" if only_table else "repeat this command"
            echo(f"missing {counted(len(reproduction.missing), 'sweep')}; to run them, {how}")


def _directory_of_table(home: Home, name: str) -> Path:
    """Return the directory of the table in a home. Raises ``UserError`` for a link there, which may be another
    user's."""
    try:
        return own_directory(home.root, "reproduce", name)
    except ValueError as error:
        raise UserError(f"the table cannot be written: {error}. Remove it") from error


def _write(reproduction: Reproduction, choice: SpaceOptions, path: Path) -> None:
    recipe = ", ".join([f"Profile {choice.profile}", *choice.overrides])
    cost = f"{recipe}: {counted(len(reproduction.sweeps), 'sweep')}, {duration(reproduction.seconds)} of training."
    above = " ".join([cost, *(f"{line}." for line in reproduction.imported)])
    replace_whole(path, markdown(over_table(reproduction.rows()), above))


def _all(profile: str) -> list[str]:
    """Return the shipped search spaces with expectations in this profile. Raises ``UserError`` if there are none."""
    spaces = [space for space in map(open_space, names()) if space.files[0].data.get("expects")]
    chosen = [space.name for space in spaces if profile in space.profiles]
    if not chosen:
        raise unknown("profile", profile, {name for space in spaces for name in space.profiles})
    for space in spaces:
        if space.name not in chosen:
            echo(f"{space.name} has no profile {profile!r} and is skipped", err=True)
    return chosen


def _experiment(name: str, choice: SpaceOptions, hardware: Hardware) -> Experiment:
    space = open_space(name)
    choice = choice if space.profiles else replace(choice, profile=None)
    specs = load_variants(name, choice, hardware)
    return Experiment(name, choice, tuple(specs), resolve_expectations(space, specs))
