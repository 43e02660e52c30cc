"""Commands for the time before a sweep: explain settings, check a machine or a family, simulate searches."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import typer
from rich.text import Text

from orchestrator.cli.options import HomeOption, resolve, wide_console, with_options
from orchestrator.doctor.machine import Grade, examined, machine_checks, place_of_tests
from orchestrator.forecast.cost_estimate import search_seconds
from orchestrator.forecast.simulation import compare_searchers
from orchestrator.report.answer_table import plain_table
from orchestrator.search.base import Problem
from orchestrator.search.registry import METHODS
from orchestrator.space.parsing import InvalidDataError, dotted, parse
from orchestrator.space.problem import problem_of
from orchestrator.space.settings_documentation import entries
from orchestrator.space.spaces import is_path, names
from orchestrator.space.spec import SweepSpec
from orchestrator.space.written_spec import SCRIPT
from orchestrator.sweep.run_options import SpaceOptions
from orchestrator.system import hardware
from orchestrator.system.did_you_mean import unknown
from orchestrator.system.environment import HOME, prefer_one_thread, temporary_directory
from orchestrator.system.errors import SweepError, UserError
from orchestrator.system.printing import Console, echo
from orchestrator.transition.types import CONFIDENCE
from trainables.base import Family
from trainables.families import BUILT_IN, load_family
from trainables.probes.base import BUILT_IN as PROBES
from trainables.probes.base import load_probe

TEXT_WIDTH = 96
"""Width in characters of the text of `doc`."""
GRADE_COLORS = {Grade.OK: "green", Grade.SLOW: "yellow", Grade.WRONG: "bold red"}
"""Style of each grade of `doctor`."""
GENERIC_SIZES = 46
"""Number of sizes from 8 to 256 without a search space."""
GENERIC_SEEDS = 8
"""Number of seeds without a search space."""
GENERIC_EXPONENT = 1.75
"""Exponent of size in a run's cost without a search space."""
COLUMN_MEANINGS = f"""\
runs: runs of one sweep
cost: cost relative to the full grid's
wall: time until the answer relative to the full grid's
busy: share of the workers' time that is spent on runs
error: median of |ln(estimate / truth)|; 0.05 is about 5% in size
covers: share of {CONFIDENCE:.0%} intervals that contain the truth"""
"""Note below the table of `simulate`, with a line for each column."""


def doc_command(
    setting: Annotated[
        str | None, typer.Argument(metavar="[SETTING]", help="A full key or its last part; by default all keys.")
    ] = None,
    family: Annotated[
        str, typer.Option(metavar="NAME|MODULE:CLASS", help="The family of models with these settings.")
    ] = "listops",
) -> None:
    """Explain a setting: its meaning, values and default; or a probe: its numbers.

    Examples:

      doc settings.training.learning_rate

      doc resources               all keys below this one

      doc --family permutations   every key

      doc probes                  every probe: its numbers with their formulas, ranges and sources

      doc probes.separation       one probe; for your own: doc package.module:Class
    """
    if setting is not None and ":" in setting:
        echo(_probe_text(setting))
        return
    given = "." if setting is None else f".{setting}."
    all_entries = entries(family)
    all_probes = {f"probes.{name}": name for name in PROBES}
    settings = [entry for entry in all_entries if given in f".{entry.path}."]
    probes = {path: name for path, name in all_probes.items() if setting is not None and given in f".{path}."}
    if setting is not None and not settings and not probes:
        paths = [*(entry.path for entry in all_entries), *all_probes]
        raise unknown("setting", setting, paths if "." in setting else {path.rpartition(".")[2] for path in paths})
    for entry in settings:
        default = f"; by default {entry.default}" if entry.default else ""
        echo(f"{entry.path}: {entry.form}{default}")
        if setting is not None and entry.text:
            echo(textwrap.fill(entry.text.replace("``", "`"), TEXT_WIDTH, initial_indent="  ", subsequent_indent="  "))
    for path, name in probes.items():
        echo(f"\n{path}: a probe\n" + textwrap.indent(_probe_text(name), "  "))


def _probe_text(name: str) -> str:
    return inspect.cleandoc(type(load_probe(name)).__doc__ or "").replace("``", "`")


def doctor_command(home: HomeOption = HOME) -> None:
    """Test everything that a sweep needs from this machine.

    Prints one line per part. Exit code 1 means that something is wrong.
    """
    console = wide_console()
    place = home.resolve()
    here = hardware.detect()
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    checks = machine_checks(place)
    if here.gpus:
        from orchestrator.doctor.gpu import gpu_checks  # torch takes two seconds.

        checks += gpu_checks(place_of_tests(place))
    findings = []
    for finding in examined(checks):
        findings.append(finding)
        grade = (f"{finding.grade:<6}", GRADE_COLORS[finding.grade])
        line = Text.assemble(grade, f"{finding.name:<14} {finding.text}")
        if finding.todo:
            line.append(f"\n{'':20} -> {finding.todo}")
        console.print(line, highlight=False, soft_wrap=True)
    grades = [finding.grade for finding in findings]
    counts = ", ".join(f"{grades.count(grade)} {grade}" for grade in Grade)
    echo(f"{here}: {counts}, in {sum(finding.seconds for finding in findings):.0f} s")
    if Grade.WRONG in grades:
        raise typer.Exit(1)


@with_options(SpaceOptions)
def check_family_command(
    options: SpaceOptions,
    family: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:CLASS", help="A family's class or short name, or a search space with its settings."
        ),
    ],
    size: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Train at this size (repeatable); by default at two sizes of the family."),
    ] = None,
    device: Annotated[str, typer.Option(help="The torch device to train on: cpu, cuda.")] = "cpu",
) -> None:
    """Check whether a family of models satisfies its contract, part by part.

    The check trains some runs of the smallest size to their end, so choose fast settings. A script is trained
    to its second evaluation, killed, and continued.

    Examples:

      check-family my_models.graphs:GraphNetwork

      check-family my_space.yaml --profile smoke
    """
    prefer_one_thread()
    import torch

    from trainables.contract.conformance import Case, case_of, findings
    from trainables.contract.report_validator import BrokenFamilyError
    from trainables.script.checks import ScriptChecks
    from trainables.script.family import ScriptFamily

    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise unknown("device", device, ("cpu", "cuda"), where="--device")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise UserError(f"--device {device}: torch finds no GPU on this machine; run `doctor` for details")
    made, spec = _family(family, options)
    counts: Counter[str] = Counter()
    with temporary_directory("check-family-") as directory:
        try:
            # Only the search space knows which sizes and mixes a script understands.
            if spec is not None and isinstance(made, ScriptFamily):
                sizes = tuple(sorted(set(size or spec.sizes))[:2])
                case = Case(made, spec.mixes[:2], sizes, device, directory)
            else:
                case = case_of(made, size or (), device, directory)
        except BrokenFamilyError as error:
            raise SweepError(f"the family {made.name!r} does not satisfy its contract: {error}") from error
        arms = ", ".join(arm.name for arm in case.arms)
        echo(f"{made.name}: {arms} at {made.size_axis} {', '.join(map(str, case.sizes))}")
        for finding in ScriptChecks(case).findings() if isinstance(made, ScriptFamily) else findings(case):
            word = "wrong" if finding.wrong else "skipped" if finding.skipped else "ok"
            echo(f"{word:8}{finding.name}")
            for line in (finding.wrong or finding.skipped or finding.notes).splitlines():
                echo(f"        {line}")
            counts[word] += 1
    if failed := counts["wrong"]:
        of = failed + counts["ok"]
        raise SweepError(f"the family {made.name!r} does not satisfy its contract: {failed} of {of} checks failed")
    echo(f"the family {made.name!r} passed all {counts['ok']} checks of its contract")


def _family(name: str, options: SpaceOptions) -> tuple[Family, SweepSpec | None]:
    """Return a family from its name or from a search space. Also return the search space's specification, or None."""
    if ":" not in name and name not in BUILT_IN:
        if not is_path(name) and name not in names():
            raise unknown("family or search space", name, [*BUILT_IN, *names()])
        spec = resolve(name, options)
        return spec.family_source.with_file_hashes().make(), spec
    if options.words():
        raise UserError(
            "--profile, --variant and --set apply only to a search space: name a space instead of the class"
        )
    if name == SCRIPT:
        raise UserError("a script is described by a search space: name its file")
    kind = load_family(name)
    if missing := sorted(kind.__abstractmethods__):
        raise UserError(f"{name!r} is not a complete family: it lacks {', '.join(missing)}")
    try:
        return kind(parse(kind.Settings, {})), None
    except InvalidDataError as error:
        mistakes = "; ".join(f"{dotted(mistake.key)}: {mistake.message}" for mistake in error.mistakes)
        raise UserError(f"{name!r} needs settings ({mistakes}): name a search space that contains them") from error


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
    """Compare the search methods on simulated sweeps: cost, error, coverage."""
    problem, methods, costs = _problem(space, options, method, stack)
    console = Console()
    with Console(stderr=True).status("simulating") as status:
        results = compare_searchers(
            problem,
            methods,
            costs,
            sweeps=truths,
            seed=seed,
            workers=workers,
            stack=stack,
            on_sweep=lambda sweep: status.update(f"simulating {sweep}"),
        )
    table = plain_table("method", "runs", "cost", "wall", "busy", "error", "covers")
    for place, column in enumerate(table.columns):
        column.justify = "right" if place else "left"
        column.no_wrap = True
    for row in results:
        figures = (f"{row.runs:.1f}", f"{row.cost:.2f}", f"{row.wall:.2f}", f"{row.busy:.0%}")
        table.add_row(row.method, *figures, "-" if row.error is None else f"{row.error:.3f}", f"{row.holds:.0%}")
    console.print(Text(f"simulated sweeps: {truths}, mixes in each: {len(problem.mixes)}", style="bold"))
    console.print(table)
    console.print(Text(COLUMN_MEANINGS, style="dim"))


def _problem(
    space: str | None, options: SpaceOptions, given: list[str] | None, stack: int
) -> tuple[Problem, Mapping[str, Mapping[str, Any]], Mapping[int, float]]:
    """Return the problem of a search space (or a general problem), the search methods with their settings, and costs by
    size."""
    for name in given or ():
        if name not in METHODS:
            raise unknown("search method", name, METHODS, where="--method")
    methods: dict[str, Mapping[str, Any]] = {name: {"stack": stack} for name in given or METHODS}
    if space is None:
        if options.words():
            raise UserError("--profile, --variant and --set apply only to a search space: name one")
        sizes = tuple(int(size) for size in np.unique(np.geomspace(8, 256, GENERIC_SIZES).round().astype(int)))
        costs = {size: float(size) ** GENERIC_EXPONENT for size in sizes}
        return Problem(("mix",), sizes, tuple(range(GENERIC_SEEDS))), methods, costs
    spec = resolve(space, options)
    if spec.search.method in methods:
        methods[spec.search.method] = spec.search.with_stack(stack).settings
    return problem_of(spec), methods, search_seconds(spec)
